"""Real networks: the forward and backward pass, the update, and what is recorded, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp
from support.closeness import assert_close
from support.plain.dense_loop import linear
from support.read_dense import read_dense

RNG = np.random.default_rng(0)
TASK = tp.Task(RNG.normal(size=(3, 2, 3)), RNG.normal(size=(3, 2, 2)), probes=RNG.normal(size=(2, 3)))
RATES = (0.3, 0.2, 0.1)
SCALE = tp.DepthScaling(0.6, 0.3, branch=0.8)
DEPTH, WIDTH = 3, 12


class Plain:
    """The same network with its matrices in hand, drawn in the same order."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.U, self.V = rng.normal(size=(3, WIDTH)), rng.normal(size=(2, WIDTH)) / WIDTH
        self.W = rng.normal(size=(DEPTH, WIDTH, WIDTH)) / np.sqrt(WIDTH)
        self.eps = 0.8 * DEPTH**-0.6

    def outputs(self, xi: np.ndarray) -> np.ndarray:
        x = self.U.T @ xi
        for matrix in self.W:
            x = x + self.eps * matrix @ x
        return self.V @ x

    def loss(self, inputs: np.ndarray, targets: np.ndarray) -> float:
        return float(np.mean([0.5 * np.sum((self.outputs(xi) - y) ** 2) for xi, y in zip(inputs, targets)]))

    def gradient(self, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """By central differences; the loss is a polynomial of degree 2 in every weight: exact but for round-off."""
        gradient = np.zeros_like(self.W)
        for index in np.ndindex(*self.W.shape):
            weight, values = self.W[index], []
            for h in (1e-3, -1e-3):
                self.W[index] = weight + h
                values.append(self.loss(inputs, targets))
            self.W[index] = weight
            gradient[index] = (values[0] - values[1]) / 2e-3
        return gradient


def test_training_is_gradient_descent_on_the_loss() -> None:
    """With the hidden learning rate of the limit: lr g = physical rate times eps, L^(alpha - gamma) for a branch
    constant of 1."""
    plain = Plain(seed=7)
    dense = read_dense(TASK, tp.SGD(RATES), SCALE, DEPTH, WIDTH, seed=7)
    for t in range(TASK.steps):
        for i in range(TASK.batch):
            assert_close(dense.outputs[t, i], plain.outputs(TASK.inputs[t, i]), 1e-9)
        assert dense.probe_outputs is not None and TASK.probes is not None
        assert_close(dense.probe_outputs[t], [plain.outputs(xi) for xi in TASK.probes], 1e-9)
        physical = RATES[t] * DEPTH**-0.3 / plain.eps
        plain.W -= physical * plain.gradient(TASK.inputs[t], TASK.targets[t])


@pytest.mark.parametrize("opt", [tp.SGD(RATES), tp.SGD(0.3, momentum=0.9, nesterov=True, weight_decay=0.1),
                                 tp.SGD(0.3, momentum=0.5, dampening=0.3, weight_decay=0.1, decoupled=True)], ids=str)
@pytest.mark.parametrize("ends", [False, True])
def test_every_optimizer_is_a_loop_written_by_hand(opt: tp.SGD, ends: bool) -> None:
    """Draw by draw: the seed fixes the network as it always did."""
    outputs, probes = linear(TASK, opt, SCALE, DEPTH, WIDTH, 3, ends)
    dense = read_dense(TASK, opt, SCALE, DEPTH, WIDTH, 3, train_embedding_readout=ends)
    assert_close(dense.outputs, outputs, 1e-13, 1.0)
    assert_close(dense.probe_outputs, probes, 1e-13, 1.0)


def test_kept_nodes_are_the_signals_there() -> None:
    """x^0 = U xi, delta^L = chi nV, f = nV . x^L / n, and <x|delta> of a step does not depend on the node."""
    dense = read_dense(TASK, tp.SGD(RATES), SCALE, DEPTH, WIDTH, seed=7, nodes=np.arange(DEPTH + 1))
    without = read_dense(TASK, tp.SGD(RATES), SCALE, DEPTH, WIDTH, seed=7)
    plain = Plain(seed=7)
    assert dense.x is not None and dense.delta is not None and without.x is None and without.delta is None
    assert np.array_equal(dense.outputs, without.outputs)
    assert dense.x.shape == dense.delta.shape == (DEPTH + 1, 6, WIDTH)
    chi = (dense.outputs - TASK.targets).reshape(6, 2)
    assert_close(dense.x[0], TASK.inputs.reshape(6, 3) @ plain.U, 1e-14)
    assert_close(dense.delta[-1], chi @ plain.V * WIDTH, 1e-14)
    assert_close(dense.outputs.reshape(6, 2), dense.x[-1] @ plain.V.T, 1e-14)
    for t in range(3):
        overlaps = [x[2 * t:2 * t + 2] @ delta[2 * t:2 * t + 2].T for x, delta in zip(dense.x, dense.delta)]
        assert_close(overlaps, np.broadcast_to(overlaps[0], (DEPTH + 1, 2, 2)), 1e-12)


def test_a_subset_of_nodes_is_that_subset() -> None:
    every = read_dense(TASK, tp.SGD(RATES), SCALE, DEPTH, WIDTH, nodes=np.arange(DEPTH + 1))
    some = read_dense(TASK, tp.SGD(RATES), SCALE, DEPTH, WIDTH, nodes=np.array([3, 1]))
    assert every.x is not None and some.x is not None and every.delta is not None and some.delta is not None
    assert np.array_equal(some.x, every.x[[3, 1]]) and np.array_equal(some.delta, every.delta[[3, 1]])


def test_width_one_and_depth_one_will_do() -> None:
    assert np.all(np.isfinite(read_dense(TASK, tp.SGD(RATES), SCALE, 1, 1).outputs))


def test_overflow_is_divergence_with_step_and_layer() -> None:
    with pytest.raises(tp.Divergence, match=rf"step 1, layer \d of {DEPTH}: x\[1, 0, \d\] is not finite") as caught:
        read_dense(TASK, tp.SGD(1e200), SCALE, DEPTH, WIDTH)
    assert caught.value.step == 1 and 1 <= caught.value.layer <= DEPTH


def test_memory_is_asked_for_before_the_work() -> None:
    with pytest.raises(MemoryError, match="with 3 matrices of width 100000000 needs .* GiB, this machine has"):
        read_dense(TASK, tp.SGD(1.0), SCALE, DEPTH, 10**8)
