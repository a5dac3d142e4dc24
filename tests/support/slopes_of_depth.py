"""Powers of the depth, and of others, in sizes that are measured, and whether a verdict says them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

import numpy as np

SLACK, ERRORS, BOUND = 0.1, 3, 0.1
UNKNOWN = 0.3   # what corrects a size at the first depth is 0 +- this, in its logarithm
AT_START = ("x at initialization", "h at initialization")
COMPARED = (*AT_START, "change of f", "change of x", "change of h", "update of h")
Told = Sequence[Sequence[float] | None]


@dataclass(frozen=True)
class Power:
    """s and its standard error in a size like L^s; exponential: +-oo where one like exp(c L^v) fits as well."""

    slope: float
    error: float = 0.0
    exponential: float = 0.0


def power(depths: Sequence[int], told: Told) -> Power:
    """s and its standard error in size = c L^s exp(b (L/L_0)^(-1/2)), from means of logarithms and their errors.

    Where they are off by more than their errors, the error grows in proportion. Infinite where the power itself grows
    or falls from one doubling to the next, as those of exponentials do, and where sizes are not finite or vanish.
    exp(L^(1/4)) is told from no power at such depths.
    """
    if not all(told):
        end = np.inf if told[0] and told[0][0] > -3 and _rises(told) else -np.inf
        return Power(end, 0.0, end)
    means, errors = np.array(told, dtype=float).T
    errors, size = np.maximum(errors, 0.005), np.array(depths, dtype=float)
    ends = np.diff(means) / np.diff(np.log(size))
    sign = np.inf if ends[-1] > 0 else -np.inf
    if abs(ends[-1]) > 1.5 and np.all(np.diff(np.abs(ends)) > 0) and np.all(ends * ends[-1] > 0):
        return Power(sign, 0.0, sign)
    s, error, left = _fitted(size, np.log(size), means, errors)
    others = [_fitted(size, size**v, means, errors) for v in (0.25, 0.5, 0.75, 1.0)]
    steeper = abs(np.mean(ends[-2:])) > max(0.3, 1.2 * abs(np.mean(ends[:2])))
    as_well = steeper and any(a * sign > 0 and rest <= left + 1 for a, _, rest in others)
    return Power(s, error * float(np.sqrt(max(1.0, left / (len(size) - 2)))), sign if as_well else 0.0)


def _fitted(size: np.ndarray, along: np.ndarray, means: np.ndarray, errors: np.ndarray) -> tuple[float, float, float]:
    """a, its error and the sum of squares that is left in means = a along + c + b (L/L_0)^(-1/2)."""
    columns = np.stack([along, np.ones(len(size)), (size / size[0])**-0.5 * UNKNOWN], axis=1) / errors[:, None]
    spread = np.linalg.inv(columns.T @ columns + np.diag([0.0, 0.0, 1.0]))
    found = spread @ columns.T @ (means / errors)
    left = float(np.sum((columns @ found - means / errors)**2) + found[2]**2)
    return float(found[0]), float(np.sqrt(spread[0, 0])), left


def _rises(told: Told) -> bool:
    finite = [one[0] for one in told if one]
    return len(finite) < 2 or finite[-1] > finite[0]


@dataclass(frozen=True)
class Compared:
    """A power that a verdict says, and the one that is measured; bound: is it an upper bound alone?"""

    name: str
    said: float
    measured: Power
    bound: bool = False

    @property
    def agrees(self) -> bool:
        found = self.measured
        if np.isinf(self.said) and found.exponential == self.said:
            return True
        if np.isinf(self.said) or np.isinf(found.slope):
            return found.slope <= self.said if self.bound else found.slope == self.said
        far = found.slope - self.said
        return (far if self.bound else abs(far)) <= max(SLACK, ERRORS * found.error)

    def __str__(self) -> str:
        return (f"{self.name} {'at most ' * self.bound}{self.said:g}, measured {self.measured.slope:.2f} +- "
                f"{self.measured.error:.2f}{'' if self.agrees else ' (!)'}")


def measured(row: Mapping[str, Any]) -> dict[str, Power]:
    """By name the power of each size, the largest one over updates."""
    return {name: max((power(row["depths"], told) for told in row["logs"][name]), key=lambda one: one.slope)
            for name in COMPARED}


def compared(row: Mapping[str, Any], exponents: Mapping[str, Any], bounds: frozenset[str]) -> list[Compared]:
    """A verdict's exponents beside the powers of a row; of training only where something is there to be trained."""
    powers = measured(row)
    starts = all(np.isfinite(float(exponents[name])) for name in AT_START)
    return [Compared(name, float(exponents[name]), powers[name], name in bounds)
            for name in (COMPARED if starts else AT_START) if name in exponents]


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
