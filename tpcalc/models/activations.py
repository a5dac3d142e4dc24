"""Activations, named or as any sympy expression in one symbol, and norms, with where they stand in a sublayer."""

from __future__ import annotations

from functools import lru_cache
from typing import Callable

import sympy as sp
from sympy.calculus.singularities import singularities
from sympy.core.function import AppliedUndef

from .._checks import short
from ..errors import NotCovered
from ..programs.language import Mean, Vector

H = sp.Symbol("h", real=True)  # the variable of all functions of one variable
UNREAL = (sp.I, sp.zoo, sp.nan, sp.oo, -sp.oo)
NAMED: dict[str, sp.Expr] = {
    "linear": H,
    "relu": sp.Max(H, 0),
    "abs": sp.Abs(H),
    "tanh": sp.tanh(H),
    "erf": sp.erf(H),
    "gelu": H * (1 + sp.erf(H / sp.sqrt(2))) / 2,
    "silu": H * (1 + sp.tanh(H / 2)) / 2,  # h times its sigmoid, whose limits are those of tanh
}


def activation(phi: sp.Expr | str, name: str = "phi") -> Callable[[sp.Expr], sp.Expr]:
    """phi as a function of expressions; raises ``ValueError``, which calls it ``name``, for an unknown name or anything
    not in one symbol."""
    expression = NAMED.get(phi.lower()) if isinstance(phi, str) else phi
    if not isinstance(expression, sp.Expr) or len(expression.free_symbols) != 1:
        raise ValueError(f"{name}: got {short(phi)}; expected {', '.join(map(repr, NAMED))} or a sympy expression "
                         "in one symbol")
    unknown = expression.atoms(AppliedUndef)
    if unknown:
        raise ValueError(f"{name}: got {expression}; {unknown.pop()} has no definition; expected functions that "
                         "have")
    if expression.has(*UNREAL):
        raise ValueError(f"{name}: got {expression}; expected functions with real values")
    return lambda h: _at(expression, h)


@lru_cache(maxsize=1024)
def _at(expression: sp.Expr, h: sp.Expr) -> sp.Expr:
    """Networks are built often, and a maximum takes sympy a millisecond to build."""
    symbol, = expression.free_symbols
    return expression.xreplace({symbol: h})


@lru_cache(maxsize=64)
def require_finite(phi: sp.Expr | str, name: str = "phi") -> None:
    """Raise ``ValueError``, which calls it ``name``, unless phi and its derivative are real and finite for all real
    arguments, as far as sympy finds their poles: means over Gaussian variables need not exist elsewhere, and samples
    would not tell."""
    f = activation(phi, name)(H)
    for order, what in enumerate(("it", "its derivative")):
        value = f.diff(H, order)
        try:
            poles = singularities(value, H, sp.S.Reals)
        except (NotImplementedError, ValueError):  # sympy's, where it does not solve for them
            poles = sp.S.EmptySet
        wrong = value.has(sp.DiracDelta, sp.Derivative, *UNREAL)
        if wrong or poles is not sp.S.EmptySet:
            where = "" if wrong else f" at h in {poles}"
            raise NotCovered(f"{name}: got {f}; {what} is not a finite real function of h{where}; expected functions "
                             "that are finite for all real h, with such a derivative (kinks are allowed)")


def is_linear(phi: sp.Expr | str) -> bool:
    """Is it the identity?"""
    return bool(activation(phi)(H) == H)


NORM_POSITIONS = ("pre", "output", "sandwich", "post")


def rms(x: Vector) -> sp.Expr:
    """The vector over its root mean square."""
    return x * Mean(x**2) ** sp.Rational(-1, 2)


def centered(x: Vector) -> sp.Expr:
    """The vector less its mean over coordinates."""
    return x - Mean(x)


# one after the other
NORMS: dict[str, tuple[Callable[[Vector], sp.Expr], ...]] = {"rms": (rms,), "layer": (centered, rms)}
