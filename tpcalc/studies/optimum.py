"""The minimum of a curve that is known on a grid."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

REAL = 1e-9  # imaginary parts, and shares of the largest coefficient, that are round-off


@dataclass(frozen=True)
class Optimum:
    """value: where the minimum is; loss: the least on the grid, of a training that was made; bracketed: do losses on
    both sides (infinite ones too) exceed it?; skew: how far in log(value) the minimum of the polynomial through the
    next points too is from that of the parabola, NaN where there are none.

    value and loss are NaN where there is no minimum: nothing finite, or one and the same loss everywhere.
    """

    value: float
    loss: float
    bracketed: bool
    interpolated: bool = False
    skew: float = math.nan


def grid_optimum(values: np.ndarray, losses: np.ndarray) -> Optimum:
    """The minimum of ``losses`` over growing positive ``values``, between grid points by a parabola in log(values).

    The parabola goes through the least loss and its neighbors; where one of these is missing or not finite, the
    grid point stands. Its error is of second order in the logarithmic spacing for a smooth curve. Its own least value
    is not used: near the edge of stability curves are steep on one side, and it would be a loss that no training has.
    """
    known = np.isfinite(losses)
    if not known.any() or (known.all() and len(losses) > 1 and np.ptp(losses) == 0):
        return Optimum(float("nan"), float("nan"), False)
    best = int(np.argmin(np.where(known, losses, np.inf)))
    bracketed = 0 < best < len(losses) - 1
    around = slice(best - 1, best + 2)
    if not bracketed or not known[around].all():
        return Optimum(float(values[best]), float(losses[best]), bracketed)
    location = np.log(values[around] / values[best])
    a, b, _ = np.linalg.solve(np.vander(location, 3), losses[around] - losses[best])
    if a <= 0:  # two equal losses, and a third
        return Optimum(float(values[best]), float(losses[best]), bracketed)
    vertex = -b / (2 * a)
    return Optimum(float(values[best] * np.exp(vertex)), float(losses[best]), bracketed, True,
                   _further(np.log(values / values[best]), losses, known, best) - vertex)


def _further(location: np.ndarray, losses: np.ndarray, known: np.ndarray, best: int) -> float:
    """Where between the neighbors of the least loss the polynomial through up to two points on either side is least."""
    low, high = best - 1 - (best > 1 and known[best - 2]), best + 2 + (best + 2 < len(losses) and known[best + 2])
    if high - low == 3:
        return math.nan
    curve = np.polynomial.Polynomial.fit(location[low:high], losses[low:high], high - low - 1)
    ends = location[[best - 1, best + 1]]
    slope = curve.deriv()
    slope = slope.trim(REAL * np.abs(slope.coef).max())  # roots far out, of leading round-off, cost others their digits
    found = [root.real for root in slope.roots() if abs(root.imag) < REAL and ends[0] < root.real < ends[1]]
    return float(min([*found, *ends], key=curve))
