"""Means of odd functions of a direction in a plane, which are known on half a circle."""

from __future__ import annotations

from typing import Callable, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
import scipy  # its parts are imported where they are used first

NODES = 5                    # of an arc
DROPPED = 2                  # coefficients that say what is left out
SHORTEST = np.pi / 2**12     # an arc that is not divided further: a jump lies in it
POINTS = 2**15               # of the Gaussian
ROOTS = np.sqrt([2.0, 3.0, 5.0, 7.0])  # of a lattice

Function = Callable[[np.ndarray], np.ndarray]


class Arc(NamedTuple):
    """A function between two angles, as a sum of Chebyshev's polynomials; coefficients: (degrees, values)."""

    first: float
    last: float
    coefficients: np.ndarray

    def values(self, angles: np.ndarray) -> np.ndarray:
        """(angles, values)."""
        x = (2 * angles - self.first - self.last) / (self.last - self.first)
        return np.asarray(chebyshev.chebval(x, self.coefficients).T)


def arcs_of(function: Function, center: np.ndarray, tolerance: float) -> list[Arc]:
    """A function of a direction, of two numbers, on the half circle around ``center``; of one number, at 1."""
    if len(center) == 1:
        return [Arc(-np.pi / 2, np.pi / 2, function(np.ones(1))[None])]
    middle = float(np.arctan2(center[1], center[0]))
    return _divided(lambda angle: function(np.array([np.cos(angle), np.sin(angle)])), middle - np.pi / 2,
                    middle + np.pi / 2, tolerance)


def _divided(function: Callable[[float], np.ndarray], first: float, last: float, tolerance: float) -> list[Arc]:
    """Arcs on which the last coefficients are small, or the shortest ones, whose value is that of the middle."""
    middle, half = (first + last) / 2, (last - first) / 2
    if 2 * half < SHORTEST:
        return [Arc(first, last, function(middle)[None])]
    points = chebyshev.chebpts1(NODES)
    coefficients = chebyshev.chebfit(points, np.array([function(middle + half * x) for x in points]), NODES - 1)
    if np.max(np.sum(np.abs(coefficients[-DROPPED:]), axis=0)) <= tolerance:
        return [Arc(first, last, coefficients)]
    return [*_divided(function, first, middle, tolerance), *_divided(function, middle, last, tolerance)]


def mean_over(arcs: list[Arc], directions: Function, dimensions: int) -> np.ndarray:
    """The mean of an odd function over ``directions`` (points, 2 or 1) that Gaussians (points, dimensions) make."""
    found = directions(gaussians(dimensions))
    start = arcs[0].first
    angles = np.arctan2(found[:, 1], found[:, 0]) if found.shape[1] == 2 else np.where(found[:, 0] > 0, 0.0, np.pi)
    half, angles = np.divmod(angles - start, np.pi)
    sign, total = np.where(half % 2 == 0, 1.0, -1.0), np.zeros(arcs[0].coefficients.shape[1])
    angles = angles + start
    for arc in arcs:
        there = (angles >= arc.first) & (angles < arc.last)
        total += sign[there] @ np.broadcast_to(arc.values(angles[there]), (int(np.sum(there)), len(total)))
    return np.asarray(total / len(found))


def gaussians(dimensions: int) -> np.ndarray:
    """(points, dimensions), with equal weights: middles of equal shares, and a lattice in the others."""
    numbers = np.arange(POINTS) + 0.5
    shares = [numbers / POINTS, *(numbers * root % 1 for root in ROOTS[:dimensions - 1])]
    return np.asarray(scipy.special.ndtri(np.column_stack(shares)))
