"""Numbers with errors from seeds, and what they say of a claim."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Callable, Iterable

import numpy as np
from scipy.stats import t as student

from ..studies.optimum import grid_optimum

MOST_DIGITS = 4  # after the point: no number of a figure has more
SURE = 0.975  # of Student's distribution, on either side


@dataclass(frozen=True)
class Estimate:
    """A mean and its standard error from ``seeds`` numbers; open: it is where a grid ends, beyond which it may lie;
    grid: how far a grid's steps may have moved it besides.

    >>> str(Estimate(0.123, 0.045, 4)), Estimate(0.1, 0.2, 4).within(-1, 1), Estimate(0.9, 0.2, 4).within(-1, 1)
    ('0.123 +- 0.045', True, None)
    """

    value: float
    error: float
    seeds: int
    open: bool = False
    grid: float = 0.0

    def __str__(self) -> str:
        if not math.isfinite(self.value):
            return "not finite"
        return f"{_figures(self.value, self.error)} +- {self.error:.2g}" + (
            f" (and {self.grid:.2g} of the grid)" * (self.grid > 0)) + " (where the grid ends)" * self.open

    def within(self, low: float, high: float) -> bool | None:
        """Is it between both? None where its error leaves that open."""
        margin = self.margin
        if not math.isfinite(self.value) or not math.isfinite(margin):
            return None
        if self.value + margin < low or self.value - margin > high:  # a value at the end of a grid lies further out
            return False
        return True if low <= self.value - margin and self.value + margin <= high and not self.open else None

    @property
    def margin(self) -> float:
        """How far the true mean is at most, at 95%, if seeds are normal."""
        return self.error * float(student.ppf(SURE, self.seeds - 1)) + self.grid

    def above(self, low: float) -> bool | None:
        """Is it above?"""
        return None if self.value == low and not self.margin else self.within(low, math.inf)

    def below(self, high: float) -> bool | None:
        """Is it below?"""
        return (-self).above(-high)

    def __sub__(self, other: Estimate) -> Estimate:
        """The difference of two that share no seeds."""
        return Estimate(self.value - other.value, math.hypot(self.error, other.error), min(self.seeds, other.seeds),
                        self.open or other.open, self.grid + other.grid)

    def __neg__(self) -> Estimate:
        return Estimate(-self.value, self.error, self.seeds, self.open, self.grid)


def over_seeds(values: np.ndarray, ends: bool = False) -> Estimate:
    """The mean of a number of every seed, at least two of them."""
    return Estimate(float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))), len(values), ends)


def jackknife(statistic: Callable[[np.ndarray], float], values: np.ndarray) -> Estimate:
    """A statistic of all seeds, which stand in the first axis, and its error from leaving out one of them after the
    other."""
    count = len(values)
    without = np.array([statistic(np.delete(values, k, axis=0)) for k in range(count)])
    error = math.sqrt((count - 1) * float(np.mean((without - without.mean()) ** 2)))
    return Estimate(statistic(values), error, count)


def negation(answer: bool | None) -> bool | None:
    """The answer to the opposite question."""
    return None if answer is None else not answer


def best_octaves(values: np.ndarray, losses: np.ndarray) -> tuple[np.ndarray, bool]:
    """The power of 2 of the best of growing values, of every seed, (seeds,), and whether a grid ends at one of them.

    losses: (values, seeds). Where training blows up at all values the best one is below the least, which stands for it.
    """
    found = [grid_optimum(values, curve) for curve in losses.T]
    known = np.isfinite(losses).any(axis=0)
    return (np.log2([one.value if good else values[0] for one, good in zip(found, known)]),
            not all(one.bracketed for one in found))


def shift(values: np.ndarray, before: np.ndarray, after: np.ndarray) -> Estimate:
    """Octaves by which the best value moves from one set of losses, (values, seeds), to another of the same seeds."""
    (one, first), (other, last) = best_octaves(values, before), best_octaves(values, after)
    moved = over_seeds(other - one, first or last)
    return replace(moved, grid=beside_blow_ups(values, before) + beside_blow_ups(values, after))


def beside_blow_ups(values: np.ndarray, losses: np.ndarray) -> float:
    """Half a step of the grid, in octaves, for the share of seeds where training blows up next to the best value:
    there is no parabola, and the optimum is within the step."""
    found = [grid_optimum(values, curve) for curve in losses.T]
    share = np.mean([one.bracketed and not one.interpolated for one in found])
    return float(share * np.diff(np.log2(values)).max() / 2)


def best_loss(losses: np.ndarray) -> np.ndarray:
    """The least loss over all values, of every seed: losses has an axis of seeds at its end."""
    return losses.reshape(-1, losses.shape[-1]).min(axis=0)


def slope(x: Iterable[float], y: np.ndarray) -> Estimate:
    """The power by which y, (x, seeds), grows with x: fitted for every seed."""
    powers = np.polyfit(np.log(list(x)), np.log(y), 1)[0]
    return over_seeds(np.atleast_1d(powers))


def all_of(answers: Iterable[bool | None]) -> bool | None:
    """True where all are, False where one is, None otherwise."""
    found = list(answers)
    return False if False in found else None if None in found else True


def _figures(value: float, error: float) -> str:
    """The value with as many digits as its error's two figures."""
    if not error > 0:
        return f"{value:.3g}"
    return f"{value:.{min(MOST_DIGITS, max(0, 1 - math.floor(math.log10(error))))}f}"
