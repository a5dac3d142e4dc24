"""The error estimate of the limit against 30 digits: never below the true error, above 1e-12 at most 100 times it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

import tpcalc as tp
from support.limit_reference import finite_outputs, limit_outputs
from tpcalc.programs import SGD, Task
from tpcalc.solvers.collocation import solve_limit

TOLERANCES = (1e-3, 1e-6, 1e-9, 1e-12)
FIRST = Task((1, .8, -.6, 1.1), (1, -.7, .5, 1.2))


def assert_honest(task: Task, opt: SGD, train_ends: bool, expected: np.ndarray, uncertainty: float) -> None:
    for tolerance in TOLERANCES:
        limit = solve_limit(task, opt, 1.0, 1.0, "plain", tolerance, train_ends=train_ends)
        error = float(np.max(np.abs(limit.trace.outputs.ravel() - expected)))
        assert error <= limit.error + uncertainty
        assert limit.error <= max(1e-12, 100 * error)
        assert limit.error <= 2 * tolerance * max(1.0, np.max(np.abs(expected)))


@pytest.mark.parametrize("opt, train_ends", [(SGD(1.0), False), (SGD(0.3, momentum=0.5), True)], ids=str)
def test_the_estimate_is_honest(opt: SGD, train_ends: bool) -> None:
    expected, uncertainty = limit_outputs(FIRST, opt, train_ends, unit=6, levels=18)
    assert uncertainty < 1e-15
    assert_honest(FIRST, opt, train_ends, expected, uncertainty)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.integers(2, 4), rate=st.sampled_from([0.3, 1.0, 1.5, 2.0]), momentum=st.sampled_from([0.0, 0.5]),
       decay=st.sampled_from([0.0, 0.2]), train_ends=st.booleans(), seed=st.integers(0, 2**32 - 1))
def test_the_estimate_is_honest_on_random_tasks(steps: int, rate: float, momentum: float, decay: float,
                                                train_ends: bool, seed: int) -> None:
    data = np.random.default_rng(seed).uniform(-1.2, 1.2, (2, steps))
    task, opt = Task(*data), SGD(rate / 2 if train_ends else rate, momentum, weight_decay=decay)
    expected, uncertainty = limit_outputs(task, opt, train_ends, unit=12, levels=22)
    assume(uncertainty < 1e-16)  # finite depths blow up where the first ones are too small for the learning rate
    assert_honest(task, opt, train_ends, expected, uncertainty)


@pytest.mark.parametrize("train_ends", [False, True])
def test_the_reference_is_the_recursion(train_ends: bool) -> None:
    """In 70 digits, but otherwise what ``train`` finds at a finite depth."""
    opt = SGD(0.4, momentum=0.5, weight_decay=0.3)
    exact = np.array(finite_outputs(FIRST, opt, 7, train_ends), dtype=float)
    run = tp.train(tp.ResNet(train_ends=train_ends), FIRST, opt, tp.DepthScaling(), 7)
    np.testing.assert_allclose(run.outputs.ravel(), exact, rtol=0, atol=1e-14)
