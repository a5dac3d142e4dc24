"""From a program to the equations of its kets, and the rules that lead there. None knows any particular program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Callable

import sympy as sp
from sympy.utilities.iterables import sift

from .._shown import Short
from .._text import Aligned
from ..derivations.derivation import Derivation, NodeRule
from ..derivations.printing import latex
from ..errors import NotCovered
from ..optimizers.spectral import Spectral
from ..programs.algebra import multiplied_out, replaced
from ..programs.by_position import HeadTable, HeadTurn
from ..programs.language import HeadSum, MatVec, Matrix, NonlinearOuter, Outer, Transpose, Vector, kind
from ..programs.special import at_infinite_width
from ..programs.program import Assign, Location, Loop, Program, mapped
from .kets import Averaged, Bracket, Dot, Hat, Ket, Response, Support, ket
from .memory import unrolled
from .part_names import PartNames
from .setting import Product, Setting, solve_indices


@dataclass(frozen=True)
class Unroll:
    """A trained matrix is a multiple of its initial one and a sum of the earlier steps' outer products."""

    setting: Setting
    name = "unroll the updates"
    reason = "updates are linear in the outer products of the earlier steps, so these add up"
    source = "Tensor Programs VI, appendix F [tensor_programs_vi/parameter_update]"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return unrolled(self.setting, expression) if isinstance(expression, Matrix) else expression


@dataclass(frozen=True)
class VectorsToKets:
    """Vectors become kets, entrywise expressions keep their form."""

    name = "master theorem"
    reason = "coordinates become independent copies of a random variable; entrywise operations act on it"
    source = "Tensor Programs VI, appendix F [tensor_programs_vi/master_theorem]"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return ket(expression)


@dataclass(frozen=True)
class UpdateActs(NodeRule):
    """The ket of a trained matrix times a vector: |(rho W_0 + sum c u (x) v / n) y> = rho |W_0 y> + sum c |u><v|y>."""

    setting: Setting
    kind = Ket
    name = "an update acts on a ket"
    reason = ("linearity; an outer product of u and v makes of y the ket of u times the bracket of v and y, a "
              "nonlinear one a mean over a copy of v and y")
    source = "Tensor Programs VI, appendix E.1.2 and F [tensor_programs_vi/outer_product]"

    def rewrite(self, ket: Ket) -> sp.Expr:
        product = ket.vector
        if product.func != MatVec or self.setting.is_initial(product.matrix):
            return ket
        matrix = Unroll(self.setting).apply(product.matrix.member)
        return self._terms(matrix, product.matrix.turned, product.vector)

    def _terms(self, matrix: sp.Expr, transposed: bool, y: Vector) -> sp.Expr:
        return sp.Add(*(self._term(term, transposed, y) for term in sp.Add.make_args(multiplied_out(matrix))))

    def _term(self, term: sp.Expr, transposed: bool, y: Vector) -> sp.Expr:
        matrices, numbers = sift(sp.Mul.make_args(term), lambda f: f.has(Matrix, Outer), binary=True)
        if not matrices:
            raise NotCovered(f"{term} is not a multiple of a matrix")
        front = sp.Mul(*map(ket, numbers))  # averages of vectors, as of clipped gradients
        return front * self._acting.get(matrices[-1].func, _matrix)(matrices[-1], transposed, y)

    @property
    def _acting(self) -> dict[type[sp.Expr], Callable[[sp.Expr, bool, Vector], sp.Expr]]:
        """What matrices of a kind make of |y>; of other kinds they are given ones."""
        return {sp.Sum: self._sum, NonlinearOuter: _nonlinear_outer, Outer: _outer,
                Transpose: lambda matrix, transposed, y: self._term(matrix.args[0], not transposed, y)}

    def _sum(self, matrix: sp.Sum, transposed: bool, y: Vector) -> sp.Expr:
        """Indices of the sum must not capture those of y."""
        fresh = {i: sp.Symbol(f"{i}'", integer=True) for i, *_ in matrix.limits if i in y.free_symbols}
        limits = [(fresh.get(i, i), *ends) for i, *ends in matrix.limits]
        return sp.Sum(self._terms(matrix.function.subs(fresh), transposed, y), *limits)


