"""What a block's input is divided by, before the block."""

from __future__ import annotations

from typing import Callable

import sympy as sp

from .language import Moment, Vec


def rms(x: Vec) -> sp.Expr:
    """The vector over its root mean square."""
    return x * Moment(x**2) ** sp.Rational(-1, 2)


NORMS: dict[str, Callable[[Vec], sp.Expr]] = {"rms": rms}
