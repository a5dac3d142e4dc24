"""The rules that turn a program's statements into equations for kets. None knows any particular program."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from ..programs.algebra import multiplied_out
from ..programs.language import Mat, MatVec, NonlinearOuter, Outer, Transpose, Vec
from ..programs.program import Loop
from .kets import Averaged, Bracket, Dot, Hat, Ket, Response, ket
from .memory import unrolled
from .setting import Product, Setting, initial_matrix, solve_indices
from .support import Support


@dataclass(frozen=True)
class Unroll:
    """A trained matrix is a multiple of its initial one and a sum of the earlier steps' outer products."""

    setting: Setting
    name = "unroll the updates"
    reason = "updates are linear in the outer products of the earlier steps, so these add up"
    source = "Tensor Programs VI, appendix F [tensor_programs_vi/parameter_update]"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return unrolled(self.setting, expression) if isinstance(expression, Mat) else expression


@dataclass(frozen=True)
class Limit:
    """Vectors become kets, entrywise expressions keep their form."""

    name = "master theorem"
    reason = "coordinates become independent copies of a random variable; entrywise operations act on it"
    source = "Tensor Programs VI, appendix F [tensor_programs_vi/master_theorem]"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return ket(expression)


@dataclass(frozen=True)
class UpdateActs:
    """|(rho W_0 + sum c u (x) v / n) y> = rho |W_0 y> + sum c |u><v|y>."""

    setting: Setting
    name = "an update acts on a ket"
    reason = "linearity, and (u v^T / n) y -> |u><v|y>, a nonlinear outer product an average over a copy of v and y"
    source = "Tensor Programs VI, appendix E.1.2 and F [tensor_programs_vi/outer_product]"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return expression.replace(
            lambda e: isinstance(e, Ket) and isinstance(e.vector, MatVec)
            and not self.setting.is_initial(e.vector.matrix), lambda e: self._act(e.vector))

    def _act(self, product: MatVec) -> sp.Expr:
        matrix = Unroll(self.setting).apply(initial_matrix(product.matrix))
        return self._terms(matrix, isinstance(product.matrix, Transpose), product.vector)

    def _terms(self, matrix: sp.Expr, transposed: bool, y: Vec) -> sp.Expr:
        return sp.Add(*(self._term(term, transposed, y) for term in sp.Add.make_args(multiplied_out(matrix))))

    def _term(self, term: sp.Expr, transposed: bool, y: Vec) -> sp.Expr:
        numbers, matrix = sp.Integer(1), None
        for factor in sp.Mul.make_args(term):
            if factor.has(Mat, Outer):
                matrix = factor
            else:
                numbers *= ket(factor)  # averages of vectors, as of clipped gradients
        if isinstance(matrix, sp.Sum):  # its indices must not capture those of y
            fresh = {limit[0]: sp.Symbol(f"{limit[0]}'", integer=True) for limit in matrix.limits
                     if limit[0] in y.free_symbols}
            limits = [(fresh.get(limit[0], limit[0]), *limit[1:]) for limit in matrix.limits]
            return numbers * sp.Sum(self._terms(matrix.function.subs(fresh), transposed, y), *limits)
        if isinstance(matrix, Transpose):
            return numbers * self._term(matrix.args[0], not transposed, y)
        if isinstance(matrix, NonlinearOuter):
            return numbers * Averaged((matrix.transposed() if transposed else matrix).body, y)
        if isinstance(matrix, Outer):
            u, v = (matrix.right, matrix.left) if transposed else (matrix.left, matrix.right)
            return numbers * Ket(u) * Bracket(v, y)
        if matrix is None:
            raise ValueError(f"{term} is not a multiple of a matrix")
        return numbers * Ket(MatVec(Transpose(matrix) if transposed else matrix, y))


@dataclass(frozen=True)
class HatDot:
    """|W_0 y> = its hat part + its dot part."""

    setting: Setting
    name = "hat and dot"
    reason = "a Gaussian part, as if W_0 were independent of y, and what y owes to the transpose of W_0"
    source = "Tensor Programs VI, Definition C.1 [tensor_programs_vi/definition_c1]"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return expression.replace(
            lambda e: isinstance(e, Ket) and isinstance(e.vector, MatVec) and self.setting.is_initial(e.vector.matrix),
            lambda e: Hat(e.vector) + Dot(e.vector))


