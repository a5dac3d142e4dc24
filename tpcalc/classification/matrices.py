"""What the updates of each matrix do by themselves: counted in the network's own terms, the others' left out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Iterator, Mapping, Sequence

import sympy as sp

from .._shown import Short, or_why
from ..asymptotics import KET, Counted, TermEntry, SizeSolution, Unknown
from ..asymptotics.cells import Evaluated, Point, cells
from ..calculus import KetEquations, kets
from ..calculus.kets import Bracket, Ket
from ..calculus.setting import Setting
from ..errors import Divergence, NotCovered
from ..limits.eigenspaces import NoStreams
from ..limits.made_names import copied_from, made_name
from ..limits.slow_streams import normal_form
from ..limits.trained_vectors import MOVE, trained_vector_rates, vector_of
from ..parametrizations import Parametrization, Scaling
from ..programs import SGD
from ..programs.language import Matrix, Outer, Vector
from ..programs.program import Program
from .counted import BranchesApart, Judged, apart_of, counted_program
from .exponents import ALPHA, evaluated_exponents, is_linear_program
from .ket_exponents import ALIKE, Branches, exponents_of_kets, last_update
from .layer_jet import layer_jet
from .second_order import block_jet, second_order
from .sizes import Exponents

LEARNS, DRIFTS, LAZY, UNSTABLE, UNDECIDED = "learns", "drifts", "lazy", "unstable", "undecided"
EVERY, FIRST = "every matrix", "the first step"
HAPPENS = {
    LEARNS: "its updates change what it acts on in its own layer, and the network",
    DRIFTS: "its updates vanish in a layer, and add up over layers to order one",
    LAZY: "its updates have no effect on the network",
    UNSTABLE: "its updates alone make the network grow",
    UNDECIDED: "of which upper bounds alone are known"}


@dataclass(frozen=True, repr=False)
class MatrixVerdict(Short):
    """What the updates of one matrix of a block do, where no other matrix is trained.

    gamma: its update exponent; update: the power of L of what an update makes of what the matrix acts on, in a layer;
    effect, output: of what one step's updates of all layers change in the stream and in f. name: "learns" where update
    and effect are of order one, "drifts" where the effect alone is, "lazy" where it vanishes, "unstable" where it
    grows, "undecided" where what decides is known to be an upper bound only. second_order: the power of L of the ratio
    of the second-order to the first-order part of what the update does to the block, together with those of other
    matrices, -oo where there is none; partners: the matrices with whose
    updates it interacts so. complete: that ratio does not vanish.

    Source: Tensor Programs VI, K.2 and K.3; the ratio is what arXiv:2505.01618 asks a network to keep.

    >>> import tpcalc as tp
    >>> found = tp.classify(1, 0, tp.ResNet("linear", "mlp")).matrices["W1"]
    >>> found.name, found.second_order, found.partners
    ('learns', 0, ('W2',))
    """

    matrix: str
    gamma: sp.Expr
    name: str
    update: sp.Expr
    effect: sp.Expr
    output: sp.Expr
    second_order: sp.Expr
    partners: tuple[str, ...]

    @property
    def complete(self) -> bool:
        return bool(self.second_order >= 0)

    @property
    def reason(self) -> str:
        """The verdict in a sentence, with the powers that decide."""
        sizes = {"a layer": self.update, "the stream": self.effect, "f": self.output}
        said = ", ".join(f"L^({power}) in {where}" for where, power in sizes.items())
        return f"{self.matrix}, gamma = {self.gamma}: {self.name}, {HAPPENS[self.name]} ({said})"

    def __str__(self) -> str:
        if not self.partners:
            return f"{self.reason}; the block is linear in it"
        return (f"{self.reason}; second over first order L^({self.second_order}), with "
                f"{', '.join(self.partners)}")


class MatrixVerdicts(Mapping[str, MatrixVerdict]):
    """The verdicts on all matrices of a network's blocks at a scaling, by name, counted when one is asked for."""

    def __init__(self, net: Judged, scale: Scaling, updates: int = 1) -> None:
        self.net, self.scale, self.updates = net, scale, updates

    def __iter__(self) -> Iterator[str]:
        return iter(self.net.trained_of_block)

    def __len__(self) -> int:
        return len(self.net.trained_of_block)

    def __getitem__(self, name: str) -> MatrixVerdict:
        return dict(_verdicts(self.net, self.scale, self.updates))[name]

    def __repr__(self) -> str:
        return f"MatrixVerdicts({', '.join(self)})"

    def __str__(self) -> str:
        return "\n".join(or_why(lambda: self[name]) for name in self)


def gammas_of(matrices: Mapping[str, MatrixVerdict]) -> dict[str, sp.Expr]:
    """The update exponents, without counting anything."""
    assert isinstance(matrices, MatrixVerdicts)
    apart = apart_of(matrices.net)
    return {name: matrices.scale.update_exponent(name) + apart.get(name, 0) for name in matrices}


def alphas_of(matrices: Mapping[str, MatrixVerdict], alpha: sp.Expr) -> dict[str, sp.Expr]:
    """alpha by kinds of branches, where these differ."""
    net = getattr(matrices, "net", None)
    return {kind: alpha + power for kind, power in zip(net.branch_kinds, net.apart)} if isinstance(
        net, BranchesApart) else {}


