"""The rules that turn ket equations into recursions for coefficients and covariances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy as sp

from ..programs.language import Vec
from .kets import Base, Bracket, Covariance, Gamma, Hat, Ket, Response
from .setting import Product, Setting

R, B, M = (sp.Symbol(name, integer=True) for name in "rbm")
R2, M2 = sp.Symbol("r'", integer=True), sp.Symbol("m'", integer=True)
BASE = Base(R, B, M)


@dataclass(frozen=True)
class Differentiate:
    """The derivative of both sides in the generic base ket beta."""

    setting: Setting
    name = "differentiate"
    reason = "linearity; a base ket has derivative 1 in itself and 0 in the others"
    source = "paper B, appendix C.3"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return sp.Add(*(self._term(term) for term in sp.Add.make_args(sp.expand(expression))))

    def _term(self, term: sp.Expr) -> sp.Expr:
        random = [f for f in sp.Mul.make_args(term) if f.has(Ket, Hat) and not isinstance(f, Response)]
        numbers = sp.Mul(*(f for f in sp.Mul.make_args(term) if f not in random))
        if len(random) != 1:
            raise ValueError(f"{term} is not linear in kets")
        one, = random
        if isinstance(one, sp.Sum):
            return numbers * sp.Sum(self.apply(one.function), *one.limits)
        return numbers * self._of_ket(one)

    def _of_ket(self, one: sp.Expr) -> sp.Expr:
        if isinstance(one, Hat):
            product, step, layer = self.setting.product_like(one.vector)
            return sp.KroneckerDelta(step, R) * sp.KroneckerDelta(product.number, B) * sp.KroneckerDelta(layer, M)
        number = self.setting.initial_number(one.vector)
        if number is not None:
            return sp.KroneckerDelta(-1, R) * sp.KroneckerDelta(number, B)
        return Response(one.vector, BASE)


@dataclass(frozen=True)
class NameCoefficients:
    """Write responses as Gamma: sqrt(L) times them for hat-kets, times 1 for initial vectors.

    summed: the generic base ket runs over all hat-kets in a sum, so that every response brings 1/sqrt(L).
    Otherwise it is free on both sides of an equation, which is multiplied by its scale: that shows only
    where a base ket is born, at r = t, so that it is a hat-ket.
    """

    setting: Setting
    depth: sp.Symbol
    summed: bool = False
    name = "name the coefficients"
    reason = "Gamma is the derivative, times sqrt(L) for hat-kets"
    source = "paper B, appendix C.3"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        if not self.summed:
            born = [d for d in expression.atoms(sp.KroneckerDelta) if R in d.args and -1 not in d.args]
            expression = expression.subs({d: sp.sqrt(self.depth) * d for d in born}, simultaneous=True)
        return expression.replace(lambda e: isinstance(e, Response), self._gamma)

    def _gamma(self, response: Response) -> sp.Expr:
        v, base = response.vector, response.base
        a, root = self.setting.family_number(v), sp.sqrt(self.depth)
        if isinstance(base, Base):
            r, b, m = base.args
            scale = root if self.summed else 1
        elif isinstance(base, Hat):
            product, r, m = self.setting.product_like(base.vector)
            b, scale = product.number, root
        else:
            r, b, m, scale = -1, self.setting.initial_number(base.vector), 0, 1
        return Gamma(v.indices[0], r, a, b, v.indices[-1], m) / scale


@dataclass(frozen=True)
class NameCovariances:
    """Write <v_t | v_s> of a product's vectors as the covariance C of its hat-kets."""

    setting: Setting
    name = "name the covariances"
    reason = "hat-kets of one matrix have the covariance of the vectors it multiplies"
    source = "paper B, Definition C.1"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return expression.replace(lambda e: isinstance(e, Bracket), self._covariance)

    def _covariance(self, bracket: Bracket) -> sp.Expr:
        u, v = bracket.args
        for product in self.setting.products:
            known = product.matvec.vector
            if known.same_family(u) and known.same_family(v) and u.indices[1:] == v.indices[1:]:
                layer = sp.Dummy(integer=True)  # of which layer is it the product's vector?
                shift, = sp.solve(known.indices[-1].subs(product.layer, layer) - u.indices[-1], layer)
                times = sorted((u.indices[0], v.indices[0]), key=lambda i: i != self.setting.time)
                return Covariance(times[0], times[1], product.number, shift)
        return bracket


