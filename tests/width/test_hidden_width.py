"""Blocks of hidden width M: counted powers against slopes of real residual networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings

from tpcalc.testing import rationals
from tpcalc.width import block_limit

SCALES = (2, 4, 8)


def real(c: float, L: int, M: int, N: int, rng: np.random.Generator) -> tuple[float, float]:
    """Root mean squares of what blocks add at the start, and the output's change by unit moves along its gradient."""
    h = start = rng.standard_normal(N)
    gradient, response = rng.standard_normal(N), 0.0
    for _ in range(L):
        U, V = rng.standard_normal((M, N)) / np.sqrt(N), rng.standard_normal((N, M))
        units, signals = U @ h, gradient @ V / np.sqrt(N)
        moved = (1 - np.tanh(units)**2) * signals           # of order one
        response += float(gradient @ (c * V @ ((1 - np.tanh(units)**2) * moved))) / N
        h = h + c * V @ np.tanh(units)
    return float(np.sqrt(np.mean((h - start)**2))), response


@pytest.mark.parametrize("branch", ["1/(L M)", "1/sqrt(L)"])
@pytest.mark.parametrize("depth, hidden, width", [(1, 1, 1), (1, 0, 1), (sp.Rational(1, 2), sp.Rational(1, 2), 1),
                                                  (0, 1, 1), (1, 1, 0)])
def test_powers_are_slopes_of_real_networks(branch: str, depth: Any, hidden: Any, width: Any) -> None:
    found, rng = block_limit(branch, depth, hidden, width), np.random.default_rng(3)
    values = []
    for x in SCALES:
        L, M, N = (int(round(8 * x**float(power))) for power in (depth, hidden, width))
        c = x**float(found.branch) / 16  # noise and moves are small beside the stream
        drawn = np.array([real(c, L, M, N, rng) for _ in range(24)])
        values.append([np.sqrt(np.mean(drawn[:, 0]**2)), np.mean(drawn[:, 1])])
    slopes = np.polyfit(np.log(SCALES), np.log(values), 1)[0]
    assert abs(slopes - [float(found.noise), float(found.response)]).max() < 0.15
    assert found.name == ("SDE" if branch == "1/sqrt(L)" or width == depth + hidden else "unstable"
                          if width > depth + hidden else "ODE")


@settings(deadline=None, max_examples=30)
@given(rationals(0, 2), rationals(0, 2), rationals(0, 2))
def test_both_branches_are_one_where_the_ratio_is_fixed(depth: sp.Rational, hidden: sp.Rational, width: sp.Rational
                                                        ) -> None:
    """N / (L M), typed here as the independent reference."""
    ratio = width - depth - hidden
    one, other = block_limit("1/(L M)", depth, hidden, width), block_limit("1/sqrt(L)", depth, hidden, width)
    assert (one.noise, one.response) == (ratio / 2, 0) and (other.noise, other.response) == (0, -ratio / 2)
    assert (one == other) == (ratio == 0)
    assert other.units == min(0, ratio / 2)


@pytest.mark.parametrize("wrong", [{"branch": "1/L M"}, {"branch": "x"}, {"branch": 1j}, {"depth": -1}, {"hidden": "M"},
                                   {"width": None}])
def test_bad_values_are_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        block_limit(**{"branch": -1, **wrong})
