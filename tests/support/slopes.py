"""Slopes of logarithms of what is measured at several sizes, beside powers that are said."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

BOUND = 0.1


@dataclass(frozen=True)
class Slope:
    """value: of logarithms, beside a correction of the order of one over the size; error: one standard deviation, from
    what seeds differ by and from what is not seen of the correction."""

    value: float
    error: float

    @classmethod
    def of(cls, sizes: tuple[int, ...], values: list[list[float]]) -> Slope:
        logs, grown = np.log(np.abs(values)), np.array(sizes) / sizes[0]
        logs -= logs.mean(axis=1, keepdims=True)  # a seed's level is no part of its slope
        errors = np.maximum(logs.std(axis=0, ddof=1) / len(logs)**0.5, 0.005)
        columns = np.stack([np.log(grown), np.ones(len(grown)), 1 / grown], axis=1) / errors[:, None]
        inverse = np.linalg.inv(columns.T @ columns + np.diag([0.0, 0.0, 4.0]))  # a correction of 0 +- 1/2
        return cls(float((inverse @ columns.T @ (logs.mean(axis=0) / errors))[0]), float(inverse[0, 0]**0.5))

    def off(self, power: float) -> float:
        """By how much it is another one; fails beyond the bound and two errors."""
        assert abs(self.value - power) < max(BOUND, 2 * self.error), (self, power)
        return abs(self.value - power)
