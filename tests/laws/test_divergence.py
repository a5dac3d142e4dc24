"""A solution that blows up says where."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp

NET = tp.ResNet("linear")
RNG = np.random.default_rng(0)
TASK = tp.Task(RNG.normal(size=(8, 2, 2)), RNG.normal(size=(8, 2, 2)))


@pytest.mark.parametrize("rate", [1e3, 1e40, 1e150])
@pytest.mark.parametrize("depth, settings", [(6, {}), (6, {"keep_nodes": "all"}), (6, {"method": "coefficients"}),
                                             (6, {"width": 16})],
                         ids=["reflection", "plain reflection", "coefficients", "dense"])
def test_divergence_names_step_and_layer(depth: int, settings: dict, rate: float) -> None:
    """And the steps before the one it names are finite."""
    with pytest.raises(tp.Divergence) as caught:
        tp.train(NET, TASK, tp.SGD(rate), tp.DepthScaling(), depth, **settings)
    step, layer = caught.value.step, caught.value.layer
    assert step is not None and layer is not None
    assert 1 <= step < TASK.steps and 1 <= layer <= depth
    assert f"step {step}," in str(caught.value) and f"layer {layer} of {depth}" in str(caught.value)
    before = tp.Task(TASK.inputs[:step], TASK.targets[:step])
    assert np.all(np.isfinite(tp.train(NET, before, tp.SGD(rate), tp.DepthScaling(), depth, **settings).outputs))


def test_divergence_at_infinite_depth_names_step_and_layer_time() -> None:
    with pytest.raises(tp.Divergence, match="step") as caught:
        tp.train(NET, TASK, tp.SGD(1e40), tp.DepthScaling(), tp.oo)
    assert caught.value.step is not None and 1 <= caught.value.step < TASK.steps
    assert caught.value.layer is not None and 0 <= caught.value.layer <= 1
    assert "smaller learning rate" in str(caught.value)


def test_a_larger_learning_rate_diverges_no_later() -> None:
    steps = []
    for rate in (1e20, 1e80, 1e150):
        with pytest.raises(tp.Divergence) as caught:
            tp.train(NET, TASK, tp.SGD(rate), tp.DepthScaling(), 6)
        steps.append(caught.value.step)
    assert steps == sorted(steps, reverse=True) and steps[0] > steps[-1]
