"""The coefficient kernel against the same training in exact rational arithmetic, ket by ket."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from support.closeness import assert_close
from support.slow import Kets
from tpcalc.kernels import coefficients

F = Fraction


def trained_exactly(depth: int, steps: int, batch: int) -> tuple[Kets, np.ndarray, np.ndarray, np.ndarray]:
    """Kets, inputs (N, 2), rho and w, with fractions that have short decimals."""
    rng = np.random.default_rng(depth + 10 * steps + 100 * batch)
    n = steps * batch

    def fraction(low: int, high: int) -> Fraction:
        return F(int(rng.integers(low, high)), 8)

    rho = [F(1)] * batch + [fraction(6, 10) for _ in range(steps - 1) for _ in range(batch)]
    w = [[fraction(-2, 9) if b // batch < a // batch else F(0) for b in range(n)] for a in range(n)]
    xi = [[fraction(-8, 9), fraction(-8, 9)] for _ in range(n)]
    y = [fraction(-8, 9) for _ in range(n)]
    kets = Kets(depth, batch, F(1, 2), F(3, 4), rho, w, lambda a, f: f - y[a])
    kets.train([{("U", 0): a, ("U", 1): b} for a, b in xi])
    return kets, np.array(xi, dtype=float), np.array(rho, dtype=float), np.array(w, dtype=float)


@pytest.mark.parametrize("depth, steps, batch", [(1, 3, 1), (3, 3, 1), (2, 2, 2)])
def test_coefficients_are_those_of_exact_kets(depth: int, steps: int, batch: int) -> None:
    """Every coefficient of every ket, every covariance of the hats, to round-off."""
    kets, xi, rho, w = trained_exactly(depth, steps, batch)
    n = steps * batch
    x, delta = (np.zeros((n, depth + 1, 2, depth, n)) for _ in range(2))
    x_outputs, delta_inputs = (np.zeros((n, depth + 1, 3)) for _ in range(2))
    covariance, response = (np.zeros((2, depth, n, n)) for _ in range(2))
    work = np.zeros((2, depth, n))
    x_outputs[:, 0, :2] = xi
    for first in range(0, n, batch):
        rows = slice(first, first + batch)
        shared = first, first, first + batch, 0.5, 0.75, rho, w
        assert coefficients.sweep_coefficients(True, *shared, x, x_outputs, delta, delta_inputs, covariance, response,
                                               work) == 0
        outputs = x_outputs[rows, -1, 2]
        assert_close(outputs, [float(f) for f in kets.outputs[rows]], 1e-13, 1.0)
        delta_inputs[rows, -1, 2] = [float(kets.derivative(a, kets.outputs[a])) for a in range(n)][rows]
        assert coefficients.sweep_coefficients(False, *shared, delta, delta_inputs, x, x_outputs, covariance, response,
                                               work) == 0
    for fast, fast_ends, exact in ((x, x_outputs, kets.x), (delta, delta_inputs, kets.delta)):
        expected, expected_ends = np.zeros_like(fast), np.zeros_like(fast_ends)
        for (a, node), ket in exact.items():
            for base, value in ket.items():
                if base[0] in ("U", "nV"):
                    expected_ends[a, node, base[1] if base[0] == "U" else 2] = float(value)
                else:
                    expected[a, node, 0 if base[0] == "F" else 1, base[1] - 1, base[2]] = float(value)
        assert_close(fast, expected, 1e-13)
        assert_close(fast_ends, expected_ends, 1e-13)
    for d, kind in enumerate("FB"):
        for m in range(depth):
            exact_covariance = [[float(kets.overlap((kind, m + 1, a), (kind, m + 1, b))) for b in range(n)]
                                for a in range(n)]
            assert_close(covariance[d, m], exact_covariance, 1e-13)


def test_bracket_of_contracted_kets_is_the_quadratic_form() -> None:
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(2, 2, 3, 4))
    ends_one, ends_two = rng.normal(size=(2, 5))
    covariance = rng.normal(size=(2, 3, 4, 4))
    covariance += covariance.transpose(0, 1, 3, 2)
    y, y_ends = np.empty((2, 3, 4)), np.empty(5)
    coefficients.apply_covariance(one, ends_one, covariance, y, y_ends)
    expected = np.einsum("dma,dmab,dmb->", one, covariance, two) + ends_one @ ends_two
    assert_close(coefficients.bracket(y, y_ends, two, ends_two), expected, 1e-14, 24.0)
    coefficients.accumulate(one, ends_one, 0.5, two, ends_two)
    coefficients.apply_covariance(one, ends_one, covariance, y, y_ends)
    doubled = coefficients.bracket(y, y_ends, two, ends_two)
    assert_close(doubled - expected, 0.5 * (np.einsum("dma,dmab,dmb->", two, covariance, two) + ends_two @ ends_two),
                 1e-13, 24.0)


@pytest.mark.parametrize("forward", [True, False])
def test_a_sweep_stops_where_values_cease_to_be_finite(forward: bool) -> None:
    depth = 3
    own, other = (np.zeros((1, depth + 1, 2, depth, 1)) for _ in range(2))
    own_ends, other_ends = (np.zeros((1, depth + 1, 2)) for _ in range(2))
    own_ends[0, 0 if forward else depth] = 1e160  # its square overflows at once
    covariance, response, work = np.zeros((2, depth, 1, 1)), np.zeros((2, depth, 1, 1)), np.zeros((2, depth, 1))
    with np.errstate(over="ignore"):
        passed = coefficients.sweep_coefficients(forward, 0, 0, 1, 0.5, 0.5, np.ones(1), np.zeros((1, 1)), own,
                                                 own_ends, other,
                                                 other_ends, covariance, response, work)
    assert passed == 1
