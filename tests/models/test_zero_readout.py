"""Outputs less those of the weights at first: plain NumPy, every reading, and what it does to real widths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tpcalc as tp

SCALE = tp.DepthScaling()
XI, Y = np.array([[1.0], [0.8]]), np.array([[1.0], [-0.7]])
TASK = tp.Task(np.array([XI, XI, -XI]), np.array([Y, Y, Y]), probes=[0.3, 2.0])
TOKENS = np.array([[1, 0], [0.5, 0.8]])
SEQUENCES = tp.Sequences(*(np.broadcast_to(one, (2, 1, *one.shape)) for one in (TOKENS, Y)))
ATTENTION = tp.Transformer(positions=2, head_dim=2, mlp=None, causal=False, zero_readout=True)


@pytest.mark.parametrize("trained", [False, True])
def test_plain_networks(trained: bool) -> None:
    """tanh networks by hand, from the weights of a dense run, with gradients of the outputs as they are."""
    net = tp.ResNet("tanh", train_embedding_readout=trained, zero_readout=True)
    run = tp.train(net, TASK, tp.SGD(0.4), SCALE, depth=3, width=16, method="dense", seed=3)
    start = run.initial_weights()
    eps, rate, n = 3**-0.5, 0.4, 16
    now = {name: value.copy() for name, value in start.items()}

    def forward(w: dict[str, np.ndarray], xi: float) -> list[np.ndarray]:
        x = [xi * w["U"]]
        for layer in w["W"]:
            z = np.tanh(layer @ x[-1])
            x.append(x[-1] + eps * (z - z.mean()))
        return x

    def output(xi: float) -> float:
        ours, first = ((forward(w, xi)[-1] * w["nV"]).mean() for w in (now, start))
        return float(ours - first)

    for t in range(TASK.steps):
        f = np.array([output(xi) for xi in TASK.inputs[t].ravel()])
        np.testing.assert_allclose(run.outputs[t].ravel(), f, rtol=0, atol=1e-13)
        np.testing.assert_allclose(run.probe_outputs[t].ravel(), [output(0.3), output(2.0)], rtol=0, atol=1e-13)
        moved = {name: np.zeros_like(value) for name, value in now.items()}
        for xi, chi in zip(TASK.inputs[t].ravel(), f - TASK.targets[t].ravel()):
            x, back = forward(now, xi), chi * now["nV"]
            moved["nV"] += x[-1] * chi / 2
            for l in reversed(range(3)):
                inner = (1 - np.tanh(now["W"][l] @ x[l])**2) * (back - back.mean())
                moved["W"][l] += np.outer(inner, x[l]) / n / 2 * eps
                back = back + eps * now["W"][l].T @ inner
            moved["U"] += back * xi / 2
        for name in now if trained else ("W",):
            now[name] = now[name] - rate * moved[name]


NETS = [tp.ResNet(), tp.ResNet("tanh", train_embedding_readout=True), tp.ResNet(visits=2, inject=1),
        tp.ResNet("tanh", "mlp", "rms", readout="tanh", gains=True),
        tp.ResNet("tanh", skip=tp.HyperConnections()), ATTENTION.at_infinite_width]


@pytest.mark.parametrize("net", NETS, ids=range(len(NETS)))
@pytest.mark.parametrize("opt", [tp.SGD(0.3), tp.Adam(0.1)], ids=["SGD", "Adam"])
def test_first_outputs_are_gone(net: Any, opt: Any) -> None:
    """0 in every real network; what training adds is like that of the network with them, and its limit is the same."""
    task, zero = SEQUENCES if net.positions else TASK, replace(net, zero_readout=True)
    limits = [tp.train(one, task, opt, SCALE, 2).outputs for one in (net, zero)]
    assert np.array_equal(*limits)
    for method in ("dense", "conditioned"):
        real = tp.train(zero, task, opt, SCALE, 2, width=512, method=method, seed=1)
        np.testing.assert_allclose(real.outputs[0], 0, atol=1e-15)
        np.testing.assert_allclose(real.outputs, limits[0], rtol=0, atol=0.2 * np.abs(limits[0]).max())


@pytest.mark.nightly
def test_the_derived_recursion_is_that_of_the_limit() -> None:
    found = [tp.recursion(tp.kets(tp.program(tp.ResNet(zero_readout=zero), tp.SGD(0.5), SCALE))).compile()(
        3, np.array([1.0, 0.8, -0.6]), np.array([1.0, -0.7, 0.5])) for zero in (False, True)]
    np.testing.assert_allclose(found[0].outputs, found[1].outputs, rtol=0, atol=1e-14)
    assert np.abs(found[0].outputs).max() > 0.1


@pytest.mark.parametrize("opt", [tp.NormalizedSGD(0.2), tp.Muon(0.2)], ids=["normalized", "Muon"])
def test_updates_of_one_size_see_the_loss_at_any_width(opt: Any) -> None:
    """At a width of 32, where networks with first outputs have little more than half of the limit."""
    run = tp.train(ATTENTION, SEQUENCES, opt, SCALE, 2)
    assert run.crossover_width.tolist() == [0.0]
    with_them = tp.train(ATTENTION.at_infinite_width, SEQUENCES, opt, SCALE, 2).at_width(32, seeds=60)
    at = run.at_width(32, seeds=60)
    assert np.all(np.abs(at.mean[1] - run.outputs[1]) < 3 * at.error[1] + 0.3 / 32)
    assert np.all(with_them.mean[1] < 0.7 * run.outputs[1]) and "crossover" not in at.warning


def test_verdicts_are_those_of_the_limit() -> None:
    for net in (tp.ResNet("tanh", zero_readout=True), ATTENTION):
        ours, theirs = (str(tp.classify(0.5, 0.5, net=one)) for one in (net, net.at_infinite_width))
        assert ours == theirs


def test_saved_and_loaded(tmp_path: Any) -> None:
    run = tp.train(ATTENTION, SEQUENCES, tp.SGD(0.3), SCALE, 2, width=16)
    run.save(tmp_path / "run.npz")
    assert tp.Run.load(tmp_path / "run.npz").problem.net == ATTENTION


def test_refused() -> None:
    with pytest.raises(ValueError, match="zero_readout: got True with tied=True"):
        tp.Transformer(tied=True, zero_readout=True)
    with pytest.raises(ValueError, match="zero_readout: got 2"):
        tp.ResNet(zero_readout=2)
    run = tp.train(tp.ResNet("relu", zero_readout=True), TASK, tp.SGD(0.3), SCALE, 2)
    with pytest.raises(tp.NotCovered, match="fluctuations: got a run by method='particles'"):
        run.fluctuations
    deep = tp.train(tp.ResNet(zero_readout=True), TASK, tp.SGD(0.3), SCALE, tp.oo)
    with pytest.raises(tp.NotCovered, match="zero_readout: got True; fluctuations are known"):
        deep.fluctuations
    assert run.at_width(16, seeds=2).seeds == 2 and run.at_width(16).seeds == 32
    with pytest.raises(tp.NotCovered, match="zero_readout: got True; kernels are known"):
        tp.kernel_fn(tp.ResNet(zero_readout=True))
