"""Laws of fluctuations, for any linear-memory optimizer, batch, number of outputs, loss, ends and depth."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from support.given import ANYTHING, meant

TASK = tp.Task((1, 0.8), (1, -0.7), probes=[[0.5]])
ROUND_OFF = 1e-10


@st.composite
def problems(draw: Any) -> tuple[tp.ResNet, tp.Task, tp.SGD, tp.DepthScaling, Any]:
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    steps, batch, d_out = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    loss = draw(st.sampled_from(["mse", "logistic", "softmax"]))
    d_out = max(d_out, 2) if loss == "softmax" else d_out
    shape = steps, batch, d_out
    y = {"mse": rng.normal(size=shape), "logistic": rng.choice([-1.0, 1.0], shape),
         "softmax": rng.dirichlet(np.ones(d_out), shape[:2])}[loss]
    inputs = rng.normal(size=(steps, batch, 2)) / 2
    momentum = draw(st.sampled_from([0.0, 0.5]))
    opt = tp.SGD(draw(st.sampled_from([0.0, 0.1, 0.5])), momentum=momentum,
                 nesterov=momentum > 0 and draw(st.booleans()),
                 weight_decay=draw(st.sampled_from([0.0, 0.3])), decoupled=draw(st.booleans()))
    alpha = draw(st.sampled_from([0.5, 0.75, 1.0]))
    task = tp.Task(inputs, y, loss, probes=inputs[0, :1])
    return (tp.ResNet(train_embedding_readout=draw(st.booleans())), task, opt, tp.DepthScaling(alpha, 1 - alpha),
            draw(st.sampled_from([1, 2, 5, tp.oo])))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(problems())
def test_covariances_are_covariances_and_the_past_does_not_know_the_future(problem: tuple) -> None:
    """Symmetric, positive, with the limit and the variances as cumulants; no bias before the first update; and of fewer
    steps the same."""
    net, task, opt, scale, depth = problem
    run = tp.train(net, task, opt, scale, depth)
    found, size = run.fluctuations, run.outputs.size
    whole = found.covariance.reshape(size, size)
    scale_of = np.max(np.abs(whole))
    assert np.max(np.abs(whole - whole.T)) <= ROUND_OFF * scale_of
    assert np.min(np.linalg.eigvalsh((whole + whole.T) / 2)) >= -ROUND_OFF * scale_of
    assert np.max(np.abs(found.cumulant(2).ravel() - np.diagonal(whole))) <= ROUND_OFF * scale_of
    assert np.max(np.abs(found.cumulant(1) - run.outputs)) <= ROUND_OFF * max(1.0, np.max(np.abs(run.outputs)))
    assert np.max(np.abs(found.bias[0])) <= ROUND_OFF * scale_of
    # the first probe is the first input of step 0
    probe = found.probe_covariance[0, 0, :, 0, 0, :]
    assert np.max(np.abs(probe - found.covariance[0, 0, :, 0, 0, :])) <= ROUND_OFF * scale_of
    if task.steps > 1:
        shorter = tp.Task(task.inputs[:-1], task.targets[:-1], task.loss)
        before = tp.train(net, shorter, opt, scale, depth).fluctuations
        assert np.max(np.abs(before.covariance - found.covariance[:-1, :, :, :-1])) <= ROUND_OFF * scale_of
        assert np.max(np.abs(before.bias - found.bias[:-1])) <= ROUND_OFF * scale_of


@settings(max_examples=10, deadline=None, derandomize=True)
@given(problems())
def test_an_input_given_twice_is_one_input(problem: tuple) -> None:
    """A batch of copies learns as one of them, and copies fluctuate together."""
    net, task, opt, scale, depth = problem
    one = tp.Task(task.inputs[:, :1], task.targets[:, :1], task.loss)
    two = tp.Task(np.repeat(one.inputs, 2, axis=1), np.repeat(one.targets, 2, axis=1), task.loss)
    single, double = (tp.train(net, given, opt, scale, depth).fluctuations for given in (one, two))
    size = np.max(np.abs(single.covariance))
    for i in range(2):
        for j in range(2):
            copies = double.covariance[:, i:i + 1, :, :, j:j + 1]
            assert np.max(np.abs(copies - single.covariance)) <= ROUND_OFF * size
        assert np.max(np.abs(double.bias[:, i:i + 1] - single.bias)) <= ROUND_OFF * size


@cache
def trained() -> tp.Run:
    """Once a process, and not where tests are collected, which every process does."""
    return tp.train(tp.ResNet(), TASK, tp.SGD(0.3), tp.DepthScaling(), 2)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(ANYTHING)
def test_a_width_is_a_whole_number_or_refused(n: Any) -> None:
    number = meant(n)
    try:
        found = trained().at_width(n)
    except ValueError as refusal:
        assert "n: " in str(refusal) and "expected a whole number of at least 1" in str(refusal)
        assert number is None or not (isinstance(n, int) and 1 <= n <= 2**53)
        return
    assert number is not None and number >= 1 and number == int(number)
    assert np.all(np.isfinite(found.mean)) and np.all(np.isfinite(found.std))


@pytest.mark.parametrize("probes", [False, True])
def test_rates_of_zero_learn_nothing(probes: bool) -> None:
    """f_t is V . x^L / n at all steps: one Gaussian law with a bias of nothing."""
    run = tp.train(tp.ResNet(), TASK, tp.SGD(0.0), tp.DepthScaling(), 3)
    at = run.at_width(100, probes=probes)
    grown = (1 + 1 / 3) ** 3
    inputs = np.full(2, 0.5) if probes else np.array([1, 0.8])
    assert np.max(np.abs(at.mean)) < 1e-15
    assert np.max(np.abs(at.std.ravel() - np.abs(inputs) * (grown / 100) ** 0.5)) < 1e-14
