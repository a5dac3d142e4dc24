"""Integral equations in a Krylov space, and Riccati's equation on elements where iterations do not settle."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from support.closeness import assert_close
from tpcalc._chebyshev import reference
from tpcalc.finite_width import stiff_element
from tpcalc.propagators.layer_time import krylov
from tpcalc.finite_width.stiff_element import is_stiff, reflection

NODES = 24
TURNS = slice(0, 2), slice(2, 5)


def volterra(rate: float, length: float) -> tuple[np.ndarray, np.ndarray]:
    points, _, integral = reference(NODES)
    return length * (points + 1) / 2, np.eye(NODES) - length / 2 * integral * rate


def test_a_decay_of_dozens_is_solved_in_few_dimensions() -> None:
    """y' = -30 y on [0, 1/2], by collocation, of which exp is the solution; and too few dimensions are said."""
    times, matrix = volterra(-30.0, 0.5)
    found = krylov(lambda x: matrix @ x, np.ones(NODES), NODES)
    assert found is not None
    assert_close(found, np.linalg.solve(matrix, np.ones(NODES)), 1e-12)
    assert_close(found, np.exp(-30 * times), 1e-8)
    assert krylov(lambda x: matrix @ x, np.ones(NODES), 5) is None


def test_nothing_and_what_is_not_finite() -> None:
    assert np.array_equal(krylov(lambda x: 2 * x, np.zeros(3), 2), np.zeros(3))
    assert krylov(lambda x: x, np.array([1.0, np.inf]), 2) is None
    assert_close(krylov(lambda x: 2 * x, np.array([1.0, -3.0]), 2), [0.5, -1.5], 1e-15)


def triangular(rng: np.random.Generator, decay: float, strictly: bool) -> np.ndarray:
    """Changes linearly in time; blocks above the turns' diagonal vanish, or all that do not lie below it."""
    values = rng.normal(size=(2, 5, 5))
    values[0] -= decay * np.eye(5)
    values[:, :2, 2:] = 0.0
    if strictly:
        for turn in TURNS:
            values[:, turn, turn] = 0.0
    return values


@pytest.mark.parametrize("how", ["in a Krylov space", "factorized"])
@pytest.mark.parametrize("forward", [True, False])
def test_riccatis_equation_is_that_of_an_integrator(how: str, forward: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """rho' = b + a rho + rho d + rho c rho, or -rho', with decays of 20 on both sides, against Runge and Kutta."""
    rng = np.random.default_rng(1)
    a, b, d = triangular(rng, 20.0, False), triangular(rng, 0.0, False), triangular(rng, 20.0, False)
    c, start = triangular(rng, 0.0, True), triangular(rng, 0.0, False)[0]
    points, _, integral = reference(NODES)
    times = (points + 1) / 4
    at = [x[0] + times[:, None, None] * x[1] for x in (a, b, c, d)]

    def slope(t: float, flat: np.ndarray) -> np.ndarray:
        rho = flat.reshape(5, 5)
        here = [x[0] + (t if forward else 0.5 - t) * x[1] for x in (a, b, c, d)]
        return np.asarray((here[1] + here[0] @ rho + rho @ here[3] + rho @ here[2] @ rho).ravel())

    expected = solve_ivp(slope, (0, 0.5), start.ravel(), "DOP853", times if forward else 0.5 - times[::-1],
                         rtol=1e-13, atol=1e-14).y.T.reshape(NODES, 5, 5)
    matrix = integral / 4 if forward else integral[::-1, ::-1] / 4
    if how == "factorized":
        monkeypatch.setattr(stiff_element, "KRYLOV", 2)
    found = reflection(start, *at, matrix, TURNS)
    assert_close(found, expected if forward else expected[::-1], 1e-7)
    monkeypatch.setattr(stiff_element, "LARGEST", 1)
    assert (reflection(start, *at, matrix, TURNS) is None) == (how == "factorized")


def test_stiff_elements_are_those_with_large_rates_times_lengths() -> None:
    a = np.zeros((3, 5, 5))
    a[1, 3, 4] = -40.0
    assert is_stiff(a, 0 * a, 0.5, TURNS) and is_stiff(0 * a, a, 0.5, TURNS)
    assert not is_stiff(a, 0 * a, 0.2, TURNS)
    a[1, 4, 0] = 1e6  # between turns: no iteration minds
    assert not is_stiff(a, 0 * a, 0.2, TURNS)
