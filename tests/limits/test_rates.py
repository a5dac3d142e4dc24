"""Derived rates against measured ones."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.orders import Affine, Exponent, Sort
from tpcalc.limits.survival import Kind, kind_of
from tpcalc.lowering.recursions.recursion import CompiledRecursion

from support.interpreted import interpreted

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)
TASK = tp.Task([1, 0.8, -0.6, 1.1], [1, -0.7, 0.5, 1.2])
XI, Y = [0.6, 0.5, -0.4], [1, -0.7, 0.5]


def test_rates_are_piecewise_affine(limit: tp.theory.DepthLimit) -> None:
    kappa = 1 - ALPHA - GAMMA
    assert limit.at(alpha=0.5, gamma=0.5).rate == 1
    assert limit.at(alpha=0.75, gamma=0.25).rate == sp.Min(1, 2 * ALPHA - 1)
    assert limit.at(alpha=0.5, gamma=1).rate == sp.Min(1, GAMMA - sp.Rational(1, 2))
    assert limit.at(alpha=2, gamma=1).rate == sp.Min(1, 2 * ALPHA - 1, -kappa)


def test_only_what_outputs_depend_on_sets_the_rate(limit: tp.theory.DepthLimit) -> None:
    """Above one half coefficients of hat-kets feed nothing: a correction to them does not count, one to f does."""
    part = limit.at(alpha=0.75, gamma=0.25).part
    assert part is not None
    output = Kind(Sort.SCALAR, name="f")
    fed = part.feeding([output])
    assert Kind(Sort.COVARIANCE, 0, base=0) in fed and not any(k.is_coefficient and k.start == 0 for k in fed)
    slow = Exponent.single(Affine((Fraction(0), Fraction(0)), Fraction(-1, 100)))
    first = {kind_of(one.target): one for one, _ in part.instances}
    for kind, counts in ((Kind(Sort.COEFFICIENT, 0, base=1), False), (output, True)):
        disturbed = replace(part, instances=(*part.instances, (first[kind], slow)))
        assert (slow.forms <= disturbed.corrections([output]).forms) == counts


@pytest.mark.parametrize("alpha", [sp.Rational(1, 2), sp.Rational(5, 8), sp.Rational(3, 4), sp.Integer(1)])
def test_fitted_orders_on_the_line(limit: tp.theory.DepthLimit, alpha: sp.Rational) -> None:
    """At 5/8 the next term is only L^-1/4 smaller: hence the tolerance."""
    rate = float(limit.at(alpha=alpha, gamma=1 - alpha).rate.subs(ALPHA, alpha))
    found = tp.convergence(tp.ResNet(), TASK, tp.SGD(), tp.DepthScaling(alpha, 1 - alpha), [2**k for k in range(8, 16)])
    assert found.limit_order is not None
    assert found.limit_order.order == pytest.approx(rate, rel=0.06)


@pytest.mark.parametrize("alpha, gamma", [(0.5, 0.75), (0.75, 0.75), (1, 0.5), (0.9, 0.9), (0.5, 1.5)])
def test_scaled_outputs_below_the_line(limit: tp.theory.DepthLimit, alpha: float, gamma: float) -> None:
    """L^-kappa f, from the second update on: there chi is no longer exact."""
    region = limit.at(alpha=alpha, gamma=gamma)
    rate = float(region.rate.subs({ALPHA: alpha, GAMMA: gamma}))
    exact, depths = region.compile()(XI, Y).outputs, [2**k for k in (12, 13, 14)]
    errors = np.array([tp.train(tp.ResNet(), tp.Task(XI, Y), tp.SGD(), tp.DepthScaling(alpha, gamma), depth=n)
                       .outputs.ravel() * n ** (alpha + gamma - 1) - exact for n in depths])[:, 2]
    assert np.log2(errors[:-1] / errors[1:]) == pytest.approx(rate, rel=0.05)


@pytest.mark.parametrize("alpha, gamma", [
    pytest.param(0.5, 0.5, marks=pytest.mark.slow), *(pytest.param(*point, marks=pytest.mark.nightly) for point in (
        (0.75, 0.25), (1, 0), (1, 0.5), (1.5, 0)))])
def test_rates_of_two_matrix_blocks(mlp: tp.theory.DepthLimit, alpha: float, gamma: float) -> None:
    """At depths for which the kernel is to be compiled."""
    assert_rate_of_two_matrix_blocks(mlp, alpha, gamma, mlp.recursion.compile(), (256, 512))  # type: ignore


@pytest.mark.parametrize("alpha, gamma", [(1, 0), (1, 0.5)])
def test_rates_of_two_matrix_blocks_at_small_depths(mlp: tp.theory.DepthLimit, alpha: float, gamma: float) -> None:
    assert_rate_of_two_matrix_blocks(mlp, alpha, gamma, interpreted(mlp.recursion), (32, 64))  # type: ignore


def assert_rate_of_two_matrix_blocks(mlp: tp.theory.DepthLimit, alpha: float, gamma: float, kernel: CompiledRecursion,
                                     depths: tuple[int, int]) -> None:
    region = mlp.at(alpha=alpha, gamma=gamma)
    rate = float(region.rate.subs({ALPHA: alpha, GAMMA: gamma}))
    exact = region.compile()(XI, Y).outputs
    errors = np.array([kernel(n, XI, Y, alpha=alpha, gamma=gamma).outputs * n ** (alpha + gamma - 1) - exact
                       for n in depths])[:, 2]
    assert float(np.log2(errors[0] / errors[1])) == pytest.approx(rate, rel=0.1)
