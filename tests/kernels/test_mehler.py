"""Mehler's sums: equal to whole sums, with as many terms as the bound asks for."""

from __future__ import annotations

import numpy as np
import pytest

from tpcalc.kernels.mehler import sums, tails

RNG = np.random.default_rng(0)
TERMS = 64
A, B = (RNG.normal(size=(rows, TERMS)) * 0.8 ** np.arange(TERMS) for rows in (3, 4))
LEFT, RIGHT, R = RNG.integers(0, 3, 50), RNG.integers(0, 4, 50), RNG.uniform(-1, 1, 50)
OUTSIDE = 1e-9  # of the squares, beyond all terms


def test_tails() -> None:
    """After 8, 16, 32 and all 64 terms."""
    found = tails(A, np.sum(A**2, axis=1) + OUTSIDE)
    expected = [[np.sqrt(np.sum(row[n:] ** 2) + OUTSIDE) for n in (8, 16, 32, 64)] for row in A]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("allowed", [1e-4, 1e-7, 0.0])
def test_sums(allowed: float) -> None:
    """Within what is allowed of the whole sum, or flagged; all terms where nothing is allowed."""
    squares = [np.sum(a**2, axis=1) + OUTSIDE for a in (A, B)]
    values, enough = sums(A, B, LEFT, RIGHT, R, tails(A, squares[0]), tails(B, squares[1]), np.full(50, allowed))
    whole = np.sum(A[LEFT] * B[RIGHT] * R[:, None] ** np.arange(TERMS), axis=1)
    assert np.max(np.abs(values - whole)) <= max(allowed, 1e-14)
    np.testing.assert_array_equal(enough, OUTSIDE * np.abs(R) ** TERMS <= allowed)
    if allowed:
        assert np.max(np.abs(values - whole)) > 1e-12  # fewer terms were taken
