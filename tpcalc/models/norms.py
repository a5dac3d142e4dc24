"""Norms of vectors, and where they stand in a residual sublayer."""

from __future__ import annotations

from typing import Callable

import sympy as sp

from ..programs.language import Mean, Vector

NORM_POSITIONS = ("pre", "output", "sandwich", "post")


def rms(x: Vector) -> sp.Expr:
    """The vector over its root mean square."""
    return x * Mean(x**2) ** sp.Rational(-1, 2)


def centered(x: Vector) -> sp.Expr:
    """The vector less its mean over coordinates."""
    return x - Mean(x)


# one after the other
NORMS: dict[str, tuple[Callable[[Vector], sp.Expr], ...]] = {"rms": (rms,), "layer": (centered, rms)}