def _nonlinear_outer(matrix: NonlinearOuter, transposed: bool, y: Vector) -> sp.Expr:
    return Averaged((matrix.transposed() if transposed else matrix).body, y)


def _outer(matrix: Outer, transposed: bool, y: Vector) -> sp.Expr:
    u, v = (matrix.transposed() if transposed else matrix).args
    return Ket(u) * Bracket(v, y)


def _matrix(matrix: sp.Expr, transposed: bool, y: Vector) -> sp.Expr:
    return Ket(MatVec(Transpose(matrix) if transposed else matrix, y))


@dataclass(frozen=True)
class HatDot(NodeRule):
    """The ket of an initial matrix times a vector is the sum of its hat part and its dot part."""

    setting: Setting
    kind = Ket
    name = "hat and dot"
    reason = "a Gaussian part, as if the initial matrix were independent of y, and what y owes to its transpose"
    source = "Tensor Programs VI, Definition C.1 [tensor_programs_vi/definition_c1]"

    def rewrite(self, ket: Ket) -> sp.Expr:
        product = ket.vector
        splits = product.func == MatVec and self.setting.is_initial(product.matrix)
        return Hat(product) + Dot(product) if splits else ket


@dataclass(frozen=True)
class DotSum(NodeRule):
    """The dot part of |W_0 y> is the sum over earlier products W_0^T z of |z> d|y> / d hat(W_0^T z).

    position: where the statement stands; products of the same training step count where they stand before. Of a
    loop that both stand in all rounds are written: those that come later have no coefficient.
    """

    setting: Setting
    position: int
    kind = Dot
    name = "the dot is a sum"
    reason = "over the vectors that the transposed matrix has met before"
    source = "Tensor Programs VI, Definition C.1 [tensor_programs_vi/definition_c1]"

    def rewrite(self, dot: Dot) -> sp.Expr:
        adjoint, y = Transpose(dot.vector.matrix), dot.vector.vector
        here = adjoint.member
        return sp.Add(*(self._over(known, adjoint, y) for known in self.setting.products
                        if known.matrix.same_family(here) and known.transposed == adjoint.turned))

    def _over(self, known: Product, adjoint: sp.Expr, y: Vector) -> sp.Expr:
        setting, t, s = self.setting, self.setting.time, self.setting.past
        own = {i: sp.Symbol(f"{i}'", integer=True) for i in known.indices if i.is_Symbol and i != t}
        bare = known.matrix.subs(own, simultaneous=True)
        fixed = solve_indices(bare.indices, adjoint.member.indices, set(own.values()))
        if fixed is None:
            return sp.Integer(0)
        z = known.matvec.vector.subs({t: s, **own}, simultaneous=True).subs(fixed)
        limits = [(own[loop.index], *loop.bounds) for loop in known.location.loops
                  if loop is not setting.clock and loop.index in own and own[loop.index] not in fixed]
        earlier = known.location.position < self.position
        together = known.location.position == self.position or any(
            loop in known.location.loops for loop in self._loops() if loop is not setting.clock)
        if t in known.indices and setting.clock is not None:
            limits.append((s, setting.clock.first, t if earlier or together else t - 1))
        elif setting.clock is None and not (earlier or together):
            return sp.Integer(0)
        summand = Ket(z) * Response(y, Hat(MatVec(adjoint, z)))
        return sp.Sum(summand, *limits) if limits else summand

    def _loops(self) -> tuple[Loop, ...]:
        return next(p.loops for p in self.setting.program.locations() if p.position == self.position)


