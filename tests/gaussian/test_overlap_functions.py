"""Numerical Gaussian means: the three ways agree, Price's theorem holds, singular cases are finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

from support.nightly import few_of
from tpcalc.models.activations import H
from tpcalc.gaussian import overlap_functions
from tpcalc.gaussian.overlap_functions import ALLOWED, FEW, MANY, Series, mean_function, overlap_function, pair_means
from tpcalc.gaussian.scalar_functions import scalar_function
from tpcalc.gaussian.trapezoid import Smooth, nodes, trapezoid_mean, trapezoid_overlap

RELU, ABS, LEAKY = sp.Max(H, 0), sp.Abs(H), sp.Max(H, H / 10)
SMOOTH = (sp.tanh(H), H / (1 + sp.exp(-H)), H * (1 + sp.erf(H / sp.sqrt(2))) / 2, sp.sin(H + sp.Rational(1, 2)),
          sp.erf(H), H + H**3 / 5)
RNG = np.random.default_rng(0)
ORDERS = ((0, 0), (1, 1), (2, 2), (2, 0), (0, 2), (3, 1))
variances = st.floats(0.1, 4)
correlations = st.floats(-0.95, 0.95)


def at(f: sp.Expr, j: int, k: int, c: Any, p: Any, q: Any) -> np.ndarray:
    return overlap_function(f, f, j, k)(*np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (c, p, q))))


@settings(max_examples=12, deadline=None)
@given(st.sampled_from((RELU, ABS, LEAKY, *SMOOTH)), variances, variances, correlations)
def test_price_by_finite_differences(f: sp.Expr, p: float, q: float, r: float) -> None:
    c, e = r * np.sqrt(p * q), 1e-5
    for j, k in ((0, 0), (1, 1)):
        size = 1e-7 * (1 + abs(at(f, j + 1, k + 1, c, p, q)) + abs(at(f, j + 2, k, c, p, q)) / (1 - r * r)**2)
        by_covariance = (at(f, j, k, c + e, p, q) - at(f, j, k, c - e, p, q)) / (2 * e)
        assert abs(by_covariance - at(f, j + 1, k + 1, c, p, q)) < size
        assert abs((at(f, j, k, c, p + e, q) - at(f, j, k, c, p - e, q)) / e - at(f, j + 2, k, c, p, q)) < size


@pytest.mark.parametrize("f", [f for f in SMOOTH if not f.has(sp.tanh, sp.exp)])
@pytest.mark.parametrize("j, k", few_of(ORDERS, (1, 1), (0, 2), (3, 1)))
def test_quadrature_agrees_with_closed_forms(f: sp.Expr, j: int, k: int) -> None:
    closed = overlap_functions._closed(f, f, j, k)
    assert closed is not None
    c, p, q = np.array([.3, -.7, 1.1, 1.5]), np.array([.9, 1.2, 1.1, 3.0]), np.array([.5, .8, 1.1, .75])
    np.testing.assert_allclose(trapezoid_overlap(Smooth(f, j), Smooth(f, k), c, p, q), closed(c, p, q), rtol=0,
                               atol=2e-10)
    np.testing.assert_allclose(pair_means(Series(Smooth(f, j)), Series(Smooth(f, k)))(c, p, q), closed(c, p, q), rtol=0,
                               atol=2e-11)


@pytest.mark.parametrize("f, jump", [(RELU, 1.0), (ABS, 2.0)])
def test_kinks_are_the_arc_cosine_formulas(f: sp.Expr, jump: float) -> None:
    c, p, q = .4, 1.3, .7
    r = c / np.sqrt(p * q)
    rest = np.sqrt(1 - r * r)
    slope = (jump == 1) / 4 + jump**2 * np.arcsin(r) / (2 * np.pi)
    assert abs(at(f, 1, 1, c, p, q) - slope) < 1e-14
    assert abs(at(f, 2, 2, c, p, q) - jump**2 / (2 * np.pi * np.sqrt(p * q) * rest)) < 1e-14
    assert abs(at(f, 3, 1, c, p, q) + jump**2 * r / (2 * np.pi * p * rest)) < 1e-14
    centered = at(f, 2, 0, c, p, q) - mean_function(f, 2)(np.array(p)) * mean_function(f, 0)(np.array(q))
    assert abs(centered - jump**2 * np.sqrt(q / p) * (rest - 1) / (2 * np.pi)) < 1e-14
    assert scalar_function(f).slopes == ((0.5, 0.5) if jump == 1 else (0.0, 1.0))


def panels(end: float = 9.5, number: int = 50, points: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre points of the standard Gaussian, and their weights."""
    x, weight = np.polynomial.legendre.leggauss(points)
    ends = np.linspace(-end, end, number + 1)
    x = ((ends[:-1, None] + ends[1:, None]) / 2 + end / number * x).ravel()
    return x, np.tile(end / number * weight, number) * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


