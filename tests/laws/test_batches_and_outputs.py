"""The order inside a batch does not matter; outputs are coordinates, and any orthonormal frame will do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tpcalc as tp
from support.closeness import assert_close
from tpcalc.testing import DrawnProblem, arrays, problems

NET = tp.ResNet("linear")
METHODS = ["reflection", "coefficients"]


def like(task: tp.Task, inputs: np.ndarray, targets: np.ndarray) -> tp.Task:
    return tp.Task(inputs, targets, task.loss, task.probes)


@pytest.mark.parametrize("method", METHODS)
@given(problem=problems(max_probes=1), data=st.data())
def test_permuting_the_inputs_of_a_batch_permutes_its_outputs(method: str, problem: DrawnProblem, data: st.DataObject
                                                              ) -> None:
    """A permutation of its own at every step; covariances permute alike, losses and probes stay."""
    task, *rest = problem
    orders = np.array([data.draw(st.permutations(range(task.batch))) for _ in range(task.steps)])
    steps = np.arange(task.steps)[:, None]
    permuted = like(task, task.inputs[steps, orders], task.targets[steps, orders])
    a, b = (tp.train(NET, k, *rest, method=method, keep_nodes="all") for k in (task, permuted))
    assert_close(b.outputs, a.outputs[steps, orders], 1e-12, task.targets)
    assert_close(b.losses, a.losses, 1e-12)
    if task.probes is not None:
        assert_close(b.probe_outputs, a.probe_outputs, 1e-12, task.targets)
    rows = (steps * task.batch + orders).ravel()
    assert_close(b.forward_covariance, a.forward_covariance[:, rows][:, :, rows], 1e-12)
    assert_close(b.backward_covariance, a.backward_covariance[:, rows][:, :, rows], 1e-12)


@given(problems(max_steps=3), st.integers(2, 3))
def test_repeating_every_input_of_a_batch_changes_nothing(problem: DrawnProblem, times: int) -> None:
    """The loss is a mean."""
    task, *rest = problem
    repeated = like(task, np.repeat(task.inputs, times, axis=1), np.repeat(task.targets, times, axis=1))
    assert_close(tp.train(NET, repeated, *rest).outputs, np.repeat(tp.train(NET, *problem).outputs, times, axis=1),
                 1e-12, task.targets)


@pytest.mark.parametrize("method", METHODS)
@given(problem=problems(max_probes=1), square=arrays((2, 2)))
def test_rotating_the_targets_rotates_the_outputs(method: str, problem: DrawnProblem, square: np.ndarray) -> None:
    """Losses and covariances stay."""
    task, *rest = problem
    rotation = np.linalg.qr(square + 3 * np.eye(2))[0][:task.d_out]  # one output becomes a line among two
    turned = like(task, task.inputs, task.targets @ rotation)
    a, b = (tp.train(NET, k, *rest, method=method, keep_nodes="all") for k in (task, turned))
    assert_close(b.outputs, a.outputs @ rotation, 1e-12, task.targets)
    assert_close(b.losses, a.losses, 1e-12)
    if task.probes is not None:
        assert_close(b.probe_outputs, a.probe_outputs @ rotation, 1e-12, task.targets)
    assert_close(b.forward_covariance, a.forward_covariance, 1e-12)
    assert_close(b.backward_covariance, a.backward_covariance, 1e-12)


@pytest.mark.parametrize("method", METHODS)
@given(problem=problems(max_outputs=1))
def test_an_output_whose_target_is_zero_stays_zero_and_disturbs_none(method: str, problem: DrawnProblem) -> None:
    task, *rest = problem
    padded = like(task, task.inputs, np.concatenate([np.zeros_like(task.targets), task.targets], axis=2))
    alone, beside = (tp.train(NET, k, *rest, method=method).outputs for k in (task, padded))
    assert np.all(beside[..., :1] == 0)
    assert_close(beside[..., 1:], alone, 1e-12, task.targets)


@given(problems(min_steps=2))
def test_outputs_start_at_zero_and_first_move_like_kernel_regression(problem: DrawnProblem) -> None:
    """f_0 = 0, and f_1 = eta L eps g (1 + eps^2)^(L - 1) mean_i <xi_1|xi_i> y_i: the sum over layers of C0 C1."""
    task, opt, scale, depth = problem
    f = tp.train(NET, *problem).outputs
    eps, g = scale.multiplier(depth), scale.update_size(depth)
    tangent = depth * eps * g * (1 + eps**2) ** (depth - 1)
    gram = task.inputs[1] @ task.inputs[0].T
    assert np.all(f[0] == 0)
    assert_close(f[1], opt.schedule(task.steps)[0] * tangent * gram @ task.targets[0] / task.batch, 1e-12, task.targets)