@dataclass(frozen=True)
class DotSum:
    """The dot part of |W_0 y> is the sum over earlier products W_0^T z of |z> d|y> / d hat(W_0^T z).

    position: where the statement stands; products of the same training step count where they stand before. Of a
    loop that both stand in all rounds are written: those that come later have no coefficient.
    """

    setting: Setting
    position: int
    name = "the dot is a sum"
    reason = "over the vectors that the transposed matrix has met before"
    source = "Tensor Programs VI, Definition C.1 [tensor_programs_vi/definition_c1]"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return expression.replace(lambda e: isinstance(e, Dot), lambda e: self._sum(e.vector))

    def _sum(self, product: MatVec) -> sp.Expr:
        adjoint = Transpose(product.matrix)
        here = initial_matrix(adjoint)
        return sp.Add(*(self._over(known, adjoint, product.vector) for known in self.setting.products
                        if known.matrix.same_family(here) and known.transposed == isinstance(adjoint, Transpose)))

    def _over(self, known: Product, adjoint: sp.Expr, y: Vec) -> sp.Expr:
        setting, t, s = self.setting, self.setting.time, self.setting.past
        own = {i: sp.Symbol(f"{i}'", integer=True) for i in known.indices if isinstance(i, sp.Symbol) and i != t}
        bare = known.matrix.subs(own, simultaneous=True)
        fixed = solve_indices(bare.indices, initial_matrix(adjoint).indices, set(own.values()))
        if fixed is None:
            return sp.Integer(0)
        z = known.matvec.vector.subs({t: s, **own}, simultaneous=True).subs(fixed)
        limits = [(own[loop.index], *bounds(loop)) for loop in known.place.loops
                  if loop is not setting.clock and loop.index in own and own[loop.index] not in fixed]
        earlier = known.place.position < self.position
        together = known.place.position == self.position or any(
            loop in known.place.loops for loop in self._loops() if loop is not setting.clock)
        if t in known.indices and setting.clock is not None:
            limits.append((s, setting.clock.first, t if earlier or together else t - 1))
        elif setting.clock is None and not (earlier or together):
            return sp.Integer(0)
        summand = Ket(z) * Response(y, Hat(MatVec(adjoint, z)))
        return sp.Sum(summand, *limits) if limits else summand

    def _loops(self) -> tuple:
        return next(p.loops for p in self.setting.program.places() if p.position == self.position)


def bounds(loop: Loop) -> tuple[sp.Expr, sp.Expr]:
    """First and last value of a loop, in increasing order."""

    return (loop.last, loop.first) if loop.descending else (loop.first, loop.last)


@dataclass(frozen=True)
class Causality:
    """A ket does not depend on base kets that are born later: such derivatives vanish."""

    support: Support
    name = "causality"
    reason = "a ket has no coefficient on base kets that are not born yet"
    source = "Tensor Programs VI, Definition C.1 [tensor_programs_vi/definition_c1], by induction over the program"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        shortened = expression.replace(lambda e: isinstance(e, sp.Sum), self._shorten)
        return shortened.replace(lambda e: isinstance(e, Response) and not self.support.can_respond(e),
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
    """Sums over the same range are joined."""

    name = "collect"
    reason = "linearity of the sum over steps"
    source = "algebra"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return join_sums(expression, Ket)


def join_sums(expression: sp.Expr, shared: type[sp.Expr], only: object = None) -> sp.Expr:
    """Join sums over the same range; powers in every term joined, factors of class ``shared`` in front.

    only: of the shared factors, those that contain this symbol.
    """
    rest = sp.Integer(0)
    sums: dict[tuple, sp.Expr] = {}
    for term in sp.Add.make_args(multiplied_out(expression)):
        inner = [f for f in sp.Mul.make_args(term) if isinstance(f, sp.Sum)]
        if len(inner) != 1:
            rest += sp.powsimp(term)
            continue
        factor = sp.Mul(*(f for f in sp.Mul.make_args(term) if f is not inner[0]))
        sums[inner[0].limits] = sums.get(inner[0].limits, 0) + factor * inner[0].function
    for limits, body in sums.items():
        body = sp.Add(*(sp.powsimp(term) for term in sp.Add.make_args(multiplied_out(body))))
        for one in sorted(body.atoms(shared), key=sp.default_sort_key):
            body = sp.collect(body, one) if only is None or only in one.free_symbols else body
        rest += sp.Sum(body, *limits)
    return rest
