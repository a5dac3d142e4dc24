"""Norms of vectors, and where they stand in a residual sublayer."""

from __future__ import annotations

from typing import Callable

import sympy as sp

from .language import Moment, Vec

PLACES = ("before", "after", "around", "stream")


def rms(x: Vec) -> sp.Expr:
    """The vector over its root mean square."""
    return x * Moment(x**2) ** sp.Rational(-1, 2)


def centred(x: Vec) -> sp.Expr:
    """The vector less its mean over coordinates."""
    return x - Moment(x)


NORMS: dict[str, tuple[Callable[[Vec], sp.Expr], ...]] = {"rms": (rms,), "layer": (centred, rms)}  # one after the other
