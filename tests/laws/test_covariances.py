"""What covariances must be, whatever the data: symmetric, positive semidefinite, known at the ends, conserved."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import tpcalc as tp
from support.closeness import assert_close
from support.propagators import cross_covariance, reflect
from tpcalc.interpreters import read_coefficients
from tpcalc.testing import DrawnProblem, problems

NET = tp.ResNet("linear")


def assert_symmetric_positive_semidefinite(covariance: np.ndarray, tolerance: float) -> None:
    assert_close(covariance, covariance.transpose(0, 2, 1), tolerance)
    symmetric = (covariance + covariance.transpose(0, 2, 1)) / 2
    # a null direction comes out as round-off of the size of the largest eigenvalue
    assert np.min(np.linalg.eigvalsh(symmetric)) >= -tolerance * np.max(np.abs(covariance))


@pytest.mark.parametrize("method", ["reflection", "coefficients"])
@given(problem=problems(max_depth=24))
def test_symmetric_and_positive_semidefinite(method: str, problem: DrawnProblem) -> None:
    run = tp.train(NET, *problem, method=method, keep_nodes="all")
    count = problem.task.steps * problem.task.batch
    for covariance in (run.forward_covariance, run.backward_covariance):
        assert covariance.shape == (problem.depth + 1, count, count)
        assert_symmetric_positive_semidefinite(covariance, 1e-12)


@settings(max_examples=15)
@given(problems(max_steps=3, with_limit=True))
def test_symmetric_and_positive_semidefinite_at_infinite_depth(problem: DrawnProblem) -> None:
    task, opt, scale, _ = problem
    run = tp.train(NET, task, opt, scale, tp.oo, keep_nodes=np.linspace(0, 1, 11))
    for covariance in (run.forward_covariance, run.backward_covariance):
        assert_symmetric_positive_semidefinite(covariance, 1e-11)


@pytest.mark.parametrize("method", ["reflection", "coefficients"])
@given(problem=problems())
def test_the_gram_matrices_of_the_data_stand_at_the_ends(method: str, problem: DrawnProblem) -> None:
    """<x^0|x^0> is that of the inputs, <delta^L|delta^L> that of the loss derivatives."""
    run = tp.train(NET, *problem, method=method, keep_nodes=[0, 1])
    xi = problem.task.inputs.reshape(-1, problem.task.d_in)
    chi = (run.outputs - problem.task.targets).reshape(-1, problem.task.d_out)
    assert_close(run.forward_covariance[0], xi @ xi.T, 1e-12)
    assert_close(run.backward_covariance[1], chi @ chi.T, 1e-12)


@settings(max_examples=15)
@given(problem=problems(max_steps=3, with_limit=True))
def test_the_gram_matrices_of_the_data_stand_at_the_ends_of_infinite_depth(problem: DrawnProblem) -> None:
    task, opt, scale, _ = problem
    run = tp.train(NET, task, opt, scale, tp.oo, keep_nodes=[0, 1])
    xi, chi = task.inputs.reshape(-1, task.d_in), (run.outputs - task.targets).reshape(-1, task.d_out)
    assert_close(run.forward_covariance[0], xi @ xi.T, 1e-12)
    assert_close(run.backward_covariance[1], chi @ chi.T, 1e-12)


@given(problems(max_batch=2, max_outputs=1))
def test_c_at_the_first_layer_is_the_gram_matrix_of_the_inputs(problem: DrawnProblem) -> None:
    """C_ts = <x_t^0|x_s^0>, the covariance of the hats F of layer 1; at the last layer, that of delta^L."""
    task = problem.task
    run = tp.train(NET, *problem)
    rows = [(t, i) for t in range(task.steps) for i in range(task.batch)]
    xi = task.inputs.reshape(-1, task.d_in)
    chi = (run.outputs - task.targets).reshape(-1)
    assert_close([[run.c(a, b, 0, 1 / problem.depth) for b in rows] for a in rows], xi @ xi.T, 1e-12)
    assert_close([[run.c(a, b, 1, 1) for b in rows] for a in rows], np.outer(chi, chi), 1e-12)


@pytest.mark.parametrize("method", ["reflection", "coefficients"])
@given(problem=problems(max_depth=24))
def test_without_training_every_layer_adds_its_noise(method: str, problem: DrawnProblem) -> None:
    """lr = 0: <x^l|x^l> = (1 + eps^2)^l Xi, <delta^l|delta^l> = (1 + eps^2)^(L - l) chi chi^T, f = 0."""
    task, _, scale, depth = problem
    run = tp.train(NET, task, tp.SGD(0.0), scale, depth, method=method, keep_nodes="all")
    growth = (1 + scale.multiplier(depth) ** 2) ** np.arange(depth + 1)[:, None, None]
    xi, y = task.inputs.reshape(-1, task.d_in), task.targets.reshape(-1, task.d_out)
    assert np.all(run.outputs == 0)
    assert_close(run.forward_covariance, growth * (xi @ xi.T), 1e-12)
    assert_close(run.backward_covariance, growth[::-1] * (y @ y.T), 1e-12)


@given(problems(max_depth=24))
def test_forward_and_backward_signals_of_a_step_have_one_overlap_at_every_node(problem: DrawnProblem) -> None:
    """<x_a^l|delta_b^l> of a step does not depend on l: it is f_a . chi_b; by both exact readings."""
    task, depth = problem.task, problem.depth
    trace, propagator = reflect(*problem, "plain")
    kets = read_coefficients(*problem)
    by_reflection = cross_covariance(propagator.P, propagator.Q, propagator.S, propagator.R)
    by_coefficients = (np.einsum("aldmr,dmrs,bldms->lab", kets.x, kets.covariance, kets.delta, optimize=True)
                       + np.einsum("ale,ble->lab", kets.x_outputs, kets.delta_inputs))
    for t in range(task.steps):
        rows = slice(t * task.batch, (t + 1) * task.batch)
        expected = np.broadcast_to(trace.outputs[t] @ (trace.outputs[t] - task.targets[t]).T,
                                   (depth + 1, task.batch, task.batch))
        assert_close(by_reflection[:, rows, rows], expected, 1e-11, task.targets)
        assert_close(by_coefficients[:, rows, rows], expected, 1e-11, task.targets)