@pytest.mark.parametrize("j, k", few_of(ORDERS, (0, 0), (2, 2), (3, 1)))
@pytest.mark.parametrize("f", [sp.tanh(H), sp.tanh(H + sp.Rational(1, 2)), SMOOTH[1], sp.log(1 + sp.exp(H)),
                               sp.exp(-H**2), H / (1 + H**2 / 4)])
def test_against_another_quadrature(f: sp.Expr, j: int, k: int) -> None:
    """Correlations of any size, nearly 1 and -1, and 1: by 1000 x 1000 Gauss-Legendre points."""
    rng = np.random.default_rng(10 * j + k)
    p, q = rng.uniform(0.05, 6, (2, 5))
    r = np.array([rng.uniform(-1, 1), 1 - 10**rng.uniform(-4, -1), -1 + 10**rng.uniform(-8, -1), 1 - 1e-9, 1.0])
    (x, weight), first, second = panels(), scalar_function(f).values(j), scalar_function(f).values(k)
    across = np.sqrt((1 - r) * (1 + r))
    expected = [np.sum((first(np.sqrt(p[i]) * x) * weight)[:, None]
                       * second(np.sqrt(q[i]) * (r[i] * x[:, None] + across[i] * x)) * weight) for i in range(5)]
    np.testing.assert_allclose(at(f, j, k, r * np.sqrt(p * q), p, q), expected, rtol=0, atol=2e-11)


def test_series_know_what_they_leave_out() -> None:
    """Near correlation 1 at a large variance terms do not suffice: the bound says so and holds, quadrature answers."""
    p, c = np.array([6.0]), np.array([5.99])
    curved = Smooth(sp.tanh(H), 2)
    series = Series(curved)
    few, many = series.at(p, FEW), series.at(p, MANY)
    np.testing.assert_allclose(few.a, many.a[:, :FEW], rtol=0, atol=1e-13)
    np.testing.assert_allclose(few.tails[0, -1] ** 2 - many.tails[0, -1] ** 2, np.sum(many.a[0, FEW:] ** 2), rtol=1e-10)
    assert many.tails[0, -1] ** 2 > ALLOWED * many.norms[0] ** 2
    exact = trapezoid_overlap(curved, curved, c, p, p)
    left_out = [abs(float(exact[0] - np.sum(known.a**2 * (c / p) ** np.arange(known.a.shape[1]))))
                for known in (few, many)]
    assert left_out[0] > 1e-6 and left_out[0] <= few.tails[0, -1] ** 2 and left_out[1] <= many.tails[0, -1] ** 2
    np.testing.assert_allclose(pair_means(series, series)(c, p, p), exact, rtol=0, atol=1e-11)


def test_coefficients_that_cannot_be_trusted() -> None:
    """Functions that are large at the end of the line, and spreads that no rule serves, nan among them."""
    coefficients = Series(Smooth(sp.exp(H / 2), 0)).at(np.array([1.0, 900.0, 1e6, np.nan]), FEW)
    assert coefficients.tails[0, -1] < 1e-7 and coefficients.tails[1, -1] == np.inf
    np.testing.assert_allclose(coefficients.a[0, :3], np.exp(1 / 8) * np.array([1, .5, .125 * np.sqrt(2)]), rtol=1e-13)
    assert np.all(np.isnan(coefficients.a[2:]))
    one = np.ones(1)
    assert np.isnan(overlap_function(sp.tanh(H), sp.tanh(H), 1, 1)(one, one, 1e9 * one))


