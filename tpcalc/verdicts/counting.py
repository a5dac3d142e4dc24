"""A program whose powers of L are counted: its first steps, with updates of all matrices, of one, or of none."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Mapping, Sequence

import sympy as sp

from ..asymptotics import KET, Counted, SizeSolution, TermEntry, Unknown
from ..asymptotics.cells import Point
from ..calculus import KetEquations, kets
from ..calculus.kets import Bracket, Ket
from ..calculus.setting import Setting
from ..errors import Divergence, NotCovered
from ..limits.eigenspaces import NoStreams
from ..programs.made_names import copied_from, made_name
from ..limits.slow_streams import normal_form
from ..limits.trained_vectors import MOVE, trained_vector_rates, vector_of
from ..limits.uncounted import require_no_explosion
from ..optimizers import SGD
from ..programs.algebra import power_of
from ..programs.blocks import is_linear_in_vectors
from ..programs.language import Matrix, NonlinearOuter, Outer, Vector
from ..programs.program import Program
from ..scaling import Parametrization, Scaling
from .counted import Judged, apart_of, counted_program
from .ket_exponents import ONE_MULTIPLIER, Branches, exponents_of_kets, last_update
from .sizes import Exponents

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
