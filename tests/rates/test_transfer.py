"""How the best learning rate moves with depth: to a limit at rate 1/L, or by powers of L that ``classify`` derives."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp
from support.nightly import few_of

NET, OPT = tp.ResNet("linear"), tp.SGD(1.0)
BATCH = np.random.default_rng(0).normal(size=(4, 2))
TASK = tp.Task(np.tile(BATCH, (4, 1, 1)), np.tile(BATCH[:, :1] - BATCH[:, 1:], (4, 1, 1)))
DEPTHS = [2**k for k in range(5, 14)]


@pytest.mark.parametrize("alpha, order", few_of([(0.5, 1.0), (0.75, 0.5), (1.0, 1.0)], (0.5, 1.0), (0.75, 0.5)))
def test_on_the_critical_line_the_optimum_converges(alpha: float, order: float) -> None:
    """At the rate 1/L for alpha = 1/2, L^-min(1, 2 alpha - 1) above."""
    rates = 2.0 ** np.arange(-1, 1.6, 0.25)
    found = tp.transfer(NET, TASK, OPT, [tp.DepthScaling(alpha, 1 - alpha)], [*DEPTHS, tp.oo], rates)
    slope = found.limit_order[0]
    assert slope is not None and found.bracketed.all()
    assert abs(slope.order - order) < 0.03
    assert abs(found.drift[0].order) < 0.01


@pytest.mark.parametrize("gamma, rates", few_of([(0.0, (-8, -2)), (0.75, (0, 4)), (0.25, (-5, -1))], (0.75, (0, 4)),
                                                (0.25, (-5, -1))))
def test_off_it_the_optimum_drifts_like_the_inverse_response(gamma: float, rates: tuple[int, int]) -> None:
    """f changes by L^kappa times the learning rate, so that the best one goes like L^-kappa."""
    kappa = float(tp.classify(0.5, gamma).exponents["change of f"])
    assert kappa == 0.5 - gamma
    found = tp.transfer(NET, TASK, OPT, [tp.DepthScaling(0.5, gamma)], DEPTHS, 2.0 ** np.arange(*rates, 0.25))
    assert found.bracketed[0, 4:].all()
    assert abs(found.drift[0].order - kappa) < 0.005


def test_without_any_scaling_the_optimum_falls_exponentially() -> None:
    """The response of f grows like L (1 + eps^2)^L, and the best learning rate falls alike."""
    assert tp.classify(0, 0).exponents["change of f"] == tp.oo
    depths = np.array([8, 16, 32, 64])
    found = tp.transfer(NET, TASK, OPT, [tp.DepthScaling(0, 0, branch=0.5)], depths, 2.0 ** np.arange(-28, 0, 0.25))
    assert found.bracketed.all() and "explodes at initialization" in found.reasons[0]
    fall = -np.diff(np.log(found.optimum[0] * depths)) / np.diff(depths)
    assert np.all(np.abs(fall / np.log(1.25) - 1) < 0.005)
