"""What an audit finds: a measured power beside the one that is expected, and what usually causes the difference."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

COVERED = math.erf(2**-0.5)  # how often an error covers: as one standard deviation of a normal law does
LEAST = 0.005  # of errors of logarithms, in front of a correction: terms of the order 1 / L^2 are left out


@dataclass(frozen=True)
class Power:
    """A measured power of the depth or of the width. error: of the mean over initializations, which covers
    in 68% of measurements, by Student's law; not known of one."""

    value: float
    error: float

    def differs(self, expected: float, tolerance: float) -> bool:
        """Is it further off than the tolerance, and than three errors, where these are known?"""
        error = 0.0 if math.isnan(self.error) else self.error
        return not abs(self.value - expected) <= max(tolerance, 3 * error)

    @property
    def is_known(self) -> bool:
        return math.isfinite(self.value)


UNKNOWN = Power(math.nan, math.nan)


@dataclass(frozen=True)
class Finding:
    """One quantity whose power is not the expected one.

    pattern: of the parameter, or "stream"; quantity: in words; measured, error: its power and the error of that;
    expected: the power, None where there is none; cause: what usually causes it.
    """

    pattern: str
    quantity: str
    measured: float
    error: float
    expected: float | None
    cause: str

    @classmethod
    def of(cls, pattern: str, quantity: str, power: Power, expected: float | None, cause: str) -> Finding:
        """With what was measured as a power."""
        return cls(pattern, quantity, power.value, power.error, expected, cause)

    def is_certain(self, tolerance: float) -> bool:
        """Is the measured power another than the expected one?"""
        return self.expected is None or Power(self.measured, self.error).differs(self.expected, tolerance)

    def __str__(self) -> str:
        expected = "" if self.expected is None else f", expected {self.expected:+.2g}"
        measured = "" if math.isnan(self.measured) else f" {self.measured:+.2f} +- {self.error:.2f}"
        return f"{self.pattern}: {self.quantity}{measured}{expected}: {self.cause}"


def fitted(sizes: list[int], values: list[list[float]], corrected: bool = False) -> Power:
    """The slope of logarithms against that of the size, a list of values a seed; not known where some value is no
    positive number. corrected: beside b L_0 / L, where b is known beforehand to be 0 +- 1: sums over layers are
    integrals but for that; what is not seen of it is in the error."""
    rows = np.array(values, dtype=float)
    if not (np.isfinite(rows).all() and (rows > 0).all()):
        return UNKNOWN
    logs, grown = np.log(rows), np.array(sizes, dtype=float) / sizes[0]
    slopes = np.polyfit(np.log(sizes), logs.T, 1)[0]
    plain = Power(float(slopes.mean()), float(student_error(slopes, (1 + COVERED) / 2)))
    if not corrected or math.isnan(plain.error):
        return plain
    freedom = logs.size - len(sizes)  # spreads at all sizes are one
    spread = math.sqrt(float(logs.var(axis=0).sum()) / freedom) * float(student.ppf((1 + COVERED) / 2, freedom))
    errors = np.full(len(sizes), max(spread, LEAST))
    columns = np.stack([np.log(grown), np.ones(len(grown)), 1 / grown], axis=1) / errors[:, None]
    known = np.diag([0.0, 0.0, 1.0])
    inverse = np.linalg.inv(columns.T @ columns + known)
    found = inverse @ columns.T @ (logs.mean(axis=0) / errors)
    left = float(np.sum((columns @ found - logs.mean(axis=0) / errors)**2) + found[2]**2)
    return Power(float(found[0]), math.sqrt(inverse[0, 0] * max(1.0, left / max(1, len(sizes) - 2))))


def student_error(values: np.ndarray, level: float) -> np.ndarray:
    """How far the mean over the last axis is from that of many at most, with this probability on one side."""
    count = values.shape[-1]
    if count < 2:
        return np.full(values.shape[:-1], np.nan)
    return np.asarray(student.ppf(level, count - 1) * values.std(axis=-1, ddof=1) / math.sqrt(count))


def branch_cause(measured: float, expected: float, normalized: bool, skipped: bool) -> str:
    """Why a branch adds more, or less, to the stream than it should."""
    if skipped:
        return "the multiplier is on the skip connection, not on the branch"
    if normalized and measured > expected:
        return ("a norm after the matrix cancels its initial size, and with it a multiplier that was made a part of "
                "it: multiply after the norm")
    if abs(measured + expected) < 0.2 < abs(expected):
        return "the multiplier is upside down: n^1/2 for n^-1/2, base depth over depth for depth over base depth"
    if measured > expected:
        return ("the branch multiplier is missing or too large: never applied, or a buffer that held it was lost, as "
                "after to_empty")
    return "the branch shrinks twice, by its multiplier and by its initialization, or its multiplier is too small"


def update_cause(inside: bool, measured: float, expected: float, whole: bool, axis: str) -> str:
    """Why updates are larger, or smaller; whole: all parameters of layers are off alike; axis: what they grow with."""
    if not inside:
        return (f"its learning rate goes with {axis} as that of a matrix in layers; outside of layers it should not"
                if measured < expected else f"its learning rate grows with {axis}")
    if whole:
        return ("the learning rate of layers lacks a factor, or their branches are larger than they should be"
                if measured > expected else
                "the learning rate of layers, or their branches, are smaller than they should be")
    return "the parameter is in another group than those beside it, with the wrong learning rate"
