"""Biases of nonlinear blocks at infinite depth, extrapolated draw by draw: against the exact ones of linear networks,
and real networks in plain NumPy."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from finite_width.test_sampled_bias import plain_bias
from tpcalc.interpreters.common_draws import Refinement
from tpcalc.propagators.extrapolation import depth_weights
from tpcalc.results import limit_biases
from tpcalc.results.limit_biases import BlockFluctuations
from tpcalc.results.sampled_fluctuations import SampledFluctuations

TASK = tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5], probes=[[0.3]])
SCALE = tp.DepthScaling()


def sampled(run: tp.Run) -> BlockFluctuations:
    """Of linear networks too, whose bias is known."""
    exact = run.fluctuations
    return BlockFluctuations(exact.task, exact.optimizer, None, exact.noise, exact.drift, False, run.problem.net,
                             problem=run.problem)


def few(monkeypatch: pytest.MonkeyPatch, draws: int, coarsest: int) -> None:
    for name, value in (("DRAWS", draws), ("COARSEST", coarsest), ("COORDINATES", 64)):
        monkeypatch.setattr(limit_biases, name, value)


def test_depths_differ_by_the_depth_alone() -> None:
    """A draw says nearly the same at twice the depth, where it is shared, and its mean is that of independent ones."""
    problem = tp.Problem(tp.ResNet(), TASK, tp.SGD(0.3), SCALE, depth=4)
    twice = SampledFluctuations(tp.Problem(tp.ResNet(), TASK, tp.SGD(0.3), SCALE, depth=8))
    shallow, deep = (one.biases_of_draws(64, 512, 32, Refinement(4, level))
                     for level, one in enumerate((SampledFluctuations(problem), twice)))
    alone = twice.biases_of_draws(64, 512, 32)
    along = [np.corrcoef(shallow[:, k], one[:, k])[0, 1] for one in (deep, alone) for k in (1, 2)]
    assert min(along[:2]) > 0.75 and np.abs(along[2:]).max() < 0.2
    z = (deep.mean(axis=0) - alone.mean(axis=0)) / np.sqrt((deep.var(axis=0) + alone.var(axis=0)) / 512)
    assert np.abs(z).max() < 3.5
    ratio = deep.std(axis=0) / alone.std(axis=0)
    assert 0.6 < ratio.min() and ratio.max() < 1.6


def test_a_run_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, 64, 1)
    run = tp.train(tp.ResNet("tanh"), TASK, tp.SGD(0.5), SCALE, tp.oo)
    found = run.fluctuations
    assert isinstance(found, BlockFluctuations)
    assert found.bias.shape == found.bias_errors.shape == found.bias_remainders.shape == run.outputs.shape
    assert found.probe_bias.shape == run.probe_outputs.shape
    assert found.bias_error > np.max(found.bias_remainders) + 2 * np.max(found.bias_errors)
    assert np.array_equal(pickle.loads(pickle.dumps(found)).bias, found.bias)
    for probes, outputs, bias in ((False, run.outputs, found.bias), (True, run.probe_outputs, found.probe_bias)):
        at = run.at_width(64, probes)
        assert np.array_equal(at.mean, outputs + bias / 64) and np.any(bias)
        np.testing.assert_allclose(at.std**2 * 64, found.cumulants(2, probes)[1], rtol=1e-13)
        assert f"a sampled bias, by which the mean may be off by {found.bias_error / 64:.2g};" in str(at.warning)
    np.testing.assert_allclose(found.bias.ravel(), np.tensordot(
        depth_weights(np.array([1.0, 2.0])), found._sampled.values.mean(axis=0), 1).reshape(3, 2)[:, 0], rtol=1e-12)


def test_kinks_are_refused() -> None:
    run = tp.train(tp.ResNet("relu"), TASK, tp.SGD(0.5), SCALE, tp.oo)
    with pytest.raises(tp.NotCovered, match="the bias of ResNet.*'relu'.* asked for; functions with a kink"):
        run.fluctuations.bias
    with pytest.raises(ValueError, match="probes: got none"):
        tp.train(tp.ResNet("tanh"), tp.Task([1, 1], [1, 1]), tp.SGD(0.5), SCALE, tp.oo).fluctuations.probe_bias


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.5, 0.75, 1.0])
def test_linear_networks_have_their_exact_bias(alpha: float) -> None:
    run = tp.train(tp.ResNet(), TASK, tp.SGD(0.3), tp.DepthScaling(alpha, 1 - alpha), tp.oo)
    found, exact = sampled(run), run.fluctuations
    for name, ours, theirs in (("bias", found.bias, exact.bias), ("probe", found.probe_bias, exact.probe_bias)):
        print(f"alpha {alpha}, {name}: {ours.ravel().round(3)}, exact {theirs.ravel().round(3)}")
        assert np.abs(ours - theirs).max() < found.bias_error
    away, rest = np.abs(found.bias - exact.bias), found.bias_remainders
    print(f"errors {found.bias_errors.ravel().round(3)}, remainders {rest.ravel().round(3)}, {found.bias_error:.3f} "
          f"for all; z-scores {(away / np.hypot(found.bias_errors, rest)).ravel().round(2)}")
    assert found.bias_error < 0.3 * np.sqrt(exact.cumulant(2).max())


@pytest.mark.slow
@pytest.mark.parametrize("block, phi", [("post_nonlin", "tanh"), ("mlp", "tanh")], ids=str)
def test_real_networks_have_it(block: str, phi: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Widths 16 and 32, without the next order in 1/n: at each of the depths, and extrapolated in them."""
    few(monkeypatch, 1024, 4)
    task: Any = tp.Task(TASK.inputs, TASK.targets)
    problem = tp.Problem(tp.ResNet(phi, block=block), task, tp.SGD(0.5), SCALE, tp.oo)
    found = tp.train(problem).fluctuations
    real, errors = [], []
    for level in range(3):
        run = tp.train(problem.net, task, problem.opt, SCALE, 4 * 2**level,
                       method=tp.methods.Particles(samples=16384, batches=16))
        bias, error = plain_bias(run, 16, 6000, level)
        real.append(bias)
        errors.append(error)
    ours, own = found._sampled.values.mean(axis=0), found._sampled.values.std(axis=0) / 1024**0.5
    z = (ours - real) / np.hypot(own, errors)
    weights = depth_weights(np.array([1.0, 2.0]))
    error = np.sqrt(found.bias_errors.ravel()**2 + weights**2 @ np.square(errors))
    limit = (found.bias.ravel() - weights @ np.array(real)) / error
    print(f"{phi} {block}: sampled {ours.round(2).tolist()}, real {np.round(real, 2).tolist()}; z-scores at depths 4, "
          f"8, 16: {z.round(2).tolist()}, at infinite depth {limit.round(2)}: {found.bias.ravel().round(2)}")
    assert np.abs(z).max() < 3.5 and np.sqrt(np.mean(z**2)) < 1.7 and np.abs(limit).max() < 3
