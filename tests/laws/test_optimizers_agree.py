"""Every linear-memory optimizer: reflection = coefficients, and the infinite depth is their limit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc.testing import optimizers

NET = tp.ResNet()


@settings(max_examples=40, deadline=None)
@given(opt=optimizers(linear=True), steps=st.integers(2, 5), batch=st.integers(1, 3), outputs=st.integers(1, 2),
       depth=st.integers(1, 16), seed=st.integers(0, 2**32 - 1))
def test_reflection_is_coefficients(opt: tp.SGD, steps: int, batch: int, outputs: int, depth: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    task = tp.Task(rng.uniform(-1, 1, (steps, batch, 2)), rng.uniform(-1, 1, (steps, batch, outputs)))
    runs = [tp.train(NET, task, opt, tp.DepthScaling(0.5, 0.5), depth, method=method)
            for method in ("reflection", "coefficients")]
    assert np.abs(runs[0].outputs - runs[1].outputs).max() < 1e-11 * max(1.0, np.abs(runs[1].outputs).max())


OPTIMIZERS = [tp.SGD(0.4, momentum=0.8), tp.SGD(0.3, momentum=0.6, nesterov=True), tp.SGD(0.5, weight_decay=0.3),
              tp.SGD(0.5, weight_decay=0.3, decoupled=True, momentum=0.5, dampening=0.5)]


@pytest.mark.parametrize("opt", OPTIMIZERS, ids=str)
def test_the_limit_is_reached_at_first_order(opt: tp.SGD) -> None:
    task = tp.Task([1, 0.8, -0.6, 1.1], [1, -0.7, 0.5, 1.2])
    found = tp.convergence(NET, task, opt, tp.DepthScaling(0.5, 0.5), [2**k for k in range(6, 13)])
    assert found.limit_order is not None and abs(found.limit_order.order - 1) < 0.05


@pytest.mark.parametrize("opt", OPTIMIZERS, ids=str)
def test_real_networks_train_the_same_way(opt: tp.SGD) -> None:
    """Means over seeds within standard errors; the 1/n bias is below them at this width."""
    rng = np.random.default_rng(5)
    task = tp.Task(rng.uniform(-1, 1, (4, 2, 2)), rng.uniform(-1, 1, (4, 2, 1)))
    scale, depth = tp.DepthScaling(0.5, 0.5), 6
    exact = tp.train(NET, task, opt, scale, depth).outputs
    sampled = np.array([tp.train(NET, task, opt, scale, depth, width=512, seed=seed).outputs for seed in range(12)])
    z = (sampled.mean(axis=0) - exact) / (sampled.std(axis=0, ddof=1) / np.sqrt(len(sampled)))
    assert np.sqrt(np.mean(z[1:] ** 2)) < 2 and np.abs(z).max() < 5
