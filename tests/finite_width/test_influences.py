"""Sigma of nonlinear blocks at a finite depth, by influences of coordinates: against the exact one of linear networks,
networks without one coordinate, and real networks in plain NumPy."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.plain.many_trainings import ManyTrainings
from tpcalc.interpreters.influences import InfluenceExecution, TracedVector
from tpcalc.interpreters.training import Training
from tpcalc.results import sampled_fluctuations
from tpcalc.results.sampled_fluctuations import SampledFluctuations

RNG = np.random.default_rng(5)
H = sp.Symbol("h", real=True)
ONE = tp.Task(RNG.uniform(-1, 1, (3, 1, 2)), RNG.uniform(-1, 1, (3, 1, 1)))
TWO = tp.Task(RNG.uniform(-1, 1, (2, 2, 2)), RNG.choice([-1.0, 1.0], (2, 2, 2)), "logistic", probes=[[0.3, 0.4]])
SHARES = tp.Task(RNG.uniform(-1, 1, (3, 2, 1)), RNG.dirichlet(np.ones(2), (3, 2)), "softmax")
MOVED = tp.SGD(0.4, momentum=0.5, weight_decay=0.2)


def away(found: SampledFluctuations, exact: np.ndarray, probes: bool = False) -> np.ndarray:
    """In standard errors of its batches."""
    kept = found.problem.task.batch
    size = np.prod(found.shape)
    each = found._found.reshape(-1, *found.shape, *found.shape)
    which = slice(kept, None) if probes else slice(kept)
    each = each[:, :, which, :, :, which].reshape(len(each), -1)
    assert size and np.array_equal(each.mean(axis=0), (found.probe_covariance if probes else found.covariance).ravel())
    return (each.mean(axis=0) - exact.ravel()) / (each.std(axis=0, ddof=1) / len(each) ** 0.5)


@pytest.mark.parametrize("net, task, opt, scale, depth", [
    (tp.ResNet(), ONE, tp.SGD(0.3), tp.DepthScaling(), 4), (tp.ResNet(), TWO, MOVED, tp.DepthScaling(0.75, 0.25), 2),
    (tp.ResNet(train_embedding_readout=True), SHARES, tp.SGD(0.3), tp.DepthScaling(), 2)],
    ids=["one", "two", "trained"])
def test_linear_networks_have_their_exact_covariance(net: tp.ResNet, task: tp.Task, opt: tp.SGD, scale: Any,
                                                     depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled_fluctuations, "BATCHES", 24)
    run = tp.train(net, task, opt, scale, depth)
    found = SampledFluctuations(run.problem)
    z = away(found, run.fluctuations.covariance)
    assert np.abs(z).max() < 4 and np.sqrt(np.mean(z**2)) < 1.6
    assert np.abs(found.covariance - run.fluctuations.covariance).max() < found.covariance_error
    assert found.covariance_error < 0.1 * found.covariance.max()
    assert np.array_equal(found.cumulant(2).ravel(), np.diagonal(found.covariance.reshape(found.cumulant(2).size, -1)))
    if task.probes is not None:
        assert np.abs(away(found, run.fluctuations.probe_covariance, True)).max() < 4


class Without(InfluenceExecution):
    """A network without one of its coordinates, None for none."""

    left_out: int | None = None

    def drawn(self) -> TracedVector:
        values = self.rng.standard_normal(300)
        if self.left_out is not None:
            values = np.delete(values, self.left_out)
        return TracedVector(self.tape, values, [])


@pytest.mark.parametrize("net", [tp.ResNet("tanh", block="mlp"), tp.ResNet("tanh", norm="rms"),
                                 tp.ResNet("tanh", block="pre_nonlin", train_embedding_readout=True),
                                 tp.ResNet(visits=2)], ids=str)
def test_influences_are_what_coordinates_change(net: tp.ResNet) -> None:
    """n times what an output changes by without a coordinate, to order 1/n."""
    job = Training(net, TWO, MOVED, tp.DepthScaling(), 2)

    def outputs(left_out: int | None) -> tuple[np.ndarray, Any]:
        run = Without(job.program(), job.sizes(), job.data(), TWO.loss, 300 - (left_out is not None), 1)
        run.left_out = left_out
        run.run()
        found = sampled_fluctuations._outputs(run.of_kind("scalar"))
        return np.array(found, dtype=float), run.tape.influences(found) if left_out is None else None

    whole, influences = outputs(None)
    some = range(0, 300, 25)
    changes = np.array([(whole - outputs(i)[0]) * 299 for i in some]).T
    assert np.corrcoef(changes.ravel(), influences[:, some].ravel())[0, 1] > 0.99
    assert np.abs(changes - influences[:, some]).max() < 0.1 * np.abs(influences).max()


def test_a_run_has_them() -> None:
    run = tp.train(tp.ResNet("tanh"), ONE, tp.SGD(0.3), tp.DepthScaling(), depth=2)
    found = run.fluctuations
    assert isinstance(found, SampledFluctuations) and run.fluctuations is found
    assert np.array_equal(found.covariance, found.covariance.transpose(3, 4, 5, 0, 1, 2))
    assert np.array_equal(pickle.loads(pickle.dumps(found)).covariance, found.covariance)
    with pytest.raises(tp.NotCovered, match="fluctuations: the cumulant of order 3 of ResNet.* at depth 2"):
        found.cumulant(3)
    with pytest.raises(ValueError, match="probes: got none"):
        found.probe_covariance


@pytest.mark.parametrize("net, opt", [(tp.ResNet("tanh"), tp.Muon(0.3)), (tp.ResNet("relu"), tp.SGD(0.3)),
                                      (tp.ResNet(sp.Piecewise((H, H > 0), (H / 9, True))), tp.SGD(0.3)),
                                      (tp.ResNet("tanh", zero_readout=True), tp.SignSGD(0.3))], ids=str)
def test_what_is_not_known_is_refused(net: tp.ResNet, opt: Any) -> None:
    with pytest.raises(tp.NotCovered, match="fluctuations: got a run by method="):
        tp.train(net, ONE, opt, tp.DepthScaling(), depth=2).fluctuations


def test_jumps_have_no_influences() -> None:
    """Backward passes through a kink jump where hidden units are 0. Adjoints that take the jump for flat are wrong of
    relu from the third output on, and of inputs in several directions from the second."""
    job = Training(tp.ResNet("relu"), ONE, tp.SGD(0.3), tp.DepthScaling(), 2)
    with pytest.raises(tp.NotCovered, match="it jumps, as derivatives of functions with kinks do"):
        InfluenceExecution(job.program(), job.sizes(), job.data(), ONE.loss, 64, 0).run()


def test_choices_have_no_influences() -> None:
    net = tp.ResNet("tanh", block=tp.MoE(experts=4, active=2))
    job = Training(net, ONE, tp.SGD(0.3), tp.DepthScaling(), 2)
    with pytest.raises(tp.NotCovered, match="influences of coordinates does not read .* what is chosen jumps"):
        InfluenceExecution(job.program(), job.sizes(), job.data(), ONE.loss, 64, 0).run()


def test_what_does_not_fit_is_refused_before_the_work() -> None:
    task = tp.Task(np.ones((100, 8, 1)), np.ones((100, 8, 1)))
    large = tp.Problem(tp.ResNet("tanh"), task, tp.SGD(0.1), tp.DepthScaling(), depth=4096)
    with pytest.raises(MemoryError, match="fluctuations at depth 4096"):
        SampledFluctuations(large).covariance


def test_real_networks_at_finite_depth_are_refused() -> None:
    with pytest.raises(tp.NotCovered, match="fluctuations: got a run by method='dense'"):
        tp.train(tp.ResNet("tanh"), ONE, tp.SGD(0.3), tp.DepthScaling(), 2, width=8, method="dense").fluctuations


@pytest.mark.slow
@pytest.mark.parametrize("block, phi, depth, task", [
    ("mlp", "tanh", 2, ONE), ("post_nonlin", "tanh", 3, ONE), ("pre_nonlin", "tanh", 2, TWO)], ids=str)
def test_real_networks_spread_as_sampled(block: str, phi: str, depth: int, task: tp.Task) -> None:
    """Widths 64 and 128, extrapolated."""
    scale, opt, networks = tp.DepthScaling(), tp.SGD(0.5), 4000
    plain = ManyTrainings(task, opt, block, phi, scale.multiplier(depth), scale.update_size(depth), depth)
    values, errors = [], []
    for n in (64, 128):
        f = plain.outputs(n, networks, 1).reshape(networks, -1)
        centered = f - f.mean(axis=0)
        each = n * centered[:, :, None] * centered[:, None, :]
        values.append(each.mean(axis=0).ravel())
        errors.append(each.std(axis=0).ravel() / networks**0.5)
    found = tp.train(tp.ResNet(phi, block=block), task, opt, scale, depth).fluctuations
    own = np.abs((found.covariance.ravel() - 1e9) / away(found, np.full(found.covariance.size, 1e9)))
    z = (2 * values[1] - values[0] - found.covariance.ravel()) / np.sqrt(4 * errors[1]**2 + errors[0]**2 + own**2)
    print(f"{block} {phi}: {len(z)} entries, rms {np.sqrt(np.mean(z**2)):.2f}, largest {np.abs(z).max():.2f}")
    assert np.abs(z).max() < 4
