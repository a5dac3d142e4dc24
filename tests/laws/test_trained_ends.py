"""Read-in and read-out trained by the same optimizer: every reading of the same network agrees."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from support.closeness import assert_close
from support.interpreted import interpreted
from support.propagators import reflect
from tpcalc.interpreters import read_program_coefficients
from tpcalc.testing import optimizers

NET, HALF = tp.ResNet(train_embedding_readout=True), tp.DepthScaling()
TASK = tp.Task([1, 0.8, -0.6, 1.1], [1, -0.7, 0.5, 1.2])
OPTIMIZERS = [tp.SGD(0.4), tp.SGD(0.3, momentum=0.6, nesterov=True),
              tp.SGD(0.5, weight_decay=0.3, decoupled=True, momentum=0.5, dampening=0.5)]


def random_task(seed: int, steps: int, batch: int, outputs: int, loss: str = "mse", probes: int = 0) -> tp.Task:
    rng = np.random.default_rng(seed)
    targets = rng.uniform(-1, 1, (steps, batch, outputs))
    if loss == "logistic":
        targets = np.sign(targets)
    if loss == "softmax":
        outputs = max(outputs, 2)  # of one class there is nothing to learn
        targets = np.eye(outputs)[rng.integers(outputs, size=(steps, batch))]
    return tp.Task(rng.uniform(-1, 1, (steps, batch, 2)), targets, loss,
                   rng.uniform(-1, 1, (probes, 2)) if probes else None)


@settings(max_examples=40, deadline=None)
@given(opt=optimizers(linear=True), steps=st.integers(1, 5), batch=st.integers(1, 3), outputs=st.integers(1, 2),
       loss=st.sampled_from(["mse", "logistic", "softmax"]), alpha=st.sampled_from([0.5, 0.75, 1.0]),
       depth=st.integers(1, 12), seed=st.integers(0, 2**32 - 1))
def test_reflection_is_coefficients(opt: tp.SGD, steps: int, batch: int, outputs: int, loss: str, alpha: float,
                                    depth: int, seed: int) -> None:
    """Outputs and probes whichever indexing is taken, covariances at all nodes."""
    task, scale = random_task(seed, steps, batch, outputs, loss, probes=2), tp.DepthScaling(alpha, 1 - alpha)
    fast, plain, oracle = (tp.train(NET, task, opt, scale, depth, method=method, keep_nodes=kept) for method, kept in
                           (("reflection", None), ("reflection", "all"), ("coefficients", "all")))
    for run in (fast, plain):
        assert_close(run.outputs, oracle.outputs, 1e-12, task.targets)
        assert_close(run.probe_outputs, oracle.probe_outputs, 1e-12, task.targets)
        assert run.error_estimate < 1e-12 * max(1.0, np.abs(oracle.outputs).max())
    assert_close(plain.forward_covariance, oracle.forward_covariance, 1e-12)
    assert_close(plain.backward_covariance, oracle.backward_covariance, 1e-12)


@settings(max_examples=15, deadline=None)
@given(opt=optimizers(linear=True), steps=st.integers(1, 4), depth=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_reflection_is_the_program(opt: tp.SGD, steps: int, depth: int, seed: int) -> None:
    """The Tensor Program of the same training, whose updates of the ends are statements."""
    task = random_task(seed, steps, 1, 1)
    task = tp.Task(task.inputs[..., :1], task.targets)
    opt = tp.SGD(opt.schedule(steps)[0], opt.momentum, opt.dampening, opt.nesterov, opt.weight_decay, opt.decoupled)
    found = read_program_coefficients(tp.program(NET, opt, HALF), {"T": steps, "L": depth},
                                      {"xi": task.inputs.ravel(), "y": task.targets.ravel()}).scalars
    outputs = {int(name.indices[0]): value for name, value in found.items() if name.name == "f"}
    expected = np.array([outputs[t] for t in range(steps)])
    assert_close(tp.train(NET, task, opt, HALF, depth).outputs.ravel(), expected, 1e-12, task.targets)


def test_reflection_is_the_compiled_recursion() -> None:
    kernel = interpreted(tp.recursion(tp.kets(tp.program(NET, tp.SGD(0.7), HALF))))
    for depth in (1, 3, 9):
        expected = kernel(depth, TASK.inputs.ravel(), TASK.targets.ravel()).outputs
        assert_close(tp.train(NET, TASK, tp.SGD(0.7), HALF, depth).outputs.ravel(), expected, 1e-12)


@settings(max_examples=20, deadline=None)
@given(opt=optimizers(linear=True), depth=st.integers(1, 8), seed=st.integers(0, 2**32 - 1))
def test_two_places_agree_with_coefficients(opt: tp.SGD, depth: int, seed: int) -> None:
    """Gamma over every base ket, U and nV included, and covariances between layers."""
    task = tp.Task(*np.random.default_rng(seed).uniform(-1, 1, (2, 3)))
    fast, oracle = (tp.train(NET, task, opt, HALF, depth, method=m, keep_nodes="all")
                    for m in ("reflection", "coefficients"))
    locations = [(p, q) for p in (0, 0.3, 1) for q in (0.2, 0.7, 1)]
    names = [(t, s, a, b, p, q) for t, s, a, b, (p, q) in product(range(3), range(-1, 3), (0, 1), (0, 1), locations)]
    assert_close(np.array([fast.gamma(*n) for n in names]), np.array([oracle.gamma(*n) for n in names]), 1e-11)
    names = [n for n in names if n[1] >= 0]
    assert_close(np.array([fast.cross_covariance(*n) for n in names]),
                 np.array([oracle.cross_covariance(*n) for n in names]), 1e-11)


def test_packed_rows_are_blocks_of_one() -> None:
    """Through ``train``, which packs unless nodes are kept; ``reflect`` of the support has frozen ends."""
    packed = tp.train(NET, TASK, OPTIMIZERS[1], HALF, 20).outputs
    assert_close(packed, tp.train(NET, TASK, OPTIMIZERS[1], HALF, 20, keep_nodes="all").outputs, 1e-13)
    frozen = reflect(TASK, OPTIMIZERS[1], HALF, 20, "plain", packed=True)[0].outputs
    assert np.max(np.abs(packed - frozen)) > 0.1


@pytest.mark.parametrize("alpha, order", [(0.5, 1.0), (1.0, 1.0)])
@pytest.mark.parametrize("opt", OPTIMIZERS, ids=str)
def test_the_limit_is_reached_at_first_order(opt: tp.SGD, alpha: float, order: float) -> None:
    task = random_task(3, 4, 2, 2, probes=2)
    found = tp.convergence(NET, task, opt, tp.DepthScaling(alpha, 1 - alpha), [2**k for k in range(6, 12)])
    assert found.limit_order is not None and abs(found.limit_order.order - order) < 0.05


def test_two_places_reach_their_limit() -> None:
    """Gamma, within 1/L of its limit: Richardson's extrapolation is within 1/L^2."""
    limit, *finite = (tp.train(NET, TASK, OPTIMIZERS[2], HALF, depth) for depth in (tp.oo, 256, 512))
    names = [(t, s, a, b, p, q) for t, s, a, b in product((1, 3), (-1, 0, 2), (0, 1), (0, 1))
             for p, q in ((0, 0.5), (0.25, 0.75), (0.75, 0.25), (1, 0.5))]
    exact, coarse, fine = (np.array([run.gamma(*n) for n in names]) for run in (limit, *finite))
    assert np.max(np.abs(2 * fine - coarse - exact)) < 1e-3 < 0.1 * np.max(np.abs(exact))
    covariances = [np.array([run.cross_covariance(*n) for n in names if n[1] >= 0]) for run in (limit, *finite)]
    assert_close(2 * covariances[2] - covariances[1], covariances[0], 1e-3)


