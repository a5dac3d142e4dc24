"""d(eps)^2 to second order: against differences across layers, which are found otherwise, and by hand."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.results import short_pieces

EPS = np.array([1e-4, 2e-4, 4e-4])


def correlated(r: float, steps: int) -> tp.Task:
    """A new input every step, any two of correlation r."""
    e = np.eye(steps + 1)
    x = np.sqrt(r) * e[0] + np.sqrt(1 - r) * e[1:]
    return tp.Task(x[:, None, :], np.resize([1, -.7, .5, 1.2, -.9, .4], (steps, 1, 1)))


def limit(phi: str, task: tp.Task, scale: tp.DepthScaling = tp.DepthScaling(0.5, 0.5), lr: float = 1.0) -> tp.Run:
    return tp.train(tp.ResNet(phi), task, tp.SGD(lr), scale, tp.oo, keep_nodes="all")


@pytest.mark.parametrize("phi", ["linear", "relu", "abs", "tanh"])
@pytest.mark.parametrize("r", [0.25, 0.75])
def test_expansion_is_that_of_feature_difference(phi: str, r: float) -> None:
    run = limit(phi, correlated(r, 5))
    for p in (0.0, 0.25, 0.6):
        parts = short_pieces(run, 4, p)
        rate = run.feature_difference(4, p, EPS)**2 / EPS
        first, second = np.diff(rate) / np.diff(EPS)
        by_differences = 2 * first - second  # to the third order in eps
        assert abs(rate[0] - parts.noise) < 2e-4 * max(1, abs(parts.next_order))
        assert abs(by_differences - parts.next_order) < 2e-5 * max(1, parts.drift + parts.noise)
        assert parts.drift > 0


def test_without_noise_there_is_drift_alone() -> None:
    parts = short_pieces(limit("abs", correlated(0.5, 3), tp.DepthScaling(0.75, 0.25)), 2, 0.3)
    assert parts.noise == parts.growth == parts.feedback == 0 < parts.drift
    assert parts.steepness == np.inf and parts.crossover == 0


def test_before_training_noise_grows_with_the_stream() -> None:
    """C0 = e^(k p): N0 = k C0, and nothing drifts."""
    for phi, k in (("relu", (1 - 1 / np.pi) / 2), ("abs", 1 - 2 / np.pi), ("linear", 1.0)):
        parts = short_pieces(limit(phi, correlated(0.5, 1)), 0, 0.4)
        assert parts.drift == parts.feedback == 0 and parts.crossover == np.inf
        np.testing.assert_allclose([parts.noise, parts.steepness], [k * np.exp(0.4 * k), k / 2], rtol=1e-9)


def test_abs_drifts_less_than_relu_where_inputs_are_hardly_alike() -> None:
    """V is (2 / pi) asin r against 1/4 + asin(r) / 2 pi: equal at r = 1/2."""
    for r, less in ((0.2, True), (0.4, True), (0.6, False), (0.8, False)):
        relu, abs_ = (short_pieces(limit(phi, correlated(r, 2)), 1, 0.25) for phi in ("relu", "abs"))
        assert (relu.crossover < abs_.crossover) == less


def test_bad_input() -> None:
    task = tp.Task([1.0, 0.5], [1.0, 1.0])
    run = tp.train(tp.ResNet("tanh"), task, tp.SGD(1.0), tp.DepthScaling(), 4, samples=256, batches=2)
    with pytest.raises(ValueError, match="run: got one of depth 4"):
        short_pieces(run, 0, 0.5)
    with pytest.raises(ValueError, match="p: got 2"):
        short_pieces(run, 0, 2)
    with pytest.raises(ValueError, match="t: got 5"):
        short_pieces(run, 5, 0.5)