@lru_cache(maxsize=128)
def _verdicts(net: Judged, scale: Scaling, updates: int) -> tuple[tuple[str, MatrixVerdict], ...]:
    terms = training_terms(net, scale)
    found = {name: terms.alone(name, updates) for name in net.trained_of_block}
    jet = layer_jet(terms.source) if terms.values else block_jet(net)  # in symbols it is the same everywhere
    together = second_order(jet, {name: e.update.at(()) for name, e in found.items()})
    apart = apart_of(net)
    return tuple((name, _verdict(name, scale.update_exponent(name) + apart.get(name, 0), e, *together[name]))
                 for name, e in found.items())


def _verdict(name: str, gamma: sp.Expr, e: Exponents, ratio: sp.Expr, partners: tuple[str, ...]) -> MatrixVerdict:
    sizes = {"update": e.update.at(()), **{key: sp.oo if e.explosions else getattr(e, key).at(())
                                           for key in ("dx", "df")}}
    largest = max(("dx", "df"), key=lambda key: sizes[key])
    effect = sizes[largest]
    kind = UNSTABLE if effect > 0 else LAZY if effect < 0 else LEARNS if sizes["update"] >= 0 else DRIFTS
    decides = {UNSTABLE: {largest}, LAZY: set(), LEARNS: {largest, "update"}, DRIFTS: {largest}}[kind]
    if not e.exact and (e.bounds & decides or e.explosions):
        kind = UNDECIDED
    return MatrixVerdict(name, gamma, kind, sizes["update"], sizes["dx"], sizes["df"], ratio,
                         partners)


def training_terms(net: Judged, scale: Scaling, opt: SGD = SGD()) -> MatrixTerms:
    """The terms of a network's training by SGD at a scaling, written once for all scalings."""
    try:
        terms, names = in_symbols(net, opt), symbols_of(net)
    except NoStreams:  # what its layers do may depend on alpha
        return MatrixTerms.of(counted_program(net, opt, scale), apart_of(net))
    values = {names["alpha"]: scale.alpha, **{names[name]: scale.update_exponent(name)
                                              for name in net.trained_of_block}}
    there = terms.there(values)
    return there if there.counted.is_gradual(values) else MatrixTerms.of(counted_program(net, opt, scale),
                                                                         apart_of(net))


def symbols_of(net: Judged) -> dict[str, sp.Symbol]:
    return {"alpha": ALPHA, **{name: sp.Symbol(f"gamma_{name}", real=True) for name in net.trained_of_block}}


@lru_cache(maxsize=16)
def in_symbols(net: Judged, opt: SGD) -> MatrixTerms:
    return MatrixTerms.of(counted_program(net, opt, Parametrization(depth=symbols_of(net))), apart_of(net))


@dataclass(frozen=True)
class MatrixTerms:
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
    def of(cls, one: Program, apart: Mapping[str, sp.Expr] = MappingProxyType({})) -> MatrixTerms:
        """Raises ``Divergence`` for layers that explode or forget by themselves, ``ValueError`` where no rule is."""
        depth = Setting.of(one).depth
        assert depth is not None
        found = normal_form(one, depth)
        if found.explodes or found.forgets:
            raise Divergence(f"program {one.name}: its layers explode or forget by themselves, whatever is trained")
        return cls(one, Counted(kets(found.program)), apart=apart)

    @property
    def equations(self) -> KetEquations:
        return self.counted.equations

    @property
    def exact(self) -> bool:
        """Are all terms reached, as in networks that are linear in vectors?"""
        return is_linear_program(self.source)

    def there(self, values: Mapping[sp.Symbol, sp.Expr], directions: Sequence[Point] = ()) -> MatrixTerms:
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

    def together(self, updates: int = 1) -> tuple[SizeSolution, Exponents]:
        """The first updates of all matrices together."""
        solution = self.updated(updates)
        return solution, self._read(solution, updates)

    def updated(self, updates: int, matrix: object = EVERY) -> SizeSolution:
        """The steps up to an update, fewer where these repeat."""
        steps = min(updates, 2) + 1
        while True:
            found = self.after(steps, matrix)
            found.settled = not found.explosions and steps > 2 and found.steps == steps and found.repeats(steps - 1)
            if found.settled or found.explosions or steps > updates:
                return found
            steps += 1

    def _read(self, solution: SizeSolution, updates: int, at_first: bool = True) -> Exponents:
        branches = Branches(self.apart, self.matrix_of) if self.apart else ALIKE
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
        return self._read(solution, updates, False)

    def alone_by_regions(self, matrix: str) -> tuple[Exponents, ...]:
        """Those exponents on all regions of the symbols' space, wherever the network does not explode at first."""
        def evaluated(point: Point, directions: Sequence[Point]) -> Evaluated[Exponents]:
            values = {s: sp.Rational(x.numerator, x.denominator) for s, x in zip(self.counted.parameters, point)}
            solution = self.there(values, directions).after(2, matrix)
            return evaluated_exponents(solution,
                                       exponents_of_kets(solution, self.source, exact=self.exact, at_first=False))

        found = [cell.found.answer for cell in cells(evaluated, len(self.counted.parameters))]
        return tuple(one for one in found if not (one.explosions and one.explosions[0][0] == 0))

    def number_of(self, matrix: str) -> sp.Expr:
        """The power of L of the number in front of a matrix's outer products, the largest of them."""
        moves = [sp.expand(p.statement.value) for p in self.source.locations()
                 if isinstance(p.statement.target, Matrix) and p.statement.target.name == matrix]
        return max(self._power(value.coeff(outer)) for value in moves for outer in value.atoms(Outer))

    def _power(self, number: sp.Expr) -> sp.Expr:
        depth = Setting.of(self.source).depth
        return sp.simplify(depth * sp.diff(number, depth) / number).subs(self.values)

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
