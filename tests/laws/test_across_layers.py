"""Covariances and differences across layers: two exact readings, the limit, symmetries, known cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

import tpcalc as tp
from support.closeness import assert_close
from tpcalc.testing import DrawnProblem, optimizers, problems, scalings, tasks

NET = tp.ResNet("linear")
Row = tuple[int, int]


def rows_of(task: tp.Task) -> list[Row]:
    return [(t, i) for t in range(task.steps) for i in range(task.batch)]


def covariance(run: tp.Run, locations: list[float]) -> np.ndarray:
    """Of x and delta of all rows at all places, in this order; a Gram matrix."""
    keys = [(row, a, p) for p in locations for a in (0, 1) for row in rows_of(run.task)]
    return np.array([[run.cross_covariance(t, s, a, b, p, q) for s, b, q in keys] for t, a, p in keys])


def differences(run: tp.Run, p: Any, eps: Any) -> np.ndarray:
    """(2, rows, ...): of features and of gradients."""
    return np.array([[f(row, p, eps) for row in rows_of(run.task)]
                     for f in (run.feature_difference, run.gradient_difference)])


@settings(max_examples=40)
@given(task=tasks(max_steps=4, max_batch=2), opt=optimizers(linear=True), scale=scalings(), depth=st.integers(1, 9),
       data=st.data())
def test_reflection_equals_the_coefficients(task: tp.Task, opt: tp.SGD, scale: tp.DepthScaling, depth: int,
                                            data: st.DataObject) -> None:
    """Batches, several outputs, momentum, decay; any two layers. Differences have relative accuracy."""
    assume(scale.drift_exponent <= 0)
    fast, oracle = (tp.train(NET, task, opt, scale, depth, method=method) for method in ("reflection", "coefficients"))
    m, l = sorted(data.draw(st.tuples(*2 * [st.integers(0, depth)])))
    locations = [m / depth, l / depth]
    expected = covariance(oracle, locations)
    assert_close(covariance(fast, locations), expected, 1e-12)
    exact = differences(oracle, locations[0], (l - m) / depth)
    round_off = 1e-14 * float(np.sqrt(np.max(np.diag(expected))))  # of the oracle, which subtracts coefficients
    np.testing.assert_allclose(differences(fast, locations[0], (l - m) / depth), exact, rtol=1e-12, atol=round_off)


@pytest.mark.parametrize("loss, outputs", [("logistic", 1), ("softmax", 3)])
def test_other_losses(loss: str, outputs: int) -> None:
    rng = np.random.default_rng(4)
    targets = np.eye(3)[rng.integers(0, 3, (3, 2))] if outputs == 3 else np.sign(rng.normal(size=(3, 2, 1)))
    task = tp.Task(rng.normal(size=(3, 2, 2)), targets, loss=loss)
    fast, oracle = (tp.train(NET, task, tp.SGD(0.5), tp.DepthScaling(), 6, method=method)
                    for method in ("reflection", "coefficients"))
    assert_close(covariance(fast, [1 / 3, 1]), covariance(oracle, [1 / 3, 1]), 1e-12)


@settings(max_examples=12)
@given(problem=problems(max_steps=3, max_batch=2, with_limit=True), data=st.data())
def test_the_limit_is_one_gaussian_process(problem: DrawnProblem, data: st.DataObject) -> None:
    """Gram matrices over several layer times are positive semidefinite, are at one time what nodes say, and
    differences are what their entries add up to."""
    task, opt, scale, _ = problem
    inside = data.draw(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=1))
    locations = [0.0, *inside, 1.0]
    run = tp.train(NET, task, opt, scale, tp.oo, keep_nodes=locations)
    n = len(rows_of(task))
    whole = covariance(run, locations)
    gram = whole.reshape(3, 2 * n, 3, 2 * n)
    size = float(np.max(np.abs(whole)))
    assert_close(whole, whole.T, 1e-12)
    assert np.linalg.eigvalsh(whole).min() >= -1e-11 * size
    for k in range(3):
        assert_close(gram[k, :n, k, :n], run.forward_covariance[k], 1e-11, size)
        assert_close(gram[k, n:, k, n:], run.backward_covariance[k], 1e-11, size)
    change = differences(run, locations[0], locations[1]).ravel()
    squares = np.diag(gram[1, :, 1] + gram[0, :, 0] - 2 * gram[0, :, 1])
    assert_close(change**2, squares, 1e-11, size)


@given(problem=problems(max_depth=16))
def test_untrained_changes_are_sums_of_independent_noise(problem: DrawnProblem) -> None:
    """d^2 = ((1 + eps^2)^l - (1 + eps^2)^m) |xi|^2 at the first step; backward, with chi = -y."""
    task, opt, scale, depth = problem
    run = tp.train(NET, task, opt, scale, depth)
    growth = (1 + scale.multiplier(depth) ** 2) ** np.arange(depth + 1)
    m, l = depth // 3, depth
    for i in range(task.batch):
        forward, backward = (f((0, i), m / depth, (l - m) / depth) for f in
                             (run.feature_difference, run.gradient_difference))
        assert forward == pytest.approx(np.sqrt(growth[l] - growth[m]) * np.linalg.norm(task.inputs[0, i]), abs=1e-12)
        assert backward == pytest.approx(np.sqrt(growth[depth - m] - growth[depth - l])
                                         * np.linalg.norm(task.targets[0, i]), abs=1e-12)


@given(problem=problems(max_depth=16))
def test_a_step_has_one_overlap_of_forward_and_backward_signals_at_every_layer(problem: DrawnProblem) -> None:
    """<x_a^l|delta_b^l> = f_a . chi_b within a step, whatever l."""
    task, depth = problem.task, problem.depth
    run = tp.train(NET, *problem)
    for t in range(task.steps):
        overlap = run.outputs[t] @ (run.outputs[t] - task.targets[t]).T
        for l in {0, depth // 2, depth}:
            found = [[run.cross_covariance((t, i), (t, j), 0, 1, l / depth, l / depth) for j in range(task.batch)]
                     for i in range(task.batch)]
            assert_close(found, overlap, 1e-11, task.targets)


class Prescribed:
    """The loss <f|y>, whose derivative is y whatever f."""

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.sum(f * y, axis=-1)

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return y


@settings(max_examples=20)
@given(problem=problems(max_depth=16))
def test_the_mirrored_network_has_features_and_gradients_swapped(problem: DrawnProblem) -> None:
    """Reverse the layers, train on the inputs chi with prescribed loss derivatives xi."""
    task, opt, scale, depth = problem
    run = tp.train(NET, *problem)
    chi = task.loss.derivative(run.outputs, task.targets)
    image = tp.train(NET, tp.Task(chi, task.inputs, Prescribed()), opt, scale, depth)
    nodes = [0, depth // 2, depth]
    for m, l in zip(nodes, nodes[1:]):
        assert_close(differences(image, (depth - l) / depth, (l - m) / depth)[::-1],
                     differences(run, m / depth, (l - m) / depth), 1e-11)


@settings(max_examples=10)
@given(problem=problems(max_steps=3, max_batch=2, with_limit=True))
def test_the_mirrored_limit_has_features_and_gradients_swapped(problem: DrawnProblem) -> None:
    task, opt, scale, _ = problem
    run = tp.train(NET, task, opt, scale, tp.oo)
    image = tp.train(NET, tp.Task(task.loss.derivative(run.outputs, task.targets), task.inputs, Prescribed()), opt,
                     scale, tp.oo)
    assert_close(differences(image, 0.6, 0.3)[::-1], differences(run, 0.1, 0.3), 1e-10)
