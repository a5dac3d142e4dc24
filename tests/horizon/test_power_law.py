"""Exponents of spectra that are power laws, beside modes that are stepped one by one and beside formulas."""

from __future__ import annotations

import numpy as np
import pytest

from tpcalc.horizon import power_law
from tpcalc.horizon.power_law import Modes


@pytest.mark.parametrize("schedule", ["constant", "linear"])
def test_the_loss_is_that_of_steps(schedule: str) -> None:
    a, b, rate, steps = 1.5, 2.0, 0.005, 8000
    index = np.arange(1.0, 20001)
    variance, left = index**-a, index**-b
    for t in range(steps):
        r = rate * (1 - t / steps if schedule == "linear" else 1)
        left = (1 - r * variance) ** 2 * left + (r * variance) ** 2
    not_learned = 1 / 20000.5
    assert abs(Modes(a, b, schedule).loss(rate, steps) / (np.sum(left) + not_learned) - 1) < 2e-4


@pytest.mark.parametrize("a", [1.25, 1.5, 3.0, 4.0])
@pytest.mark.parametrize("b", [1.3, 2.5, 4.0])
def test_exponents_of_a_constant_rate(a: float, b: float) -> None:
    found, rho = power_law(a, b), (b - 1) / a
    assert abs(found.x - rho / (1 + rho)) < 2e-3 and abs(found.loss - rho / (1 + rho)) < 4e-3


@pytest.mark.parametrize("a", [1.25, 1.5, 3.0, 4.0])
@pytest.mark.parametrize("b", [1.3, 2.5, 4.0])
def test_exponents_of_a_linear_schedule(a: float, b: float) -> None:
    """Below a = 2 all modes that are learned make noise, above it the first."""
    found, rho = power_law(a, b, "linear"), (b - 1) / a
    assert abs(found.x - max(0, 1 - 1 / (rho + max(1 / a, 0.5)))) < 3e-3
    assert abs(found.loss - rho * (1 - found.x)) < 3e-3


@pytest.mark.parametrize("a, b, allowed", [(1.0, 2.0, "a: got 1; the sum"), (2.0, 0.5, "b: got 0.5; the sum")])
def test_what_has_no_finite_sum(a: float, b: float, allowed: str) -> None:
    with pytest.raises(ValueError, match=allowed):
        power_law(a, b)