@dataclass(frozen=True)
class Expand:
    """A bracket is expanded over base kets on both sides: bilinearity."""

    setting: Setting
    depth: sp.Symbol
    name = "bilinearity"
    reason = "both kets are linear combinations of base kets"
    source = "paper B, appendix C.2"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return expression.replace(lambda e: isinstance(e, Bracket), lambda e: self._bracket(*e.args))

    def _bracket(self, u: Vec, v: Vec) -> sp.Expr:
        total = sp.Integer(0)
        for first, limits in self._combination(u, R, M, B):
            for second, limits2 in self._combination(v, R2, M2, sp.Symbol("b'", integer=True)):
                bases = [f for f in sp.Mul.make_args(first * second) if isinstance(f, (Base, Ket))]
                squares = [f.base for f in sp.Mul.make_args(first * second)
                           if isinstance(f, sp.Pow) and isinstance(f.base, Ket)]
                pair = bases + 2 * squares
                numbers = first * second / sp.Mul(*pair)
                body = numbers * _BaseBracket(*sorted(pair, key=sp.default_sort_key))
                total += sp.Sum(body, *limits, *limits2) if limits or limits2 else body
        return total

    def _combination(self, v: Vec, r: sp.Symbol, m: sp.Symbol, b: sp.Symbol) -> list[tuple[sp.Expr, list]]:
        """|v> as terms over the base kets, each with the ranges of its sums."""
        if self.setting.initial_number(v) is not None:
            return [(Ket(v), [])]
        terms: list[tuple[sp.Expr, list]] = [(Response(v, Ket(u)) * Ket(u), []) for u in self.setting.program.vectors]
        base = Base(r, b, m)
        ranges = [(b, 0, len(self.setting.products) - 1), (m, 1, self.depth), (r, 0, v.indices[0])]
        return terms + [(Response(v, base) * base, ranges)]


class _BaseBracket(sp.Expr):
    """The covariance of two base kets, before independence is used."""

    is_commutative = True
    is_real = True

    def _sympystr(self, printer: Any) -> str:
        return "<%s%s>" % tuple(printer.doprint(i) for i in self.args)

    def _latex(self, printer: Any) -> str:
        u, v = self.args
        inner = [printer.doprint(i) if isinstance(i, Base) else printer.doprint(i.vector) for i in (u, v)]
        return rf"\langle {inner[0]} | {inner[1]} \rangle"


@dataclass(frozen=True)
class Independence:
    """Base kets of different matrices, of a matrix and its transpose, and initial vectors are independent."""

    setting: Setting
    name = "independence"
    reason = "hat-kets correlate only with hat-kets of the same matrix; initial vectors are orthonormal"
    source = "paper B, Definition C.1"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return expression.replace(lambda e: isinstance(e, _BaseBracket), lambda e: self._pair(*e.args)).replace(
            lambda e: isinstance(e, sp.Sum), self._contract)

    def _pair(self, u: sp.Expr, v: sp.Expr) -> sp.Expr:
        if isinstance(u, Base) and isinstance(v, Base):
            (r, b, m), (r2, b2, m2) = u.args, v.args
            if str(r) > str(r2):
                (r, b, m), (r2, b2, m2) = (r2, b2, m2), (r, b, m)
            return sp.KroneckerDelta(b2, b) * sp.KroneckerDelta(m2, m) * Covariance(r, r2, b, m)
        return sp.Integer(int(u == v))

    def _contract(self, total: sp.Sum) -> sp.Expr:
        """Carry out the sums over a Kronecker delta."""
        body, limits = total.function, list(total.limits)
        for delta in [f for f in sp.Mul.make_args(body) if isinstance(f, sp.KroneckerDelta)]:
            for variable, other in (delta.args, delta.args[::-1]):
                index = next((i for i, limit in enumerate(limits) if limit[0] == variable
                              and any(other == rest[0] and limit[1:] == rest[1:] for rest in limits)), None)
                if index is not None and len(str(variable)) > len(str(other)):
                    body = (body / delta).subs(variable, other)
                    del limits[index]
                    break
        return sp.Sum(body, *limits) if body != 0 else sp.Integer(0)


@dataclass(frozen=True)
class CollectCoefficients:
    """Sums over the same steps joined, powers of L joined in every term, what the terms share in front."""

    name = "collect"
    reason = "linearity of the sum over steps"
    source = "algebra"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        rest = sp.Integer(0)
        sums: dict[tuple, sp.Expr] = {}
        for term in sp.Add.make_args(expression):
            if isinstance(term, sp.Sum):
                sums[term.limits] = sums.get(term.limits, 0) + term.function
            else:
                rest += sp.powsimp(term)
        for limits, body in sums.items():
            body = sp.Add(*(sp.powsimp(term) for term in sp.Add.make_args(sp.expand(body))))
            for shared in body.atoms(Gamma):
                body = sp.collect(body, shared) if R in shared.args else body
            rest += sp.Sum(body, *limits)
        return rest


def covariance_bracket(product: Product, t: sp.Symbol, s: sp.Symbol) -> Bracket:
    """<v_t | v_s> of the vectors that a product multiplies by its matrix."""
    v = product.matvec.vector
    return Bracket(v, v.at(s, *v.indices[1:]))
