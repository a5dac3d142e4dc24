"""The rules that turn a program's statements into equations for kets. None knows any particular program."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from ..programs.language import Mat, MatVec, Outer, Transpose, Vec
from .kets import Bracket, Dot, Hat, Ket, Response, ket
from .setting import Product, Setting, initial_matrix, is_initial


@dataclass(frozen=True)
class Unroll:
    """W_{t+1} = W_t - (outer products of step t) becomes W_t = W_0 - (their sum over s < t)."""

    setting: Setting
    name = "unroll the update"
    reason = "the updates of the earlier steps add up"
    source = "paper B, appendix F"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        if not isinstance(expression, Mat):
            return expression
        place = self.setting.update(expression)
        if place is None:
            return expression
        t, s = self.setting.time, self.setting.past
        target, value = place.statement.target, place.statement.value
        previous = target.at(t, *target.indices[1:])
        change = sp.expand(value - previous)
        if target.indices[0] != t + 1 or change.has(Mat):
            raise ValueError(f"{target} := {value} is not the last value plus an update")
        inner = dict(zip(target.indices[1:], expression.indices[1:]))
        at_s = change.subs(inner, simultaneous=True).subs(t, s)
        return expression.at(0, *expression.indices[1:]) + sp.Sum(at_s, (s, 0, expression.indices[0] - 1))


@dataclass(frozen=True)
class Limit:
    """Vectors become kets, entrywise expressions keep their form."""

    name = "master theorem"
    reason = "coordinates become independent copies of a random variable; entrywise operations act on it"
    source = "paper B, appendix F"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return ket(expression)


@dataclass(frozen=True)
class UpdateActs:
    """|(W_0 - sum c u (x) v / n) y> = |W_0 y> - sum c |u><v|y>."""

    setting: Setting
    name = "an update acts on a ket"
    reason = "linearity, and (u v^T / n) y -> |u><v|y>"
    source = "paper B, appendix E.1.2 and F"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return expression.replace(
            lambda e: isinstance(e, Ket) and isinstance(e.vector, MatVec) and not is_initial(e.vector.matrix),
            lambda e: self._act(e.vector))

    def _act(self, product: MatVec) -> sp.Expr:
        bare = initial_matrix(product.matrix)
        unrolled = Unroll(self.setting).apply(bare)
        return sp.Add(*(self._term(term, isinstance(product.matrix, Transpose), product.vector)
                        for term in sp.Add.make_args(unrolled)))

    def _term(self, term: sp.Expr, transposed: bool, y: Vec) -> sp.Expr:
        if isinstance(term, sp.Sum):
            inside = sp.Add(*(self._term(part, transposed, y) for part in sp.Add.make_args(sp.expand(term.function))))
            return sp.Sum(inside, *term.limits)
        coefficient, matrix = sp.Integer(1), None
        for factor in sp.Mul.make_args(term):
            if isinstance(factor, (Mat, Outer)):
                matrix = factor
            else:
                coefficient *= factor
        if isinstance(matrix, Outer):
            u, v = (matrix.right, matrix.left) if transposed else (matrix.left, matrix.right)
            return coefficient * Ket(u) * Bracket(v, y)
        if matrix is None:
            raise ValueError(f"{term} is not a multiple of a matrix")
        return coefficient * Ket(MatVec(Transpose(matrix) if transposed else matrix, y))


@dataclass(frozen=True)
class HatDot:
    """|W_0 y> = its hat part + its dot part."""

    name = "hat and dot"
    reason = "a Gaussian part, as if W_0 were independent of y, and what y owes to the transpose of W_0"
    source = "paper B, Definition C.1"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return expression.replace(
            lambda e: isinstance(e, Ket) and isinstance(e.vector, MatVec) and is_initial(e.vector.matrix),
            lambda e: Hat(e.vector) + Dot(e.vector))


@dataclass(frozen=True)
class DotSum:
    """The dot part of |W_0 y> is the sum over earlier products W_0^T z of |z> d|y> / d hat(W_0^T z).

    ``position``: where the statement stands; products of the same training step count where they stand before.
    """

    setting: Setting
    position: int
    name = "the dot is a sum"
    reason = "over the vectors that the transposed matrix has met before"
    source = "paper B, Definition C.1"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return expression.replace(lambda e: isinstance(e, Dot), lambda e: self._sum(e.vector))

    def _sum(self, product: MatVec) -> sp.Expr:
        adjoint = Transpose(product.matrix)
        total = sp.Integer(0)
        for known in self.setting.products:
            if (isinstance(known.matvec.matrix, Transpose) == isinstance(adjoint, Transpose)
                    and initial_matrix(known.matvec.matrix).same_family(initial_matrix(adjoint))):
                total += self._over_steps(known, adjoint, product.vector)
        return total

    def _over_steps(self, known: Product, adjoint: sp.Expr, y: Vec) -> sp.Expr:
        t, s = self.setting.time, self.setting.past
        layers = dict(zip(initial_matrix(known.matvec.matrix).indices[1:], initial_matrix(adjoint).indices[1:]))
        z = known.matvec.vector.subs(layers, simultaneous=True).subs(t, s)
        last = t if known.place.position < self.position else t - 1
        return sp.Sum(Ket(z) * Response(y, Hat(MatVec(adjoint, z))), (s, 0, last))


@dataclass(frozen=True)
class Causality:
    """A ket does not depend on base kets that are born later: such derivatives vanish."""

    support: "Support"
    name = "causality"
    reason = "a ket has no coefficient on base kets that are not born yet"
    source = "paper B, Definition C.1, by induction in the order of the program"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return expression.replace(lambda e: isinstance(e, sp.Sum), self._shorten)

    def _shorten(self, total: sp.Sum) -> sp.Expr:
        (index, first, last), = total.limits
        latest = self.support.latest(total)
        if latest is None:
            return sp.Integer(0)
        return sp.Sum(total.function, (index, first, latest)) if (last - latest).is_positive else total


@dataclass(frozen=True)
class Collect:
    """Sums over the same steps are joined."""

    name = "collect"
    reason = "linearity of the sum over steps"
    source = "algebra"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        rest = sp.Integer(0)
        sums: dict[tuple, sp.Expr] = {}
        for term in sp.Add.make_args(sp.expand(expression)):
            factor = sp.Mul(*(f for f in sp.Mul.make_args(term) if not isinstance(f, sp.Sum)))
            inner = [f for f in sp.Mul.make_args(term) if isinstance(f, sp.Sum)]
            if len(inner) != 1:
                rest += term
                continue
            sums[inner[0].limits] = sums.get(inner[0].limits, 0) + factor * inner[0].function
        return rest + sp.Add(*(sp.Sum(_by_ket(body), *limits) for limits, body in sums.items()))


def _by_ket(body: sp.Expr) -> sp.Expr:
    body = sp.Add(*(sp.powsimp(term) for term in sp.Add.make_args(sp.expand(body))))
    for one in sorted(body.atoms(Ket), key=sp.default_sort_key):
        body = sp.collect(body, one)
    return body


class Support:
    """Until which step base kets can have a coefficient in a ket: t + offset, the least fixed point.

    Read off the ket equations: a hat-ket brings its own step, a ket what it depends on, a sum over earlier
    steps as far as its coefficient, itself a derivative, can differ from zero.
    """

    def __init__(self, setting: Setting, equations: list[tuple[Vec, sp.Expr]]) -> None:
        self.setting = setting
        self.offsets: dict[tuple[int, int], int | None] = {}
        changed = True
        while changed:
            changed = False
            for target, value in equations:
                a = setting.family_number(target)
                for b in range(len(setting.products)):
                    found = self._of(value, b)
                    before = self.offsets.get((a, b))
                    if found is not None and (before is None or found > before):
                        self.offsets[a, b] = found
                        changed = True

    def _ahead(self, step: sp.Expr) -> int:
        return int(step - self.setting.time)

    def _of(self, expression: sp.Expr, b: int) -> int | None:
        """The latest offset of product ``b`` in an expression at step t."""
        found = []
        for term in sp.Add.make_args(sp.expand(expression)):
            for factor in sp.Mul.make_args(term):
                if isinstance(factor, Hat):
                    product, step, _ = self.setting.product_like(factor.vector)
                    found += [self._ahead(step)] if product.number == b else []
                elif isinstance(factor, Ket) and self.setting.initial_number(factor.vector) is None:
                    inner = self.offsets.get((self.setting.family_number(factor.vector), b))
                    found += [] if inner is None else [inner + self._ahead(factor.vector.indices[0])]
                elif isinstance(factor, sp.Sum):
                    latest = self.latest(factor)
                    if latest is not None:
                        inner = self._of(factor.function.subs(self.setting.past, self.setting.time), b)
                        found += [] if inner is None else [inner + self._ahead(latest)]
        return max(found, default=None)

    def latest(self, total: sp.Sum) -> sp.Expr | None:
        """The last step of a sum that can differ from zero; None if there is none."""
        (_, _, last), = total.limits
        for factor in sp.Mul.make_args(total.function):
            if isinstance(factor, Response) and isinstance(factor.base, Hat):
                product, _, _ = self.setting.product_like(factor.base.vector)
                offset = self.offsets.get((self.setting.family_number(factor.vector), product.number))
                if offset is None:
                    return None
                bound = factor.vector.indices[0] + offset
                last = bound if (last - bound).is_positive else last
        return last