def test_pairs_broadcast() -> None:
    c, p, q = RNG.uniform(-.5, .5, (3, 2, 4)), RNG.uniform(.5, 2, (3, 2, 1)), RNG.uniform(.5, 2, (3, 1, 4))
    for f in (sp.tanh(H), sp.erf(H), RELU):
        wide = at(f, 1, 1, c, *np.broadcast_arrays(p, q, c)[:2])
        np.testing.assert_allclose(overlap_function(f, f, 1, 1)(c, p, q), wide, rtol=0, atol=1e-15)


def test_equal_and_opposite_arguments() -> None:
    """At correlation 1 and -1 means are one-dimensional, singular ones finite."""
    p = 1.7
    x, weight = nodes(1 / 64, np.array(1.0))
    for f in (sp.tanh(H), SMOOTH[1]):
        for j, k in ORDERS:
            first, second = (scalar_function(f).values(o) for o in (j, k))
            for sign in (1, -1):
                one = np.sum(weight * first(np.sqrt(p) * x) * second(sign * np.sqrt(p) * x))
                assert abs(at(f, j, k, sign * p, p, p) - one) < 1e-10
    for f in (RELU, ABS):
        assert np.isfinite(at(f, 2, 2, p, p, p)) and np.isfinite(at(f, 3, 1, -p, p, p))
    assert abs(at(RELU, 0, 0, p, p, p) - p / 2) < 1e-15 and at(RELU, 1, 1, p, p, p) == 0.5
    assert at(RELU, 0, 0, 0.0, 0.0, 0.0) < 1e-300 and abs(at(sp.tanh(H), 1, 1, 0.0, 0.0, 0.0) - 1) < 1e-15


@pytest.mark.parametrize("f", (RELU, ABS, LEAKY))
def test_means_of_squares_of_kinked_functions(f: sp.Expr) -> None:
    """Against a fine grid for f^2 and its slope; d/dp E = E'' / 2 for later ones."""
    p, e = np.array([0.7]), 1e-4
    x, step = np.linspace(-12, 12, 48001, retstep=True)
    weight = np.exp(-x**2 / 1.4) / np.sqrt(1.4 * np.pi) * step
    values = sp.lambdify(H, f)(x)**2
    assert mean_function(f**2, 0)(p) == pytest.approx(values @ weight, abs=1e-7)
    assert mean_function(f**2, 1)(p) == pytest.approx(np.gradient(values, x) @ weight, abs=1e-6)
    for j in (0, 1):
        upper, lower = (mean_function(f**2, j)(p + sign * e) for sign in (1, -1))
        assert mean_function(f**2, j + 2)(p) == pytest.approx((upper - lower) / e, abs=1e-6)


@pytest.mark.parametrize("f, j", [(H, 0), (H**4 - H, 0), (H**4 - H, 2), (sp.erf(H), 1), (sp.cos(H), 0)], ids=str)
def test_closed_means_know_no_largest_variance(f: sp.Expr, j: int) -> None:
    """Against the trapezoidal rule, and where that has no number."""
    for p in (0.3, 2.0, 30.0):
        assert mean_function(f, j)(np.array([p]))[0] == pytest.approx(
            trapezoid_mean(Smooth(f, j), np.array([p]))[0], rel=1e-11, abs=1e-11)
    assert np.isnan(trapezoid_mean(Smooth(f, j), np.array([1e6])))
    found, = mean_function(f, j)(np.array([1e6]))
    assert found == pytest.approx({"h": 0, "erf(h)": 2 / np.sqrt(np.pi * (1 + 2e6)), "cos(h)": 0}.get(
        str(f), 3e12 if j == 0 else 12e6), rel=1e-11)


def test_refusals() -> None:
    for f, reason in ((sp.Max(H, 1), "s h"), (sp.exp(H**2 / 2), "grows too fast"), (sp.tanh(400 * H), "smooth enough")):
        with pytest.raises(ValueError, match=reason):
            overlap_function(f, f, 0, 0)
    with pytest.raises(ValueError, match="with a kink"):
        overlap_function(RELU, RELU, 3, 3)
