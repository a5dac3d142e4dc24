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


@pytest.mark.parametrize("widths, orders", [((48,), "in 1/n:"), ((32, 64), "in 1/n and 1/n^2:")], ids=str)
def test_other_widths_tell_the_mean_at_a_width(widths: tuple[int, ...], orders: str) -> None:
    """Where it is known, nearer than as many networks of the width itself."""
    task = tp.Task((1, 1, 1), (1, 1, 1), probes=[0.5])
    run = tp.train(tp.ResNet(), task, tp.SGD(0.3), SCALE, depth=4)
    for probes in (False, True):
        expected, found = run.at_width(1024, probes), run.at_width(1024, probes, seeds=400, widths=widths)
        assert np.abs((found.mean - expected.mean) / found.error).max() < 3.5
        assert np.all(found.error < 0.6 * expected.std / np.sqrt(400)) and found.seeds == 400
        np.testing.assert_allclose(found.std, expected.std, rtol=0.2)
        assert orders in found.warning and f"{found.error.max():.2g}" in found.warning
        outputs = run.probe_outputs if probes else run.outputs
        assert np.abs((outputs - expected.mean) / found.error)[2].max() > 2.5  # the limit is told from it


def test_common_draws_of_several_widths_are_weighed_by_seed() -> None:
    """The mean and its error against a fit by hand, of networks trained one by one."""
    run = tp.train(tp.ResNet("tanh"), TASK, tp.SGD(0.3), SCALE, depth=2, method=tp.methods.Particles(samples=512))
    real = {n: np.array([tp.train(replace(run.problem, width=n), seed=seed, method="conditioned").outputs.ravel()
                         for seed in range(6)]) for n in (8, 16, 32)}
    weights = np.sqrt([8, 16, 32])
    powers = np.array([[1 / n, 1 / n**2] for n in real]) * weights[:, None]
    by_seed = []
    for seed in range(6):
        away = np.array([outputs[seed] - run.outputs.ravel() for outputs in real.values()]) * weights[:, None]
        first, second = np.linalg.lstsq(powers, away, rcond=None)[0]
        by_seed.append(run.outputs.ravel() + first / 64 + second / 64**2)
    first, second = np.linalg.lstsq(powers, -weights, rcond=None)[0]  # of a limit that is one more
    share = 1 + first / 64 + second / 64**2
    found = run.at_width(64, seeds=6, widths=[8, 16, 32])
    np.testing.assert_allclose(found.mean.ravel(), np.mean(by_seed, axis=0), rtol=0, atol=1e-12)
    error = np.hypot(np.std(by_seed, axis=0, ddof=1) / np.sqrt(6), share * run.error_estimate)
    assert 0.1 < share < 0.9
    np.testing.assert_allclose(found.error.ravel(), error, rtol=1e-12)
    assert pickle.loads(pickle.dumps(found)).error == pytest.approx(found.error)


def test_heads_are_named_and_met() -> None:
    net = tp.Transformer(positions=2, head_dim=2, mlp=None, causal=False)
    inputs, targets = np.array([[1, 0], [.5, .8]]), np.array([[1], [-.7]])
    task = tp.Sequences(*(np.broadcast_to(one, (2, 1, *one.shape)) for one in (inputs, targets)))
    run = tp.train(net, task, tp.SGD(0.5), SCALE, 2)
    found, drawn = run.at_width(128, seeds=150, widths=(32, 64)), run.at_width(128, seeds=300)
    assert np.abs((found.mean - drawn.mean) / np.hypot(found.error, drawn.error)).max() < 3.5
    assert "n / 2 heads" in found.warning


def test_refused_widths() -> None:
    muon = tp.train(tp.ResNet(), TASK, tp.Muon(0.3), SCALE, depth=2)
    with pytest.raises(tp.NotCovered, match="see the fluctuation of outputs"):
        muon.at_width(64, widths=[8])
    real = tp.train(tp.ResNet(), TASK, tp.SGD(0.3), SCALE, depth=2, width=8)
    with pytest.raises(tp.NotCovered, match="widths: got .* for a run of width 8"):
        real.at_width(64, widths=[8])
    heads = tp.train(tp.Transformer(head_dim=2, mlp=None), tp.Sequences(np.ones((2, 1, 2, 1)), np.ones((2, 1, 2))),
                     tp.SGD(0.3), SCALE, 1)
    with pytest.raises(ValueError, match="width: got 7 for heads of 2"):
        heads.at_width(64, widths=[7])


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
