"""What happens at a step depends on earlier steps alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from support.closeness import assert_close
from tpcalc.testing import DrawnProblem, problems

NET = tp.ResNet("linear")


def changed_target(task: tp.Task, t: int, by: float = 0.75) -> tp.Task:
    targets = task.targets.copy()
    targets[t] += by
    return tp.Task(task.inputs, targets, task.loss, task.probes)


@pytest.mark.parametrize("method", ["reflection", "coefficients"])
@given(problem=problems(min_steps=2, max_probes=1), data=st.data())
def test_a_target_changes_no_forward_quantity_before_the_next_step(method: str, problem: DrawnProblem,
                                                                   data: st.DataObject
                                                                   ) -> None:
    task, *rest = problem
    t = data.draw(st.integers(0, task.steps - 1))
    runs = [tp.train(NET, a, *rest, method=method, keep_nodes="all") for a in (task, changed_target(task, t))]
    assert np.array_equal(runs[0].outputs[:t + 1], runs[1].outputs[:t + 1])
    if task.probes is not None:
        assert np.array_equal(runs[0].probe_outputs[:t + 1], runs[1].probe_outputs[:t + 1])
    # covariances come from one factorization of all rows together: equal to round-off, not bit for bit
    x, delta = (t + 1) * task.batch, t * task.batch
    assert_close(runs[0].forward_covariance[:, :x, :x], runs[1].forward_covariance[:, :x, :x], 1e-12)
    assert_close(runs[0].backward_covariance[:, :delta, :delta], runs[1].backward_covariance[:, :delta, :delta], 1e-12)


@settings(max_examples=10)
@given(problem=problems(min_steps=2, max_steps=3, with_limit=True), data=st.data())
def test_a_target_changes_no_earlier_output_at_infinite_depth(problem: DrawnProblem, data: st.DataObject) -> None:
    """To the accuracy asked for: the mesh may change with the data."""
    task, opt, scale, _ = problem
    t = data.draw(st.integers(0, task.steps - 1))
    a, b = (tp.train(NET, k, opt, scale, tp.oo).outputs for k in (task, changed_target(task, t)))
    assert_close(a[:t + 1], b[:t + 1], 4e-12, np.ones(1))


@pytest.mark.parametrize("depth, method", [(4, "reflection"), (4, "coefficients"), (tp.oo, "collocation")])
def test_a_target_does_change_the_next_step(depth: int, method: str) -> None:
    """The other half: without it the laws above could hold for a constant."""
    rng = np.random.default_rng(0)
    task = tp.Task(rng.normal(size=(4, 2, 3)) / 2, rng.normal(size=(4, 2, 2)))
    for t in range(3):
        a, b = (tp.train(NET, k, tp.SGD(0.5), tp.DepthScaling(), depth, method=method).outputs
                for k in (task, changed_target(task, t)))
        assert np.max(np.abs(a[t + 1] - b[t + 1])) > 1e-3


@given(problems(min_steps=2), st.data())
def test_later_inputs_change_nothing(problem: DrawnProblem, data: st.DataObject) -> None:
    """Training on the first steps alone gives the first outputs."""
    task, opt, scale, depth = problem
    steps = data.draw(st.integers(1, task.steps - 1))
    short = tp.train(NET, tp.Task(task.inputs[:steps], task.targets[:steps]), tp.SGD(opt.schedule(task.steps)[:steps]),
                     scale, depth)
    assert_close(tp.train(NET, *problem).outputs[:steps], short.outputs, 1e-14, task.targets)
