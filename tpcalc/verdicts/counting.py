"""A program whose powers of L are counted: its first steps, with updates of all matrices, of one, or of none.

Other optimizers stand in it as plain or heavy-ball gradient descent whose updates have the same powers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Mapping, Sequence

import sympy as sp

from .._checks import choice
from ..asymptotics import KET, Counted, SizeSolution, TermEntry, Unknown
from ..asymptotics.cells import Point
from ..calculus import KetEquations, kets
from ..calculus.kets import Bracket, Ket
from ..calculus.setting import Setting
from ..errors import Divergence, NotCovered
from ..limits.inlining import MOVE, trained_vector_rates, vector_of
from ..limits.layer_map import NoStreams
from ..limits.slow_streams import normal_form
from ..optimizers import SGD, SignSGD
from ..optimizers.clipped import Clipped
from ..optimizers.faithful import direction_power
from ..optimizers.updates import BY_NAME, Optimizer, optimizer_name, require_optimizer, unclipped
from ..programs.algebra import power_of
from ..programs.blocks import is_linear_in_vectors
from ..programs.language import Matrix, Member, NonlinearOuter, Outer, Vector
from ..programs.indices import copied_from, made_name
from ..programs.special import require_no_explosion
from ..programs.program import Program
from ..scaling import Parametrization, Scaling
from ..training.builders import counted_training
from .counted import Judged, apart_of, counted_program
from .ket_exponents import ONE_MULTIPLIER, Branches, Exponents, exponents_of_kets, last_update

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)
EVERY, FIRST = "every matrix", "the first step"


class OwnLayers(Divergence):
    """Layers that explode, or forget what they find, by themselves, whatever is trained."""

    def __init__(self, name: str, explodes: bool) -> None:
        super().__init__(f"program {name}: its layers explode or forget by themselves, whatever is trained")
        self.explodes = explodes


@dataclass(frozen=True)
class Counting:
    """The terms of a training's first steps, each update's with the matrix that it is of; source: the program.

    values: of the symbols in the program, thought of as moved a little along directions; brought: which matrices bring
    which terms, as far as that was asked, shared with other values; solved: what was evaluated at these; apart: powers
    of 1/L of what multiplies branches of some matrices besides.
    """

    source: Program
    counted: Counted
    values: Mapping[sp.Symbol, sp.Expr] = field(default_factory=dict)
    directions: Sequence[Point] = ()
    brought: dict[tuple[int, sp.Expr], str | None] = field(default_factory=dict, compare=False, repr=False)
    solved: dict[tuple[object, int], SizeSolution] = field(default_factory=dict, compare=False, repr=False)
    apart: Mapping[str, sp.Expr] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, one: Program, apart: Mapping[str, sp.Expr] = MappingProxyType({})) -> Counting:
        """Raises ``OwnLayers`` for layers that explode or forget by themselves, ``ValueError`` where no rule is."""
        depth = Setting.of(one).depth
        if depth is None:
            raise NotCovered(f"program {one.name} has no layers, so that nothing depends on the depth")
        found = normal_form(one, depth)
        if found.explodes or found.forgets:
            raise OwnLayers(one.name, bool(found.explodes))
        return cls(one, Counted(kets(found.program)), apart=apart)

    @property
    def equations(self) -> KetEquations:
        return self.counted.equations

    @property
    def exact(self) -> bool:
        """Are all terms reached, as in networks that are linear in vectors?"""
        return is_linear_program(self.source)

    def there(self, values: Mapping[sp.Symbol, sp.Expr], directions: Sequence[Point] = ()) -> Counting:
        """The terms at values of all symbols; ``NotCovered`` where one is no rational number."""
        for name, value in values.items():
            if not value.is_Rational:
                raise NotCovered(f"{name}: got {value}; expected rational numbers, for "
                                 "exponents are affine forms with rational coefficients")
        return replace(self, values=values, directions=directions, solved={})

    def after(self, steps: int, matrix: object = EVERY) -> SizeSolution:
        """The first training steps, with updates of all matrices, of one, or of none, where None is given."""
        location = matrix, steps
        if location not in self.solved:
            keep = None if matrix is EVERY else lambda entry: self.matrix_of(entry) in (None, matrix)
            first = None if matrix is EVERY else self._before_updates(steps)
            self.solved[location] = self.counted.at(self.values, steps, keep, self.directions, first)
        return self.solved[location]

    def _before_updates(self, steps: int) -> SizeSolution:
        """The first step, with all that as many steps read of it."""
        self.counted.entries.upto(steps)
        location = FIRST, len(self.counted.entries.of)
        if location not in self.solved:
            self.solved[location] = self.counted.at(self.values, 1, directions=self.directions)
        return self.solved[location]

    def settled(self) -> SizeSolution:
        """The steps that decide those of all, of all matrices together."""
        location = EVERY, 0
        if location not in self.solved:
            self.solved[location] = self.counted.settled(self.values, directions=self.directions)
        return self.solved[location]

    def decided(self) -> SizeSolution:
        """Those steps; raises ``NotCovered`` for what no rule covers."""
        return self.checked(self.settled())

    def checked(self, found: SizeSolution) -> SizeSolution:
        """A solution as it is; raises ``NotCovered`` for what no rule covers."""
        found.require_forgotten()
        require_no_explosion(self.source, bool(found.explosions) and not found.gradients_alone)
        return found

    def exponents(self, updates: int = 1, alone: bool = False) -> Exponents:
        """The exponents at values, after the steps that decide those of all, or after so many updates alone."""
        return self.read(self.counted_after(updates, alone), updates)

    def counted_after(self, updates: int, alone: bool) -> SizeSolution:
        """The steps that decide those of all, or those up to an update alone."""
        return self.checked(self.updated(updates)) if alone else self.decided()

    def together(self, updates: int = 1) -> tuple[SizeSolution, Exponents]:
        """The first updates of all matrices together."""
        solution = self.updated(updates)
        return solution, self.read(solution, updates)

    def updated(self, updates: int, matrix: object = EVERY) -> SizeSolution:
        """The steps up to an update, fewer where these repeat."""
        steps = min(updates, 2) + 1
        while True:
            found = self.after(steps, matrix)
            found.settled = not found.explosions and steps > 2 and found.steps == steps and found.repeats(steps - 1)
            if found.settled or found.explosions or steps > updates:
                found.held = matrix is EVERY and bool(found.explosions) and found.is_held(found.steps - 1)
                return found
            steps += 1

    def read(self, solution: SizeSolution, updates: int = 1, at_first: bool = True) -> Exponents:
        """The exponents after so many updates."""
        branches = Branches(self.apart, self.matrix_of) if self.apart else ONE_MULTIPLIER
        return exponents_of_kets(solution, self.source, last_update(solution, updates), self.exact, at_first, branches)

    @property
    def decays(self) -> bool:
        """Is nothing left of the stream at the first step?"""
        solution = self.after(1)
        return solution.value_of(Unknown(KET, 0, self.counted.reading.stream)) is None

    def matrix_of(self, one: TermEntry) -> str | None:
        """The matrix, or trained vector, whose update brings a term, None where none does; found once a term."""
        location = one.equation, one.term
        if location not in self.brought:
            self.brought[location] = self._brought_by(one)
        return self.brought[location]

    def _brought_by(self, one: TermEntry) -> str | None:
        """What brings a term, read off it.

        An update is a sum over steps of averages of a vector of these steps with one of now. The dots of initial
        matrices are sums, too, and what normalizes a vector is an average; neither is both.
        """
        if one.equation < 0 or not isinstance(one.term, sp.Sum):
            return None
        if vector_of(one.term):
            return vector_of(one.term)
        steps = {limit[0] for limit in one.term.limits}
        setting = self.equations.setting
        means = {mean for mean in one.term.atoms(Bracket)
                 if mean.free_symbols & steps and setting.time in mean.free_symbols}
        if not means:
            return None
        target = self.equations.equations[one.equation].target
        assert isinstance(target, Ket)
        averaged = {setting.family_number(v) for mean in means for v in mean.atoms(Vector)}
        acting = [p for p in setting.products if setting.family_number(p.matvec.vector) in averaged]
        named = [p for p in acting if p.location.statement.target.same_family(target.vector)]
        # a product that has a name of its own stands in the equations of others, too, written out
        found = {p.matrix.name for p in named or acting}
        if len(found) > 1:  # of matrices that act on one vector each brings a gradient of its own
            brought = {setting.family_number(one.vector) for one in one.term.atoms(Ket)}
            found = {p.matrix.name for p in acting for q in setting.products if q.transposed != p.transposed
                     and q.matrix.same_family(p.matrix) and setting.family_number(q.matvec.vector) in brought} or found
        found = set(map(copied_from, found))
        if len(found) != 1:
            known = sorted(found) or sorted({copied_from(p.matrix.name) for p in setting.products})
            raise NotCovered(f"program {self.source.name}: the term {one.term} of the equation of {target} is an "
                             f"update of one of the matrices {', '.join(known)}, and which one is not known; expected "
                             "blocks that name (branch.let) products of two matrices with one vector")
        return found.pop()

    def alone(self, matrix: str | None, updates: int = 1) -> Exponents:
        """The exponents of the first updates where no other matrix is trained, and none where None is given, weight
        decay going on. Raises ``Divergence`` for networks that explode at initialization, from which no update starts.
        """
        solution = self.updated(updates, matrix)
        if solution.explosions and solution.explosions[0][0].step == 0:
            raise Divergence("the network explodes at initialization, so that updates have nothing to start from")
        solution.require_gradients()
        return self.read(solution, updates, False)

    def number_of(self, matrix: str) -> sp.Expr:
        """The power of L of the number in front of a matrix's outer products, the largest of them."""
        moves = [sp.expand(p.statement.value) for p in self.source.locations()
                 if isinstance(p.statement.target, Matrix) and p.statement.target.name == matrix]
        return max(self._power(value.coeff(outer)) for value in moves for outer in value.atoms(Outer))

    def _power(self, number: sp.Expr) -> sp.Expr:
        return power_of(number, Setting.of(self.source).depth).subs(self.values)

    def gradients(self, step: int) -> dict[str, sp.Expr]:
        """Powers of L of what moves all matrices at a step: of an outer product, both of its vectors, and the number in
        front of it, the size of an update included; and of what moves trained vectors."""
        solution, setting = self.after(step + 1), self.equations.setting
        sizes: dict[str, sp.Expr] = {}

        def size(vector: Vector) -> sp.Expr:
            if setting.initial_number(vector) is not None:
                return sp.Integer(0)
            exploded = solution.steps <= step
            return sp.oo if exploded else solution.of_vector(vector, step).exponent

        for p in setting.products:
            if p.transposed:
                ahead = next(q for q in setting.products if not q.transposed and q.matrix.same_family(p.matrix))
                name = copied_from(p.matrix.name)
                of_both = (size(p.matvec.vector), size(ahead.matvec.vector))
                moved = sp.oo if sp.oo in of_both else sum(of_both) + self.number_of(name)
                sizes[name] = max(moved, sizes.get(name, moved))
        for name, power in self.steps_of_vectors().items():
            sizes[name] = size(next(v for v in setting.families if v.name == made_name(MOVE, name))) + power
        return sizes

    def steps_of_vectors(self) -> dict[str, sp.Expr]:
        """Powers of L of the number in front of what moves trained vectors in a step."""
        return {name: self._power(number) for name, number in trained_vector_rates(self.source).items()}


