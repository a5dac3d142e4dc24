"""How fast finite depth approaches infinite depth: the declared rates, measured.

The error is a series in L^(1 - 2 alpha) and 1/L on the line alpha + gamma = 1.
"""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp

NET = tp.ResNet("linear")
ONE_INPUT = tp.Task((1, 0.8, -0.6, 1.1), (1, -0.7, 0.5, 1.2))
RNG = np.random.default_rng(5)
BATCH = tp.Task(RNG.normal(size=(3, 4, 3)) / 2, RNG.normal(size=(3, 4, 2)))


def assert_order(task: tp.Task, rate: float, scale: tp.DepthScaling, powers: range, order: float, within: float
                 ) -> None:
    """Distance to the limit and Cauchy differences have the order, and the depths reach close to the limit."""
    found = tp.convergence(NET, task, tp.SGD(rate), scale, [2**k for k in powers])
    assert found.limit is not None and found.limit_order is not None and found.distance is not None
    assert abs(found.limit_order.order / order - 1) < within
    assert abs(found.cauchy_order.order / order - 1) < within
    assert found.limit_order.uncertainty < within * order
    assert found.limit.error_estimate < 1e-3 * found.distance[-1]
    # the largest error may be that of one step: every step after the first has the order, in the deepest pair
    errors = np.abs(found.outputs - found.limit.outputs).max(axis=(2, 3))[:, 1:]
    assert np.all(np.abs(np.log2(errors[-2] / errors[-1]) / order - 1) < within)


@pytest.mark.parametrize("task, rate", [(ONE_INPUT, 1.0), (ONE_INPUT, 0.3), (BATCH, 1.0)], ids=["1", "0.3", "batch"])
def test_order_one_at_one_half(task: tp.Task, rate: float) -> None:
    assert_order(task, rate, tp.DepthScaling(), range(6, 13), 1.0, 0.05)


@pytest.mark.parametrize("task, rate", [(ONE_INPUT, 0.3), (BATCH, 1.0)], ids=["0.3", "batch"])
def test_order_one_half_at_three_quarters(task: tp.Task, rate: float) -> None:
    """The next terms are L^-1: relative size L^-1/2, small from depths of some thousands on."""
    assert_order(task, rate, tp.DepthScaling(0.75, 0.25), range(9, 17), 0.5, 0.10)


@pytest.mark.parametrize("task, rate", [(ONE_INPUT, 1.0), (BATCH, 1.0)], ids=["1", "batch"])
def test_order_one_at_one(task: tp.Task, rate: float) -> None:
    assert_order(task, rate, tp.DepthScaling(1, 0), range(6, 13), 1.0, 0.05)


@pytest.mark.parametrize("gamma", [0.75, 1.0])
def test_the_trivial_limit_is_approached_at_the_rate_of_its_largest_term(gamma: float) -> None:
    """kappa = 1 - alpha - gamma < 0: f itself is of order L^kappa."""
    assert_order(BATCH, 1.0, tp.DepthScaling(0.5, gamma), range(6, 14), gamma - 0.5, 0.06)
