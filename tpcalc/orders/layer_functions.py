"""Coefficients that depend on the layer: powers of L times functions of layer time."""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from ..errors import NotCovered

LAYER_TIME = sp.Symbol("p", real=True)
GRID = tuple(sp.Rational(k, 8) for k in range(9))


@lru_cache(maxsize=1024)
def in_powers(coefficient: sp.Expr, layer: sp.Symbol | None, depth: sp.Symbol) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
    """A coefficient as pairs (exponent, c) of a sum of L^exponent c(p), with p = l/L; what falls like 1/L^2 and faster
    beside the largest is left out of rational functions that are no polynomials in 1/L.

    layer: the index that runs over layers, if there is one. Raises ``ValueError`` for a coefficient that is no
    product of powers of L and rational functions of l/L, or is not bounded on [0, 1], naming it.
    """
    terms: dict[sp.Expr, sp.Expr] = {}
    here = coefficient if layer is None else coefficient.subs(layer, LAYER_TIME * depth)
    for term in sp.Add.make_args(sp.expand(here, power_base=True)):
        exponent, rest = sp.Integer(0), sp.Integer(1)
        for factor in sp.Mul.make_args(sp.factor(term) if term.has(LAYER_TIME) else term):
            base, power = factor.as_base_exp()
            if base == depth and not power.has(depth):
                exponent += power
            else:
                rest *= factor
        for own, value in _expanded(rest, depth):
            key = sp.expand(exponent + own)
            terms[key] = terms.get(key, sp.Integer(0)) + value
    found = tuple((e, sp.factor_terms(c)) for e, c in terms.items() if c != 0)
    for _, c in found:
        _require_bounded(coefficient, c)
    return found


def _expanded(rest: sp.Expr, depth: sp.Symbol) -> list[tuple[sp.Expr, sp.Expr]]:
    """A rational function of L in powers of L: its two leading ones."""
    if not rest.has(depth):
        return [(sp.Integer(0), rest)]
    small = sp.Dummy("small", positive=True)
    over, under = sp.fraction(sp.together(rest.subs(depth, 1 / small)))
    try:
        over, under = sp.Poly(over, small), sp.Poly(under, small)
    except sp.PolynomialError:
        raise NotCovered(f"{rest}: no rule for its order in {depth}; expected powers of {depth} and rational "
                         f"functions of the layer over {depth}") from None
    lead = [min(m[0] for m in poly.monoms()) for poly in (over, under)]
    power = lead[0] - lead[1]
    a, b = ([poly.coeff_monomial(small ** (low + k)) for k in range(2)] for poly, low in zip((over, under), lead))
    first = sp.cancel(a[0] / b[0])
    second = sp.cancel((a[1] - first * b[1]) / b[0])
    return [(sp.Integer(-power - k), value) for k, value in enumerate((first, second)) if value != 0]


def leading(coefficient: sp.Expr, layer: sp.Symbol | None, depth: sp.Symbol) -> sp.Expr:
    """The function of layer time in front of the largest power of L."""
    first, *others = in_powers(coefficient, layer, depth)
    for exponent, function in others:
        if sp.expand(exponent - first[0]).is_positive:
            first = exponent, function
    return first[1]


def _require_bounded(coefficient: sp.Expr, function: sp.Expr) -> None:
    _, under = sp.fraction(sp.together(function))
    if under.free_symbols == {LAYER_TIME} and under.is_polynomial(LAYER_TIME):
        singular = any(0 <= root <= 1 for root in sp.Poly(under, LAYER_TIME).real_roots())
    else:
        singular = any(under.subs(LAYER_TIME, p) == 0 for p in (0, 1))
    if singular:
        raise NotCovered(f"{coefficient}: goes like {function} with p = l/L, which is not bounded on [0, 1]; no rule "
                         "for its sums over layers")


@lru_cache(maxsize=1024)
def sign_on_layers(function: sp.Expr) -> int:
    """1 or -1 where a function of layer time keeps this sign on [0, 1], 0 where that is not known."""
    values = [function.subs(LAYER_TIME, p) for p in GRID]
    if all(v.is_positive for v in values):
        return 1
    return -1 if all(v.is_negative for v in values) else 0