def is_linear_program(one: Program) -> bool:
    """Are all vectors linear in vectors and matrices, and all updates in outer products?"""
    return all(is_linear_in_vectors(p.statement.value) if isinstance(p.statement.target,
                                                                     Vector) and p.statement.value != 0
               else not p.statement.value.has(NonlinearOuter) for p in one.locations())


def training_terms(net: Judged, scale: Scaling, opt: SGD = SGD()) -> Counting:
    """The terms of a network's training by SGD at a scaling, written once for all scalings."""
    try:
        terms, names = in_symbols(net, opt), symbols_of(net)
    except NoStreams:  # what its layers do may depend on alpha
        return Counting.of(counted_program(net, opt, scale), apart_of(net))
    values = {names["alpha"]: scale.alpha, **{names[name]: scale.update_exponent(name)
                                              for name in net.trained_of_block}}
    there = terms.there(values)
    return there if there.counted.is_gradual(values) else Counting.of(counted_program(net, opt, scale), apart_of(net))


def symbols_of(net: Judged) -> dict[str, sp.Symbol]:
    return {"alpha": ALPHA, **{name: sp.Symbol(f"gamma_{name}", real=True) for name in net.trained_of_block}}


@lru_cache(maxsize=16)
def in_symbols(net: Judged, opt: SGD) -> Counting:
    return Counting.of(counted_program(net, opt, Parametrization(depth=symbols_of(net))), apart_of(net))


