"""Activations: named ones, or any sympy expression in one symbol."""

from __future__ import annotations

from typing import Any, Callable

import sympy as sp

_H = sp.Symbol("h", real=True)
NAMED: dict[str, sp.Expr] = {
    "linear": _H,
    "relu": sp.Max(_H, 0),
    "abs": sp.Abs(_H),
    "tanh": sp.tanh(_H),
    "erf": sp.erf(_H),
    "gelu": _H * (1 + sp.erf(_H / sp.sqrt(2))) / 2,
}


def activation(phi: Any) -> Callable[[sp.Expr], sp.Expr]:
    """phi as a function of expressions; raises ``ValueError`` for an unknown name or anything not in one symbol."""
    expression = NAMED.get(phi) if isinstance(phi, str) else phi
    if not isinstance(expression, sp.Expr) or len(expression.free_symbols) != 1:
        raise ValueError(f"phi: {phi!r} given; allowed are {', '.join(map(repr, NAMED))} or a sympy expression in one "
                         "symbol")
    symbol, = expression.free_symbols
    return lambda h: expression.xreplace({symbol: h})


def is_linear(phi: Any) -> bool:
    """Is it the identity?"""
    return activation(phi)(_H) == _H
