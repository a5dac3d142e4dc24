"""Losses: derivatives are derivatives, and every reading trains with them."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, strategies as st

import tpcalc as tp
from tpcalc.data.losses import NAMED


@pytest.mark.parametrize("name", NAMED)
@given(seed=st.integers(0, 2**32 - 1))
def test_derivatives_are_those_of_the_values(name: str, seed: int) -> None:
    """Central differences at h = 1e-5: an error of 1e-10 times third derivatives, and round-off of 1e-11."""
    rng, loss, h = np.random.default_rng(seed), NAMED[name], 1e-5
    f, y = rng.normal(size=(3, 4)), rng.choice([-1.0, 1.0], size=(3, 4))
    if name == "softmax":
        y = rng.dirichlet(np.ones(4), size=3)
    for k in range(4):
        step = h * np.eye(4)[k]
        slope = (loss.value(f + step, y) - loss.value(f - step, y)) / (2 * h)
        np.testing.assert_allclose(loss.derivative(f, y)[:, k], slope, atol=1e-8)


@pytest.mark.parametrize("name", NAMED)
def test_expressions_are_the_values(name: str) -> None:
    rng, loss = np.random.default_rng(5), NAMED[name]
    f, y = rng.normal(size=(1, 3)), np.array([[0.0, 0.75, 0.25]]) if name == "softmax" else np.array([[1.0, -1, 1]])
    outputs, targets = sp.symbols("f:3"), sp.symbols("y:3")
    numbers = dict(zip((*outputs, *targets), (*f[0], *y[0])))
    found = float(loss.expression(outputs, targets).subs(numbers))  # type: ignore[attr-defined]
    assert abs(found - loss.value(f, y)[0]) < 1e-14


@pytest.mark.parametrize("name", NAMED)
def test_values_of_many_samples_are_those_of_each(name: str) -> None:
    """Of shape (steps, batch, d_out), outputs are summed over, steps and samples are not."""
    rng, loss = np.random.default_rng(6), NAMED[name]
    f, y = rng.normal(size=(2, 3, 4)), rng.choice([-1.0, 1.0], size=(2, 3, 4))
    if name == "softmax":
        y = rng.dirichlet(np.ones(4), size=(2, 3))
    assert np.array_equal(loss.value(f, y), [loss.value(*step) for step in zip(f, y)])


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_large_outputs_do_not_overflow(name: str) -> None:
    f, y = np.array([[800.0, -800.0]]), np.array([[1.0, 0.0]]) if name == "softmax" else np.array([[1.0, 1.0]])
    assert np.all(np.isfinite(NAMED[name].value(f, y))) and np.all(np.isfinite(NAMED[name].derivative(f, y)))


@pytest.mark.parametrize("name", ["logistic", "softmax"])
def test_readings_agree_with_other_losses(name: str) -> None:
    """The effective indexing needs nothing of the loss but its derivative."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 2, size=(4, 5))
    y = np.eye(2)[labels] if name == "softmax" else 2.0 * np.eye(2)[labels] - 1.0
    task = tp.Task(rng.normal(size=(4, 5, 3)), y, loss=name)
    runs = [tp.train(tp.ResNet(), task, tp.SGD(0.5), tp.DepthScaling(), 6, method=method)
            for method in ("reflection", "coefficients")]
    assert np.abs(runs[0].outputs - runs[1].outputs).max() < 1e-12
    assert runs[0].losses[-1] < runs[0].losses[0]
    limit = tp.train(tp.ResNet(), task, tp.SGD(0.5), tp.DepthScaling(), tp.oo)
    near = tp.train(tp.ResNet(), task, tp.SGD(0.5), tp.DepthScaling(), 2**10)
    assert np.abs(limit.outputs - near.outputs).max() < 0.01
