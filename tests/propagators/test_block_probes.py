"""Held-out inputs of nonlinear networks at infinite depth: equal to training inputs, and to samples without a loss."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp

h = sp.Symbol("h", real=True)
SINE = sp.sin(h + sp.Rational(1, 2))
XI = np.array([[[1, 0], [.3, .4]], [[.5, .8], [-.2, 1]], [[-.6, .7], [.9, .1]]])
Y = np.array([[1, 0], [-.7, 0], [.5, 0]])[..., None]
HALF, DRIFT = tp.DepthScaling(0.5, 0.5), tp.DepthScaling(0.75, 0.25)
PLAIN, HEAVY = tp.SGD(1.0), tp.SGD(0.5, momentum=0.5, nesterov=True, weight_decay=0.3)


@dataclass(frozen=True)
class UnlessZero:
    """The squared loss, of samples whose target is not 0: others ride along untrained."""

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 0.5 * np.sum(self.derivative(f, y) ** 2, axis=-1)

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.where(y == 0, 0.0, f - y)


NETS = [tp.ResNet(SINE), tp.ResNet(SINE, "glu"), tp.ResNet("relu"),
        tp.ResNet("erf", "mlp", norm="rms", train_embedding_readout=True)]


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("opt, scale", [pytest.param(PLAIN, HALF, marks=pytest.mark.slow), (HEAVY, HALF),
                                        pytest.param(HEAVY, DRIFT, marks=pytest.mark.slow)])
def test_probes(net: tp.ResNet, opt: tp.SGD, scale: tp.DepthScaling) -> None:
    """They leave no trace, have the outputs of an equal input of the step, and those of a sample that is not trained:
    its backward row vanishes, and the mean over a batch of two halves the learning rate."""
    alone = tp.Task(XI[:, :1], Y[:, :1])
    run = tp.train(net, tp.Task(alone.inputs, alone.targets, probes=[*XI[:, 0], *XI[:, 1]]), opt, scale, depth=tp.oo)
    assert run.probe_outputs is not None
    np.testing.assert_allclose(tp.train(net, alone, opt, scale, depth=tp.oo).outputs, run.outputs, rtol=0, atol=2e-9)
    same, untrained = (run.probe_outputs[range(3), range(k, k + 3)] for k in (0, 3))
    np.testing.assert_allclose(same, run.outputs[:, 0], rtol=0, atol=1e-12)
    double = replace(opt, lr=2.0 * float(np.max(opt.lr)), weight_decay=opt.weight_decay / 2)
    both = tp.train(net, tp.Task(XI, Y, UnlessZero()), double, scale, depth=tp.oo)
    np.testing.assert_allclose(np.stack([run.outputs[:, 0], untrained], axis=1), both.outputs, rtol=0, atol=2e-9)
    assert np.min(np.abs(untrained[1:] - run.outputs[1:, 0])) > 1e-3


def test_many_probes_are_single_ones() -> None:
    """Each has a variance of its own, and nothing else of its own."""
    probes = np.random.default_rng(0).normal(size=(5, 2))
    task = tp.Task(XI[:, :1], Y[:, :1], probes=probes)
    run = tp.train(NETS[0], task, PLAIN, HALF, depth=tp.oo)
    assert run.probe_outputs is not None
    for k, probe in enumerate(probes):
        one = tp.train(NETS[0], tp.Task(task.inputs, task.targets, probes=[probe]), PLAIN, HALF, depth=tp.oo)
        assert one.probe_outputs is not None
        np.testing.assert_allclose(one.probe_outputs[:, 0], run.probe_outputs[:, k], rtol=0, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("net", [tp.ResNet(SINE, "mlp"), tp.ResNet("tanh")])
def test_real_networks_on_untrained_samples(net: tp.ResNet) -> None:
    """Width 2048, depths extrapolated like 1/L, in standard errors of independent seeds."""
    task = tp.Task(XI[:, :, :1], Y, UnlessZero())
    probes = tp.Task(XI[:, :1, :1], Y[:, :1], probes=XI[:, 1, :1])
    limit = tp.train(net, probes, PLAIN, HALF, depth=tp.oo).probe_outputs
    assert limit is not None

    def real(depth: int, seed: int) -> np.ndarray:
        run = tp.train(net, task, tp.SGD(2.0), HALF, depth, width=2048, method="conditioned", seed=seed)
        return run.outputs[1:, 1, 0]
    found = np.array([2 * real(48, k) - real(24, k + 100) for k in range(12)])
    z = (found.mean(axis=0) - limit[[1, 2], [1, 2], 0]) / (found.std(axis=0, ddof=1) / np.sqrt(12))
    assert np.max(np.abs(z)) < 3.5
