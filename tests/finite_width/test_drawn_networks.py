"""Networks drawn at a width: against trainings one by one, the expansion in 1/n, and published numbers."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.finite_width.drawn_networks import drawn_at_width

TASK = tp.Task((1, 0.8, -0.6), (1, -0.7, 0.5), probes=(0.3, 2))
SCALE = tp.DepthScaling()


@pytest.mark.parametrize("opt, method", [(tp.Muon(0.3), "conditioned"), (tp.Muon(0.3, sphere=True), "dense"),
                                         (tp.Adam(0.1), "conditioned")], ids=str)
def test_they_are_trainings_one_by_one(opt: tp.Muon | tp.Adam, method: str) -> None:
    net, job = tp.ResNet("tanh"), dict(depth=3, width=16, method=method)
    run = tp.train(net, TASK, opt, SCALE, depth=3)
    real = [tp.train(net, TASK, opt, SCALE, seed=seed, **job) for seed in range(5)]
    at, held_out = run.at_width(16, seeds=5), run.at_width(16, probes=True, seeds=5)
    for found, outputs in ((at, [one.outputs for one in real]), (held_out, [one.probe_outputs for one in real])):
        np.testing.assert_allclose(found.mean, np.mean(outputs, axis=0), rtol=0, atol=1e-14)
        np.testing.assert_allclose(found.std, np.std(outputs, axis=0, ddof=1), rtol=0, atol=1e-14)
        assert isinstance(found, tuple) and len(found) == 3
    assert at.error == pytest.approx(at.std / np.sqrt(5)) and f"at most {at.error.max():.2g}" in at.warning
    again = pickle.loads(pickle.dumps(at))
    assert again.seeds == 5 and np.array_equal(again.error, at.error) and again.warning == at.warning
    told: list[tuple[int, int]] = []
    with ThreadPoolExecutor(2) as pool:
        spread = run.at_width(16, seeds=5, executor=pool, progress=lambda *done: told.append(done))
    assert np.array_equal(spread.mean, at.mean) and told == [(k, 5) for k in range(1, 6)]


def test_the_expansion_is_met() -> None:
    """Where b and Sigma are known: the mean, which is not that of infinite width, and the deviation."""
    run = tp.train(tp.ResNet(), tp.Task((1, 1, 1), (1, 1, 1)), tp.SGD(0.3), SCALE, depth=4)
    expected, drawn = run.at_width(80), run.at_width(80, seeds=1500)
    assert expected.warning is None
    assert np.abs((drawn.mean - expected.mean) / drawn.error).max() < 3.5
    assert np.abs((run.outputs - drawn.mean) / drawn.error).max() > 6
    np.testing.assert_allclose(drawn.std / expected.std, 1, rtol=0.1)


@pytest.mark.parametrize("width, mean, error", [(32, .2306, .0028), (128, .3382, .0041), (512, .4014, .0059)])
def test_attention_by_updates_of_one_size(width: int, mean: float, error: float) -> None:
    """What a programmer of his own measured for tp.NormalizedSGD on two positions, far below the limit of .4158."""
    inputs, targets = np.array([[1, 0], [.5, .8]]), np.array([[1], [-.7]])
    task = tp.Sequences(*(np.broadcast_to(one, (2, 1, *one.shape)) for one in (inputs, targets)))
    net = tp.Transformer(positions=2, head_dim=2, mlp=None, causal=False)
    run = tp.train(net, task, tp.NormalizedSGD(0.2), SCALE, depth=2)
    assert run.outputs[1, 0, 0, 0] == pytest.approx(.4158, abs=4e-4)
    at = run.at_width(width, seeds=200)
    assert abs(at.mean[1, 0, 0, 0] - mean) < 3 * np.hypot(at.error[1, 0, 0, 0], error)


class Quartic:
    """A loss whose second derivative nobody knows."""

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(((f - y) ** 4).sum(-1))

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(4 * (f - y) ** 3)


def test_refused() -> None:
    net = tp.ResNet("tanh")
    deep = tp.train(net, TASK, tp.SGD(0.3), SCALE, depth=tp.oo)
    with pytest.raises(tp.NotCovered, match="no real one has that depth"):
        deep.at_width(16, seeds=4)
    own = tp.train(tp.ResNet(), tp.Task((1, 0.5), (1, -1), Quartic()), tp.SGD(0.1), SCALE, depth=2)
    with pytest.raises(tp.NotCovered, match="with seeds networks of the width are drawn"):
        own.at_width(16)
    assert own.at_width(16, seeds=2).mean.shape == own.outputs.shape
    run = tp.train(net, TASK, tp.Muon(0.3), SCALE, depth=2)
    with pytest.raises(ValueError, match="seeds: got 1"):
        run.at_width(16, seeds=1)
    linear = tp.train(tp.ResNet(), TASK, tp.SGD(0.3), SCALE, depth=2)
    for beside in (dict(executor=object()), dict(progress=print)):
        with pytest.raises(ValueError, match=f"{next(iter(beside))}: got .* for an expansion"):
            linear.at_width(16, **beside)
    with pytest.raises(tp.Divergence, match="width 8 and seed 0: training diverges at step 1, layer 2") as blown:
        drawn_at_width(replace(linear.problem, opt=tp.SGD(1e160)), 8)
    assert (blown.value.step, blown.value.layer) == (1, 2)
