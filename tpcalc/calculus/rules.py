"""The rules that turn a program's statements into equations for kets. None knows any particular program."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Callable

import sympy as sp
from sympy.utilities.iterables import sift

from ..derivations.derivation import NodeRule
from ..errors import NotCovered
from ..programs.algebra import multiplied_out
from ..programs.language import Matrix, MatVec, NonlinearOuter, Outer, Transpose, Vector
from ..programs.program import Loop
from .kets import Averaged, Bracket, Dot, Hat, Ket, Response, ket
from .memory import unrolled
from .setting import Product, Setting, solve_indices
from .support import Support


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
    reason = "linearity, and (u v^T / n) y -> |u><v|y>, a nonlinear outer product an average over a copy of v and y"
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
    reason = "a Gaussian part, as if W_0 were independent of y, and what y owes to the transpose of W_0"
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
