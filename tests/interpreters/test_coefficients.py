"""The coefficient reading: what its coefficients say beyond outputs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import tpcalc as tp
from support.closeness import assert_close
from tpcalc.interpreters import read_coefficients
from tpcalc.testing import DrawnProblem, problems


@given(problems(max_probes=1))
def test_base_kets_enter_where_and_when_they_are_made(problem: DrawnProblem) -> None:
    """|x_a^l> holds eps F_a^m for the m <= l it has passed and no hat of a later step or of its own step's others;
    |delta_a^l> likewise with B_a^m for m > l; U enters as xi, nV into delta as chi."""
    task, depth, eps = problem.task, problem.depth, problem.scale.multiplier(problem.depth)
    kets = read_coefficients(*problem)
    n = task.steps * task.batch
    step = np.arange(n) // task.batch
    assert kets.x.shape == kets.delta.shape == (n, depth + 1, 2, depth, n)
    assert kets.x_outputs.shape == kets.delta_inputs.shape == (n, depth + 1, task.d_in + task.d_out)
    assert kets.covariance.shape == (2, depth, n, n)
    for own, other, hats, passed in ((0, 1, kets.x, np.tril(np.ones((depth + 1, depth)), -1)),
                                     (1, 0, kets.delta, np.triu(np.ones((depth + 1, depth))))):
        for a in range(n):
            assert_close(hats[a, :, own, :, a], eps * passed, 1e-15)
            aside = (step >= step[a]) & (np.arange(n) != a)
            assert np.all(hats[a, :, own][:, :, aside] == 0)
            assert np.all(hats[a, :, other][:, :, step >= step[a]] == 0)
    xi, chi = task.inputs.reshape(n, -1), (kets.outputs - task.targets).reshape(n, -1)
    assert np.array_equal(kets.x_outputs[:, 0, :task.d_in], xi) and np.all(kets.x_outputs[:, 0, task.d_in:] == 0)
    assert np.array_equal(kets.delta_inputs[:, -1, task.d_in:],
                          chi) and np.all(kets.delta_inputs[:, -1, :task.d_in] == 0)


@given(problems())
def test_covariances_of_hats_are_those_of_the_nodes_they_come_from(problem: DrawnProblem) -> None:
    """Cov(F_a^m, F_b^m) = <x_a^(m-1)|x_b^(m-1)>, Cov(B_a^m, B_b^m) = <delta_a^m|delta_b^m>."""
    kets = read_coefficients(*problem)
    assert_close(kets.node_covariance(True)[:-1], kets.covariance[0], 1e-12)
    assert_close(kets.node_covariance(False)[1:], kets.covariance[1], 1e-12)


@given(problems(max_batch=2))
def test_the_output_is_the_overlap_with_the_read_out(problem: DrawnProblem) -> None:
    """f = <nV|x^L>: the coefficient of nV."""
    task = problem.task
    kets = read_coefficients(*problem)
    assert np.array_equal(kets.outputs.reshape(-1, task.d_out), kets.x_outputs[:, -1, task.d_in:])


def test_memory_is_asked_for_before_the_work() -> None:
    with pytest.raises(MemoryError, match="method='coefficients' at depth 100000000 needs .* GiB, this machine has"):
        read_coefficients(tp.Task((1.0, 1.0), (1.0, 1.0)), tp.SGD(1.0), tp.DepthScaling(), 10**8)
