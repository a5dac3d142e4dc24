"""What the order calculus asks of an entrywise function: its growth, whether it is odd or even, its kinks."""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

_H = sp.Symbol("h", real=True)


def in_one_symbol(function: sp.Expr, argument: sp.Expr) -> sp.Expr:
    """The function of ``argument`` as one of a symbol."""
    return function.xreplace({argument: _H})


@lru_cache(maxsize=256)
def derivative(function: sp.Expr) -> sp.Expr:
    """The derivative, kinks as jumps, jumps as delta functions."""
    return sp.diff(function.rewrite(sp.Heaviside).replace(sp.Abs, lambda h: h * sp.sign(h)), _H).replace(
        lambda e: isinstance(e, sp.Mul) and e.has(sp.DiracDelta), _point).rewrite(sp.Heaviside)


def _point(product: sp.Expr) -> sp.Expr:
    """h delta(h) = 0."""
    product = product.expand(diracdelta=True, wrt=_H)
    deltas = [f for f in sp.Mul.make_args(product) if isinstance(f, sp.DiracDelta)]
    rest = sp.Mul(*(f for f in sp.Mul.make_args(product) if f not in deltas))
    if len(deltas) == 1 and deltas[0].args == (_H,):
        return rest.subs(_H, 0) * deltas[0]
    return product


@lru_cache(maxsize=256)
def parity(function: sp.Expr) -> int:
    """1 for even, -1 for odd, 0 for neither."""
    mirrored = function.subs(_H, -_H)
    for sign in (1, -1):
        if sp.simplify(sp.expand((mirrored - sign * function).rewrite(sp.Heaviside).replace(
                sp.Heaviside, lambda h, *_: (1 + sp.sign(h)) / 2))) == 0:
            return sign
    return 0


@lru_cache(maxsize=256)
def growth(function: sp.Expr) -> int:
    """0 where the function stays bounded, 1 where it grows linearly; raises ``ValueError`` for what grows faster."""
    smooth = function.replace(sp.DiracDelta, lambda *_: sp.Integer(0))
    largest = 0
    for end in (sp.oo, -sp.oo):
        slope = sp.limit(sp.Abs(smooth) / sp.Abs(_H), _H, end)
        if not slope.is_finite:
            raise ValueError(f"an entrywise function {function} grows faster than linearly; no rule for its order in L")
        largest = max(largest, int(slope != 0))
    return largest


@lru_cache(maxsize=256)
def has_kinks(function: sp.Expr) -> bool:
    """Does the derivative jump?"""
    return derivative(derivative(function)).has(sp.DiracDelta)