def optimizer_or_default(opt: Any) -> Optimizer | Clipped:
    """An optimizer, one that sees clipped gradients, or one by name, with its default settings; plain SGD where there
    is none."""
    if opt is None:
        return SGD()
    if isinstance(opt, str):
        return BY_NAME[choice("opt", opt, BY_NAME)]
    inside = unclipped(opt)
    require_optimizer(inside)
    optimizer_name(inside)  # of others the direction's size is not known
    return opt


def is_plain(opt: Optimizer) -> bool:
    """Plain gradient descent, whose learning rates, of order one, count as nothing?"""
    return isinstance(opt, SGD) and not opt.momentum and not opt.weight_decay


def as_gradient_descent(net: Judged, opt: Optimizer, scale: Scaling, updates: int = 2) -> tuple[SGD, Scaling]:
    """A linear optimizer, and the scaling at which its updates have the powers of L that ``opt`` has at ``scale``.

    An optimizer that is no linear function of gradients moves weights by L^-gamma times its direction, whose size is
    that of its own formula: of order one while eps is no larger than the gradients, and linear below, both in units in
    which a branch multiplier is taken out of gradients. Where gradients are of order one in these units, as they are in
    stable networks of most blocks, nothing changes. updates: how many are counted, each of gradients of its own. Raises
    ``ValueError`` where gradients change their power in training that is counted, and where one vanishes.
    """
    if isinstance(opt, SGD):
        return opt, scale
    linear = SGD(weight_decay=float(opt.weight_decay), decoupled=True) if opt.weight_decay else SGD()
    terms = training_terms(net, scale)
    eps = getattr(opt, "eps", None)
    kept = None if eps is None or eps == 0 else sp.Integer(0)
    moved, sizes = {}, _sizes_of_vectors(net, scale)
    for name, moves in terms.gradients(0).items():
        power = moves - sizes.get(name, -scale.update_exponent(name))
        if power == sp.oo:
            return linear, scale  # what explodes at initialization does so whatever is trained
        if power == -sp.oo and terms.decays:
            return linear, scale  # so does what decays: updates have nothing to act on where it is read
        if power == -sp.oo:
            raise NotCovered(f"net: got {net!r}; the gradient of {name} vanishes at the first step, and with it no "
                             f"size of {optimizer_name(opt)}'s direction is known")
        moved[name] = scale.update_exponent(name) + direction_power(opt, -power, kept) + power
    if any(moved[name] != scale.update_exponent(name) for name in moved):
        whole = scale if isinstance(scale, Parametrization) else Parametrization(depth=scale)
        scale = whole.with_exponents(scale.alpha, moved).over(net.trained_of_block, ends=False)
        terms = training_terms(net, scale)
    for step in range(1, updates):
        changed = _changed_gradient(terms, step)
        if changed is not None and not _has_grown(net, terms):
            start, later = (terms.gradients(t)[changed] for t in (0, step))
            raise NotCovered(f"net: got {net!r}; gradients of {changed} go from L^({start}) to L^({later}) in "
                             f"{step} step{'s' * (step > 1)}, so that {optimizer_name(opt)}'s updates are not "
                             f"counted beyond the first{f' {step}' * (step > 1)}")
    return linear, scale


