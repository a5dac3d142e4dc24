"""The orthogonal factor of a matrix, in the language: what Muon makes of gradients."""

from __future__ import annotations

from typing import Sequence

import numpy as np
import sympy as sp
from sympy.printing.printer import Printer

from ..programs.backprop import ROWS
from .polar_factor import orthogonal_factor_of
from .spectral import Spectral


class Polar(Spectral):
    """U V^T of the singular vectors of a sum of outer products: its singular values set to 1, what is 0 left 0.

    steps: 0 for the factor itself, k for k Newton-Schulz steps towards it. Only the sign of a number in front of the
    body counts.
    """

    steps = property(lambda self: int(self.more[0]))

    def whole(self, now: np.ndarray, past: Sequence[np.ndarray], rounding: float) -> tuple[np.ndarray, np.ndarray]:
        return orthogonal_factor_of(now, self.steps, rounding)

    @property
    def _name(self) -> str:
        return "polar"

    @property
    def _how(self) -> str:
        return f", {self.steps} steps" if self.steps else ""

    def _of_whole(self, inside: str, printer: Printer) -> str:
        name = r"\operatorname{polar}" + (f"_{{{self.steps}}}" if self.steps else "")
        return rf"{name}\left({inside}\right)"


def polar(body: sp.Expr, steps: int = 0) -> sp.Expr:
    """The orthogonal factor of a sum of numbers times outer products, or Newton-Schulz steps towards it; ``TypeError``
    for other bodies.

    >>> from tpcalc.programs.language import Family, Outer, Vector
    >>> u, v = Family(Vector, "u")(), Family(Vector, "v")()
    >>> polar(2 * Outer(u, v), 3)
    polar(2*outer(u, v)/n, 3 steps)
    """
    return Polar((body,), (), 0, ROWS, steps)