@dataclass(frozen=True)
class Causality:
    """A ket does not depend on base kets that are born later: such derivatives vanish."""

    support: Support
    name = "causality"
    reason = "a ket has no coefficient on base kets that are not born yet"
    source = "Tensor Programs VI, Definition C.1 [tensor_programs_vi/definition_c1], by induction over the program"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        shortened = expression.replace(lambda e: e.func == sp.Sum, self._shorten)
        return shortened.replace(lambda e: e.func == Response and not self.support.can_respond(e),
                                 lambda e: sp.Integer(0))

    def _shorten(self, total: sp.Sum) -> sp.Expr:
        latest = self.support.latest(total)
        past = self.support.setting.past
        if latest is None:
            return sp.Integer(0)
        limits = [(i, first, latest) if i == past and (last - latest).is_positive else (i, first, last)
                  for i, first, last in total.limits]
        return sp.Sum(total.function, *limits)


@dataclass(frozen=True)
class Collect:
    """Sums over the same range are joined, as ``join_sums`` has it."""

    shared: type[sp.Expr]
    only: sp.Symbol | None = None
    name = "collect"
    reason = "linearity of the sum over steps"
    source = "algebra"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return join_sums(expression, self.shared, self.only)


@lru_cache(maxsize=8192)
def _powers_joined(term: sp.Expr) -> sp.Expr:
    """The term with its powers joined; derivations meet the same terms again and again."""
    return sp.powsimp(term)


def join_sums(expression: sp.Expr, shared: type[sp.Expr], only: object = None) -> sp.Expr:
    """Join sums over the same range; powers in every term joined, factors of class ``shared`` in front.

    only: of the shared factors, those that contain this symbol.
    """
    rest = sp.Integer(0)
    sums: dict[tuple[sp.Tuple, ...], sp.Expr] = {}
    for term in sp.Add.make_args(multiplied_out(expression)):
        inner = [f for f in sp.Mul.make_args(term) if f.func == sp.Sum]
        if len(inner) != 1:
            rest += _powers_joined(term)
            continue
        factor = sp.Mul(*(f for f in sp.Mul.make_args(term) if f is not inner[0]))
        sums[inner[0].limits] = sums.get(inner[0].limits, 0) + factor * inner[0].function
    for limits, body in sums.items():
        body = sp.Add(*(_powers_joined(term) for term in sp.Add.make_args(multiplied_out(body))))
        for one in sorted(body.atoms(shared), key=sp.default_sort_key):
            body = sp.collect(body, one) if only is None or only in one.free_symbols else body
        rest += sp.Sum(body, *limits)
    return rest


@dataclass(frozen=True, repr=False)
class KetEquation(Short):
    """``target = value`` at a place of the program: a ket, or a scalar's limit."""

    target: sp.Expr
    value: sp.Expr
    location: Location


@dataclass(frozen=True, repr=False)
class KetEquations(Short, Aligned):
    """The hat/dot equations of a program, with the derivation that led to them.

    equations: in program order; support: until when base kets can have coefficients; setting: the
    program as the rules see it.

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> print(tp.kets(tp.program(net, opt, scale)).equations[0].target)
    |x[t, 0]>
    """

    setting: Setting
    equations: tuple[KetEquation, ...]
    support: Support
    derivation: Derivation

    @property
    def names(self) -> PartNames:
        """Names of long parts, such as functions of gradients under independent copies."""
        return PartNames(self.setting, [e.value for e in self.equations])

    def latex(self) -> str:
        """The equations as lines of an ``aligned`` environment, with their ranges; long functions of gradients under
        independent copies have names, whose lines stand last."""
        names = self.names
        lines = [rf"{latex(e.target)} &= {latex(names.written(e.value))}{_range(e.location)}" for e in self.equations]
        return " \\\\\n".join([*lines, *names.lines])

    def __str__(self) -> str:
        return "\n".join(f"{e.target} = {e.value}" for e in self.equations)


def _range(location: Location) -> str:
    inner = location.loops[1:]
    return "".join(rf", \quad {sp.latex(loop.index)} = {sp.latex(loop.first)}, \ldots, {sp.latex(loop.last)}"
                   for loop in inner)


