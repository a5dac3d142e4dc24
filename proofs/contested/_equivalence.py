"""A property that verdicts have exactly where a condition holds, on the points of a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import sympy as sp

import tpcalc as tp
from tpcalc.derivations.printing import latex
from tpcalc.ledger import MeasuredNumber

from .._claims import Point, Said
from .._line import ALPHA, GAMMA


@dataclass(frozen=True)
class Equivalence:
    """``flag`` holds iff ``condition``, among the verdicts that are ``given``; words: the flag in a few words.

    judge: gives the verdict at a point, whose two exponents are ``symbols`` of the condition; points: of the grid.
    """

    words: str
    flag: Said
    condition: sp.Basic
    judge: Callable[[sp.Expr, sp.Expr], tp.verdicts.Verdict]
    points: tuple[Point, ...]
    given: Said = lambda v: True
    symbols: tuple[sp.Symbol, sp.Symbol] = (ALPHA, GAMMA)

    def latex(self) -> str:
        return rf"\text{{{self.words}}} &\iff {latex(self.condition)}"

    def agreement(self) -> MeasuredNumber:
        """On the points of the grid, exactly."""
        points = [point for point in self.points if self.given(self.judge(*point))]
        right = sum(bool(self.flag(self.judge(*point))) == bool(self.condition.subs(dict(zip(self.symbols, point))))
                    for point in points)
        return MeasuredNumber(f"points of a grid where '{self.words}' is as stated", float(right), 0.0,
                              float(len(points)))
