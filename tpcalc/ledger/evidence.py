"""Evidence: measured numbers with error bars, and measured rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..studies.convergence import Slope, fit_order

SIGMAS = 3.0


@dataclass(frozen=True)
class MeasuredNumber:
    """A measured ``value +- error`` and what the statement says it is.

    error: a standard error, or a bound on what discretization and round-off can do.
    """

    what: str
    value: float
    error: float
    expected: float

    @property
    def holds(self) -> bool:
        """Within three errors of what is expected; never for NaN."""
        return bool(abs(self.value - self.expected) <= SIGMAS * self.error)

    def __str__(self) -> str:
        return f"{self.what}: {self.value:.4g} +- {self.error:.1g}, expected {self.expected:.4g}"


@dataclass(frozen=True)
class Rate:
    """Distances that fall like a power of a size; the fitted power and what the statement says it is.

    sizes, distances: (k,), of the size named ``variable``; expected: the r of size^-r; allowance: how far the
    fitted power may be off because the sizes are finite, besides three standard errors of the fit.
    """

    what: str
    variable: str
    expected: float
    sizes: tuple[float, ...]
    distances: tuple[float, ...]
    allowance: float = 0.05

    @property
    def slope(self) -> Slope:
        return fit_order(np.array(self.sizes, dtype=float), np.array(self.distances, dtype=float))

    @property
    def holds(self) -> bool:
        """From three sizes at least, so that the fit has an error."""
        fitted = self.slope
        return bool(len(self.sizes) > 2 and np.isfinite(fitted.uncertainty)
                    and abs(fitted.order - self.expected) <= self.allowance + SIGMAS * fitted.uncertainty)

    def __str__(self) -> str:
        fitted = self.slope
        return (f"{self.what}: falls like {self.variable}^-({fitted.order:.3f} +- {fitted.uncertainty:.3f}), "
                f"expected {self.variable}^-{self.expected:g}")


@dataclass(frozen=True)
class Evidence:
    """All that was measured for one entry; raises ``ValueError`` where that is nothing."""

    numbers: tuple[MeasuredNumber, ...] = ()
    rates: tuple[Rate, ...] = ()

    def __post_init__(self) -> None:
        if not self.numbers and not self.rates:
            raise ValueError("evidence: got nothing; expected one or more numbers or rates")

    @property
    def measurements(self) -> tuple[MeasuredNumber | Rate, ...]:
        return (*self.numbers, *self.rates)

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(map(str, self.measurements))

    @property
    def failures(self) -> tuple[str, ...]:
        return tuple(str(m) for m in self.measurements if not m.holds)
