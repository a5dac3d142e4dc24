"""Claims about the plane of depth scalings: a verdict's flag holds exactly where a condition on (alpha, gamma) does."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Callable

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.derivations.printing import latex
from tpcalc.verdicts.evidence import Measured
from tpcalc.ledger import MeasuredNumber, Rate
from tpcalc.studies.convergence import fit_order

from ._line import ALPHA, GAMMA

QUARTER = sp.Rational(1, 4)
SIXTEENTH = sp.Rational(1, 16)
# a grid of the plane, and more points on the line where updates add up to order one
PLANE = tuple(dict.fromkeys([(i * QUARTER, j * QUARTER) for i in range(9) for j in range(-4, 7)]
                            + [(i * SIXTEENTH, 1 - i * SIXTEENTH) for i in range(33)]))

Point = tuple[sp.Expr, sp.Expr]
Flag = Callable[[tp.verdicts.Verdict], bool | None]


@lru_cache(maxsize=None)
def verdict(alpha: sp.Expr, gamma: sp.Expr) -> tp.verdicts.Verdict:
    return tp.classify(alpha, gamma)


@dataclass(frozen=True)
class Equivalence:
    """``flag`` holds iff ``condition``, among the verdicts that are ``given``; words: the flag in a few words.

    judge: gives the verdict at a point, whose two exponents are ``symbols`` of the condition; points: of the grid.
    """

    words: str
    flag: Flag
    condition: sp.Basic
    given: Flag = lambda v: True
    judge: Callable[[sp.Expr, sp.Expr], tp.verdicts.Verdict] = verdict
    points: tuple[Point, ...] = PLANE
    symbols: tuple[sp.Symbol, sp.Symbol] = (ALPHA, GAMMA)

    def latex(self) -> str:
        return rf"\text{{{self.words}}} &\iff {latex(self.condition)}"

    def agreement(self) -> MeasuredNumber:
        """On the points of a grid, exactly."""
        points = [point for point in self.points if self.given(self.judge(*point))]
        right = sum(bool(self.flag(self.judge(*point))) == holds(self.condition, point, self.symbols)
                    for point in points)
        return MeasuredNumber(f"points of a grid where '{self.words}' is as stated", float(right), 0.0,
                              float(len(points)))


def holds(condition: sp.Basic, point: Point, symbols: tuple[sp.Symbol, sp.Symbol] = (ALPHA, GAMMA)) -> bool:
    return bool(condition.subs(dict(zip(symbols, point))))


@lru_cache(maxsize=None)
def measured(alpha: sp.Expr, gamma: sp.Expr) -> dict[str, Measured]:
    """By name, after one step of the exact solver at depths up to thousands."""
    return {one.name: one for one in tp.theory.measure_exponents(alpha, gamma)}


def power(point: Point, name: str) -> tuple[float, float]:
    """The measured power of L, and how much it moves between all depths and the deeper half."""
    one = measured(*point)
    everywhere = fit_order(one[name].depths, one[name].values)
    return -one[name].fitted.order, abs(everywhere.order - one[name].fitted.order) + one[name].fitted.uncertainty


def growth(point: Point, name: str, expected: sp.Expr) -> Rate:
    """The measured quantity as evidence for L^expected."""
    one = measured(*point)[name]
    half = len(one.depths) // 2
    depths, values = (tuple(np.asarray(part[half:], dtype=float)) for part in (one.depths, one.values))
    return Rate(f"{name} at ({point[0]}, {point[1]})", "L", 0.0 - float(expected), depths, values)