def kets(program: Program) -> KetEquations:
    """Derive the infinite-width equations of a program whose vectors are linear in its matrices.

    Every vector's ket is written through hat-kets, earlier kets and numbers. Raises ``ValueError`` for a
    statement that the rules cannot treat, naming it. Source: Tensor Programs VI, appendix C.2
    [tensor_programs_vi/ket_equations] and Definition C.1 [tensor_programs_vi/definition_c1].

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> equations = tp.kets(tp.program(net, opt, scale))
    >>> len(equations.equations), all(step.check() for step in equations.derivation.steps)
    (6, True)
    """
    if not isinstance(program, Program):
        raise ValueError(f"program: got {program!r}; expected a tp.program(...)")
    for location in program.locations():
        if location.statement.value.has(Spectral):
            raise NotCovered(f"program {program.name}: {location.statement.target} moves by a function of Gram "
                             "matrices of all its rows, for which kets have no rule; expected updates that are "
                             "functions of entries, or tp.train")
        for node in location.statement.value.atoms(HeadSum, HeadTurn, HeadTable):
            if node.own_kind == "scalar":
                continue
            raise NotCovered(f"program {program.name}: {location.statement.target} has {node}, of coordinates of heads "
                             "or experts; kets are of one coordinate; expected head_dim=1 and expert_dim=1")
    program = of_named_vectors(at_infinite_width(program))
    setting = Setting.of(program)
    derivation = Derivation()
    found: list[KetEquation] = []
    for matrix in setting.trained():
        derivation.apply(Unroll(setting), matrix, matrix)
    for location in program.locations():
        target, value = location.statement.target, location.statement.value
        if isinstance(target, Matrix):
            continue
        left = Ket(target) if isinstance(target, Vector) else target
        value = derivation.through((VectorsToKets(), UpdateActs(setting), HatDot(setting),
                                    DotSum(setting, location.position)), left, value)
        found.append(KetEquation(left, multiplied_out(value) if location.statement.value.has(MatVec) else value,
                                 location))
    vectors = [(e.target.vector, e.value) for e in found if isinstance(e.target, Ket)]
    support = Support(setting, vectors)
    finished = []
    for e in found:
        value = derivation.apply(Causality(support), e.target, e.value)
        value = derivation.apply(Collect(Ket), e.target, value) if e.location.statement.value.has(MatVec) else value
        finished.append(KetEquation(e.target, value, e.location))
    return KetEquations(setting, tuple(finished), support, derivation)


def of_named_vectors(program: Program) -> Program:
    """A program that means the same, with numbers in front of outer products: (a u + b w) v^T = a u v^T + b w v^T.

    Raises ``ValueError`` for an outer product of vectors without names, naming it and its statement, and where a side
    inside a function of entries is no name by itself.
    """
    if all(isinstance(side, Vector) for location in program.locations()
           for one in location.statement.value.atoms(Outer) for side in one.args):
        return program
    return replace(program, body=mapped(program.body, lambda statement: [_named(program, statement)]))


def _named(program: Program, statement: Assign) -> Assign:
    inside = statement.value.has(NonlinearOuter)
    value = statement.value if inside else replaced(statement.value, Outer, _expanded)
    for one in sorted(value.atoms(Outer), key=sp.default_sort_key):
        for side in one.args:
            if not isinstance(side, Vector):
                only = ", and no numbers in front of one inside of a function of entries" * inside
                raise NotCovered(f"program {program.name}: got {statement}; {side}, a side of {one}, is no vector "
                                 "with a name; expected outer products of given and assigned vectors, with numbers "
                                 f"in front{only}")
    return Assign(statement.target, value)


def _expanded(one: Outer) -> sp.Expr:
    """An outer product of sums as the sum of outer products: it is linear in both sides."""
    left, right = (_terms(side) for side in one.args)
    return sp.Add(*(a * b * Outer(u, v) for a, u in left for b, v in right))


def _terms(side: sp.Expr) -> list[tuple[sp.Expr, sp.Expr]]:
    """The terms of one side of an outer product, as pairs (number, vector)."""
    found = []
    for term in sp.Add.make_args(multiplied_out(side)):
        vectors, numbers = sift(sp.Mul.make_args(term), lambda f: kind(f) == "vector", binary=True)
        found.append((sp.Mul(*numbers), sp.Mul(*vectors)))
    return found if all(kind(vector) == "vector" for _, vector in found) else [(sp.Integer(1), side)]
