"""Held-out inputs ride along and leave no trace; learning rates act step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tpcalc as tp
from support.closeness import assert_close
from tpcalc.testing import DrawnProblem, arrays, problems

NET = tp.ResNet("linear")
METHODS = ["reflection", "coefficients"]


def with_probes(task: tp.Task, probes: np.ndarray | None) -> tp.Task:
    return tp.Task(task.inputs, task.targets, task.loss, probes)


@pytest.mark.parametrize("method", METHODS)
@given(problem=problems(max_probes=3))
def test_probes_leave_no_trace(method: str, problem: DrawnProblem) -> None:
    """Bit for bit."""
    task, *rest = problem
    without = tp.train(NET, with_probes(task, None), *rest, method=method)
    beside = tp.train(NET, task, *rest, method=method)
    assert np.array_equal(beside.outputs, without.outputs)
    assert without.probe_outputs is None


@pytest.mark.parametrize("method", METHODS)
@given(problem=problems(max_batch=2))
def test_a_probe_equal_to_a_training_input_has_its_output(method: str, problem: DrawnProblem) -> None:
    task, *rest = problem
    run = tp.train(NET, with_probes(task, task.inputs.reshape(-1, task.d_in)), *rest, method=method)
    assert run.probe_outputs is not None
    at_own_step = run.probe_outputs.reshape(task.steps, task.steps, task.batch, task.d_out)
    for t in range(task.steps):
        assert_close(at_own_step[t, t], run.outputs[t], 1e-13, task.targets)


@given(problems(), arrays((2, 3)), st.floats(-2, 2))
def test_probe_outputs_are_linear_in_the_probe(problem: DrawnProblem, pair: np.ndarray, factor: float) -> None:
    task, *rest = problem
    a, b = pair[:, :task.d_in]
    run = tp.train(NET, with_probes(task, np.array([a, b, a + factor * b])), *rest)
    assert run.probe_outputs is not None
    of_a, of_b, of_sum = np.moveaxis(run.probe_outputs, 1, 0)
    assert_close(of_sum, of_a + factor * of_b, 1e-13, task.targets)


@given(problems(min_steps=2))
def test_a_constant_schedule_is_a_number(problem: DrawnProblem) -> None:
    task, _, scale, depth = problem
    number = tp.train(NET, task, tp.SGD(0.25), scale, depth)
    schedule = tp.train(NET, task, tp.SGD([0.25] * task.steps), scale, depth)
    assert np.array_equal(number.outputs, schedule.outputs)


@pytest.mark.parametrize("method", METHODS)
@given(problem=problems(min_steps=3), data=st.data())
def test_a_step_of_learning_rate_zero_might_as_well_be_left_out(method: str, problem: DrawnProblem, data: st.DataObject
                                                                ) -> None:
    task, opt, scale, depth = problem
    skipped = data.draw(st.integers(0, task.steps - 1))
    rates = opt.schedule(task.steps)
    rates[skipped] = 0.0
    others = [t for t in range(task.steps) if t != skipped]
    full = tp.train(NET, task, tp.SGD(rates), scale, depth, method=method)
    short = tp.train(NET, tp.Task(task.inputs[others], task.targets[others]), tp.SGD(rates[others]), scale, depth,
                     method=method)
    assert_close(full.outputs[others], short.outputs, 1e-12, task.targets)


@given(problems(min_steps=2), st.data())
def test_the_learning_rate_of_a_step_acts_after_it(problem: DrawnProblem, data: st.DataObject) -> None:
    """Changing eta_t leaves f_0 .. f_t as they are, bit for bit."""
    task, opt, scale, depth = problem
    t = data.draw(st.integers(0, task.steps - 1))
    rates = opt.schedule(task.steps)
    changed = rates.copy()
    changed[t] /= 2
    a = tp.train(NET, task, tp.SGD(rates), scale, depth).outputs
    b = tp.train(NET, task, tp.SGD(changed), scale, depth).outputs
    assert np.array_equal(a[:t + 1], b[:t + 1])


@given(problems(), st.floats(0, 1))
def test_update_size_and_learning_rate_are_one_factor(problem: DrawnProblem, gamma: float) -> None:
    """Only lr L^-gamma matters at a given depth."""
    task, opt, scale, depth = problem
    other = tp.DepthScaling(scale.alpha, gamma)
    rates = opt.schedule(task.steps) * scale.update_size(depth) / other.update_size(depth)
    assert_close(tp.train(NET, task, tp.SGD(rates), other, depth).outputs, tp.train(NET, *problem).outputs, 1e-12,
                 task.targets)


@given(problems(), st.sampled_from([2, 3, 12]))
def test_base_depth_moves_constants_between_multiplier_and_learning_rate(problem: DrawnProblem, base: int) -> None:
    """eps = (L / base)^-alpha = base^alpha L^-alpha, g likewise."""
    task, opt, scale, depth = problem
    given_base = tp.DepthScaling(scale.alpha, scale.gamma, base_depth=base)
    branch = tp.DepthScaling(scale.alpha, scale.gamma, branch=base ** float(scale.alpha))
    small = 0.1 / base  # keeps solutions of order one with multipliers above 1
    a = tp.train(NET, task, tp.SGD(small), given_base, depth).outputs
    b = tp.train(NET, task, tp.SGD(small * base ** float(scale.gamma)), branch, depth).outputs
    assert_close(a, b, 1e-11, task.targets)
