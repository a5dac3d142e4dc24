"""Where errors of finite width and of finite depth meet."""

from __future__ import annotations

import math
import pickle
import sys

import numpy as np
import pytest

import tpcalc as tp
from support.closeness import assert_close
from tpcalc.studies.width_or_depth import WidthOrDepth

TASK, OPT = tp.Task((1, 0.8, -0.6), (1, -0.7, 0.5)), tp.SGD(0.3)


def test_errors_are_those_of_runs() -> None:
    found = tp.width_or_depth(tp.ResNet(), TASK, OPT, tp.DepthScaling(), (4, 32))
    limit = tp.train(tp.ResNet(), TASK, OPT, tp.DepthScaling(), tp.oo)
    for depth, change, spread, width in zip(found.depths, found.change, found.spread, found.width):
        run = tp.train(tp.ResNet(), TASK, OPT, tp.DepthScaling(), depth)
        assert_close(change, np.sqrt(np.mean((run.outputs - limit.outputs) ** 2)), 1e-12)
        assert_close(spread**2, np.trace(run.fluctuations.covariance.reshape(3, 3)) / 3, 1e-12)
        assert_close(spread / width**0.5, change, 1e-12)
    assert pickle.loads(pickle.dumps(found)).change.tolist() == found.change.tolist()


def test_widths_grow_as_rates_say() -> None:
    """Like L^2 at alpha = 1/2 and 1, like L^(2 (2 alpha - 1)) between."""
    for alpha, power in ((0.5, 2), (0.75, 1), (1, 2)):
        found = tp.width_or_depth(tp.ResNet(), TASK, OPT, tp.DepthScaling(alpha, 1 - alpha), (256, 1024))
        assert abs(math.log(found.width[1] / found.width[0], 4) - power) < 0.1


def test_the_best_network_of_a_budget() -> None:
    """For change = 1 / L and spread = 1 the least of 1 / L^2 + 1 / n, n^2 L = B, is at L = (4 B^(1/2))^(2/5)."""
    depths = np.arange(1, 400)
    found = WidthOrDepth(depths, 1 / depths, np.ones(len(depths)))
    for budget in (1e6, 1e8, 1e10):
        best = found.best(budget)
        assert abs(best.depth / (4 * budget**0.5) ** 0.4 - 1) < 0.05
        assert best.width == math.isqrt(int(budget / best.depth))
        assert best.error == pytest.approx(math.hypot(1 / best.depth, best.width**-0.5), rel=1e-14)


def test_bad_questions_are_refused() -> None:
    found = WidthOrDepth(np.array([4, 8]), np.ones(2), np.ones(2))
    with pytest.raises(ValueError, match="budget: got 3; expected at least 4"):
        found.best(3)
    with pytest.raises(ValueError, match="budget: got nan"):
        found.best(float("nan"))
    for depths in ((), (0,), (2.5,), (-1, 2)):
        with pytest.raises(ValueError, match="depths: .* expected"):
            tp.width_or_depth(tp.ResNet(), TASK, OPT, tp.DepthScaling(), depths)
    with pytest.raises(tp.Divergence):
        tp.width_or_depth(tp.ResNet(), TASK, OPT, tp.DepthScaling(0.25, 0.25), (4,))


@pytest.mark.parametrize("net, opt, scale, said", [
    (tp.ResNet("tanh", "mlp"), OPT, tp.DepthScaling(), "net: .* tp.width_or_depth takes phi='linear'"),
    (tp.ResNet(norm="rms"), OPT, tp.DepthScaling(), "norm=None"),
    (tp.ResNet(), tp.Adam(0.1), tp.DepthScaling(), "opt: got Adam.* expected a tp.SGD"),
    (tp.ResNet(), tp.NormalizedSGD(0.1), tp.DepthScaling(), "opt: got NormalizedSGD.* expected a tp.SGD"),
    (tp.ResNet(), OPT, tp.Parametrization("ntp"), "scale: .* expected one update exponent")])
def test_what_is_not_known_is_refused_before_the_work(net: tp.ResNet, opt: object, scale: object, said: str,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[WidthOrDepth.__module__], "train", None)
    with pytest.raises(ValueError, match=said):
        tp.width_or_depth(net, TASK, opt, scale, (4, 8))  # type: ignore[arg-type]