def without_clipping(net: Judged, opt: Clipped, scale: Scaling) -> Scaling:
    """The scaling at which an optimizer moves weights without clipping as far as it does with it.

    |G| is as large as the largest gradient of a matrix, in units in which the branch multiplier is taken out. Where
    that is of order one or less, so is the factor; where it grows with L, the factor divides updates of gradient
    descent by that power, and does nothing to directions of signs. Raises ``ValueError`` where the power changes in a
    step.
    """
    if not isinstance(opt.opt, SGD):
        return scale
    terms = training_terms(net, scale)
    first, second = (max([sp.Integer(0), *(power + scale.update_exponent(name) for name, power in terms.gradients(
        step).items() if name in net.matrices_of_block)]) for step in range(2))
    if first == sp.oo or first == 0 and second in (0, sp.oo):
        return scale
    if second not in (first, sp.oo):
        raise NotCovered(f"opt: got {opt!r}; the gradients that are clipped go from L^({first}) to L^({second}) in a "
                         "step, so that updates are not counted; expected no clipping, or other exponents")
    whole = scale if isinstance(scale, Parametrization) else Parametrization(depth=scale)
    moved = {name: scale.update_exponent(name) + first for name in net.trained_of_block}
    return whole.with_exponents(scale.alpha, moved).over(net.trained_of_block, ends=False)


def gradients_change(net: Judged, scale: Scaling) -> bool:
    """Have gradients other powers of L at the second step than at the first?"""
    return _changed_gradient(training_terms(net, scale), 1) is not None


def _changed_gradient(terms: Counting, step: int) -> str | None:
    """What has a gradient of another power of L at a step than at the first, other than one that explodes."""
    start, later = terms.gradients(0), terms.gradients(step)
    return next((name for name in start if later[name] not in (start[name], sp.oo)), None)


def _has_grown(net: Judged, terms: Counting) -> bool:
    """Does the first update of a transformer, of which no more is counted, make its stream grow, or is it larger before
    that already? Gradients of later steps, which grow with it, then decide nothing."""
    if not net.positions:
        return False
    _, exponents = terms.together()
    return max(exponents.x_init.at(()), exponents.dx.at(())) > 0


def _sizes_of_vectors(net: Judged, scale: Scaling) -> dict[str, sp.Expr]:
    """Powers of L of what trained vectors move by where their directions are of order one: those of signs. What stands
    before their gradients may have powers of L that are the gradients' own."""
    if not net.vectors_of_block:
        return {}
    written, found = counted_training(net, SignSGD(), scale), {}
    depth = Setting.of(written).depth
    for p in written.locations():
        one, clock = p.statement, written.clock()
        if one.target.name in net.vectors_of_block and clock in p.loops:
            moves = one.value - one.target.subs(clock.index, clock.index - 1)
            number = moves.as_independent(Member, as_Add=False)[0]
            found[one.target.name] = power_of(number, depth)
    return found
