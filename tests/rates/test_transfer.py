"""How the best learning rate moves with depth: to a limit at rate 1/L, or by powers of L that ``classify`` derives."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp

NET, OPT = tp.ResNet("linear"), tp.SGD(1.0)
BATCH = np.random.default_rng(0).normal(size=(4, 2))
TASK = tp.Task(np.tile(BATCH, (4, 1, 1)), np.tile(BATCH[:, :1] - BATCH[:, 1:], (4, 1, 1)))


@pytest.fixture(scope="module")
def found() -> tp.Transfer:
    scalings = [tp.DepthScaling(*pair) for pair in ((0.5, 0.5), (0.75, 0.25), (1, 0), (0.5, 0), (0.5, 0.75))]
    return tp.transfer(NET, TASK, OPT, scalings, [*(2**k for k in range(3, 12)), tp.oo], 2.0 ** np.arange(-9, 4.5, 0.5))


@pytest.mark.parametrize("row, order", [(0, 1.0), (1, 0.5), (2, 1.0)])
def test_on_the_critical_line_the_optimum_converges(found: tp.Transfer, row: int, order: float) -> None:
    """At the rate L^-min(1, 2 alpha - 1) above alpha = 1/2, at 1/L there."""
    slope = found.limit_order[row]
    assert slope is not None and found.bracketed[row].all()
    assert abs(slope.order - order) < 0.05
    assert abs(found.drift[row].order) < 0.05


@pytest.mark.parametrize("row", [3, 4])
def test_off_it_the_optimum_drifts_like_the_inverse_response(found: tp.Transfer, row: int) -> None:
    """f changes by L^kappa times the learning rate, so that the best one goes like L^-kappa."""
    scale = found.scalings[row]
    kappa = float(tp.classify(scale.alpha, scale.gamma).exponents["change of f"])
    assert kappa == float(scale.drift_exponent) != 0
    assert abs(found.drift[row].order - kappa) < 0.01


def test_without_any_scaling_the_optimum_falls_exponentially() -> None:
    """At initialisation |x^L|^2 = (1 + eps^2)^L: so does the response grow, times L, and the best learning rate falls."""
    scale = tp.DepthScaling(0, 0, branch=0.5)
    assert tp.classify(0, 0).exponents["f"] == tp.oo
    depths = np.array([8, 16, 32, 64])
    sweep = tp.transfer(NET, TASK, OPT, [scale], depths, 2.0 ** np.arange(-28, 0, 0.5))
    assert sweep.bracketed.all() and "explodes at initialisation" in tp.transfer(
        NET, TASK, OPT, [scale], [2], [1]).reasons[0]
    fall = -np.diff(np.log(sweep.optimum[0] * depths)) / np.diff(depths)
    assert np.all(np.abs(fall / np.log(1.25) - 1) < [0.2, 0.1, 0.05])