@pytest.mark.parametrize("opt", OPTIMIZERS, ids=str)
def test_real_networks_train_the_same_way(opt: tp.SGD) -> None:
    """Means over seeds within standard errors; the 1/n bias is below them at this width."""
    task, depth = random_task(5, 4, 2, 1, probes=1), 6
    exact, frozen = (tp.train(tp.ResNet(train_embedding_readout=trained), task, opt, HALF,
                              depth) for trained in (True, False))
    runs = [tp.train(NET, task, opt, HALF, depth, width=512, seed=seed) for seed in range(12)]
    for name in ("outputs", "probe_outputs"):
        values = np.array([getattr(run, name) for run in runs])
        error = values.std(axis=0, ddof=1) / np.sqrt(len(runs))
        z = (values.mean(axis=0) - getattr(exact, name)) / error
        assert np.sqrt(np.mean(z[1:] ** 2)) < 2 and np.abs(z).max() < 5
        far = (values.mean(axis=0) - getattr(frozen, name)) / error
        assert np.sqrt(np.mean(far[1:] ** 2)) > 3


def test_where_blocks_do_not_learn_the_ends_do() -> None:
    """gamma too large: the limit is a network of two layers, read-in and read-out, and says so."""
    run = tp.train(NET, TASK, OPTIMIZERS[1], tp.DepthScaling(1, 1), tp.oo)
    assert "embedding and readout learn" in " ".join(run.notes) and np.max(np.abs(run.outputs)) > 0.1
    shallow = tp.train(NET, TASK, OPTIMIZERS[1], tp.DepthScaling(0.5, 0.5, branch=1e-12), 1).outputs
    assert_close(run.outputs, shallow, 1e-11)
