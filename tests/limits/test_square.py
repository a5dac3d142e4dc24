"""Integrals of functions that jump on the diagonal, against polynomials' own."""

import numpy as np
import pytest

from tpcalc.limits.square import LayerTimeSquare

SQUARE = LayerTimeSquare(9)
P, Q = SQUARE.times[:, None], SQUARE.times[None, :]
JUMPING = np.stack([P**2 * Q + 0 * P, 3 * P - Q**2])  # p < q; p > q


def test_upward_from_zero() -> None:
    below = P**3 * Q / 3
    above = Q**4 / 3 + 3 * (P**2 - Q**2) / 2 - Q**2 * (P - Q)
    assert SQUARE.along_p(JUMPING, True) == pytest.approx(np.stack([below, above]), abs=1e-13)


def test_downward_to_one() -> None:
    above = 3 * (1 - P**2) / 2 - Q**2 * (1 - P)
    below = (Q**3 - P**3) * Q / 3 + 3 * (1 - Q**2) / 2 - Q**2 * (1 - Q)
    assert SQUARE.along_p(JUMPING, False) == pytest.approx(np.stack([below, above]), abs=1e-13)


def test_over_the_second_time() -> None:
    """q < p first: there the function is the one of p > q."""
    exact = 3 * P**2 - P**3 / 3 + P**2 * (1 - P**2) / 2
    assert SQUARE.over_q(JUMPING)[0] == pytest.approx(exact, abs=1e-13)


def test_one_sided_values_and_ends() -> None:
    assert SQUARE.on_diagonal(JUMPING, -1).ravel() == pytest.approx(SQUARE.times**3)
    assert SQUARE.on_diagonal(JUMPING, 1).ravel() == pytest.approx(3 * SQUARE.times - SQUARE.times**2)
    assert SQUARE.at_end(JUMPING, 0).ravel() == pytest.approx(0 * SQUARE.times)
    assert SQUARE.at_end(JUMPING, 1).ravel() == pytest.approx(3 - SQUARE.times**2)


def test_functions_of_one_time_stay_so() -> None:
    assert SQUARE.along_p(np.cos(P)[None], True).shape == (1, 9, 1)
    assert SQUARE.over_q(np.exp(Q)[None]).ravel() == pytest.approx(np.e - 1, abs=1e-9)
    assert SQUARE.over_q(SQUARE.indicator(1)).ravel() == pytest.approx(SQUARE.times)
    assert SQUARE.over_q(SQUARE.indicator(-1)).ravel() == pytest.approx(1 - SQUARE.times)


def test_nodes_know_the_piece_they_are_on() -> None:
    pieces = LayerTimeSquare(5, (0.25, 0.6))
    assert pieces.times.shape == (15,) and np.all(np.diff(pieces.times) >= 0)
    for number, ends in enumerate(zip(pieces.ends, pieces.ends[1:])):
        there = pieces.within(*ends)
        assert there.shape == (1, 15, 1)
        assert there.ravel().tolist() == [5 * number <= node < 5 * (number + 1) for node in range(15)]
    assert pieces.within(0.0, 0.6).sum() == 10
