"""Gradient flow: closed forms, an independent solver of the noiseless limit, the tangent kernel, error estimates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from scipy.integrate import solve_ivp
from scipy.special import exprel

import tpcalc as tp
from support.closeness import assert_close
from tpcalc import testing

NET, SCALE = tp.ResNet("linear"), tp.DepthScaling(0.5, 0.5)
ONE = tp.Task([1.0], [1.0])
SMALL = tp.Task([[[1e-6, 0.0], [-5e-7, 1e-6]]], [[[1.0], [0.3]]])  # 1 - exp(..) would have no digit of f


@settings(deadline=None, max_examples=25)
@example(SMALL, 1.0, 0.7, 2)
@given(testing.tasks(max_steps=1, max_probes=2), st.floats(0.1, 3), st.floats(0.3, 1), st.integers(1, 3))
def test_one_layer_is_linear_regression(task: tp.Task, time: float, branch: float, points: int) -> None:
    """With one block between frozen ends f is linear in its matrix: f = (1 - exp(-branch K t / B)) y, K = xi xi^T.

    It is written without a difference, xi g(xi^T xi branch t / B) xi^T y branch t / B with g(a) = (1 - exp(-a)) / a, so
    that it is known to as many digits as f is, however small f is.
    """
    scale = tp.DepthScaling(0.5, 0.5, branch=branch)
    found = tp.studies.gradient_flow(NET, task, time, scale, 1, points)
    xi, y = task.inputs[0], task.targets[0]
    sizes, axes = np.linalg.eigh(xi.T @ xi)
    for t, f in zip(found.times, found.outputs):
        rate = t * branch / task.batch
        expected = rate * xi @ (axes * exprel(-rate * sizes)) @ axes.T @ (xi.T @ y)
        assert np.max(np.abs(f - expected)) <= found.error_estimate <= 1e-7
    if task.probes is not None and found.probe_outputs is not None:
        assert found.probe_outputs.shape == (points + 1, len(task.probes), task.d_out)
        move = np.linalg.pinv(xi) @ found.outputs[-1]
        assert_close(found.probe_outputs[-1], task.probes @ move, 1e-6, 1.0)
    assert_close(found.losses, [np.mean(np.sum((f - y) ** 2, axis=1)) / 2 for f in found.outputs], 1e-14, 1.0)


def noiseless(time: float, y: float, nodes: int = 12) -> float:
    """f of one input at (alpha, gamma) = (1, 0), infinite depth, where W_p stays in the span of U and nV.

    dx/dp = W x, -ddelta/dp = W^T delta, dW/dt = -chi delta x^T for 2 x 2 matrices W at Chebyshev points p.
    """
    p = (1 - np.cos(np.pi * np.arange(nodes) / (nodes - 1))) / 2
    powers = np.vander(p, increasing=True)
    integral = np.stack([p**(k + 1) / (k + 1) for k in range(nodes)], axis=1) @ np.linalg.inv(powers)
    from_end = integral[-1] - integral

    def signals(W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        eye = np.eye(2 * nodes)
        forward = np.einsum("pq,qij->piqj", integral, W).reshape(2 * nodes, -1)
        backward = np.einsum("pq,qji->piqj", from_end, W).reshape(2 * nodes, -1)
        return tuple(np.linalg.solve(eye - m, np.tile(v, nodes)).reshape(nodes, 2)  # type: ignore[return-value]
                     for m, v in ((forward, (1.0, 0.0)), (backward, (0.0, 1.0))))

    def move(_: float, flat: np.ndarray) -> np.ndarray:
        x, g = signals(flat.reshape(nodes, 2, 2))
        return (-(x[-1, 1] - y) * g[:, :, None] * x[:, None, :]).ravel()

    end = solve_ivp(move, (0, time), np.zeros(4 * nodes), rtol=1e-11, atol=1e-12, method="DOP853").y[:, -1]
    return float(signals(end.reshape(nodes, 2, 2))[0][-1, 1])


@pytest.mark.parametrize("y", [0.5, 2.0])
def test_the_noiseless_limit_solved_otherwise(y: float) -> None:
    found = tp.studies.gradient_flow(NET, tp.Task([1.0], [y]), 0.8, tp.DepthScaling(1, 0), tp.oo)
    assert abs(found.outputs[-1, 0, 0] - noiseless(0.8, y)) <= found.error_estimate < 1e-7


@pytest.mark.parametrize("depth", [5, tp.oo])
def test_it_starts_and_goes_on_with_the_tangent_kernel(depth: Any) -> None:
    """df/dt = -K chi: e y at the start in the limit; later K from a training of the same small steps."""
    start = tp.studies.gradient_flow(NET, ONE, 1e-3, SCALE, depth, 2).outputs[:, 0, 0]
    kernel = np.e if depth is tp.oo else 1.2**4
    assert abs((4 * start[1] - start[2]) / 1e-3 / kernel - 1) < 1e-5  # second order at t = 0
    points, time = 8, 0.2
    flow = tp.studies.gradient_flow(NET, ONE, time, SCALE, depth, points, 1e-6).outputs[:, 0, 0]
    slope = (flow[2] - 8 * flow[3] + 8 * flow[5] - flow[6]) / 12
    speeds = []
    for steps in (12, 24):
        task = tp.Task(np.ones(steps + 1), np.ones(steps + 1))
        run = tp.train(NET, task, tp.SGD(time / points * 4 / steps), SCALE, depth, keep_nodes="all")
        speeds.append(tp.theory.tangent_kernel(run)[-1, -1] * (1 - run.outputs[-1, 0, 0]))
    speed = 2 * speeds[1] - speeds[0]
    assert abs(slope / (time / points) / speed - 1) < 1e-3


def test_small_steps_approach_it_at_first_order_and_each_column_gains_one() -> None:
    exact = tp.studies.gradient_flow(NET, ONE, 0.5, SCALE, 6, tolerance=1e-12).outputs[-1, 0, 0]
    descents = [tp.train(NET, tp.Task(np.ones(n + 1), np.ones(n + 1)), tp.SGD(0.5 / n), SCALE, 6).outputs[-1, 0, 0]
                for n in (8, 16, 32, 64)]
    column = np.array(descents)
    for order in (1, 2, 3):
        errors = np.abs(column - exact)
        assert np.all(np.abs(np.log2(errors[:-1] / errors[1:]) - order) < 0.25)
        column = column[1:] + (column[1:] - column[:-1]) / (2**order - 1)


def test_in_depth_it_converges_like_one_over_l() -> None:
    limit = tp.studies.gradient_flow(NET, ONE, 0.5, SCALE, tp.oo).outputs[-1, 0, 0]
    distance = [abs(tp.studies.gradient_flow(NET, ONE, 0.5, SCALE, 2**k).outputs[-1, 0, 0] - limit)
                for k in range(4, 8)]
    assert np.all(np.abs(np.log2(np.array(distance[:-1]) / distance[1:]) - 1) < 0.1)


@settings(deadline=None, max_examples=15)
@given(testing.tasks(max_steps=1), st.floats(0.2, 2), st.integers(2, 6))
def test_the_error_estimate_covers_the_error(task: tp.Task, time: float, depth: int) -> None:
    rough, fine = (tp.studies.gradient_flow(NET, task, time, SCALE, depth, 1, tolerance)
                   for tolerance in (1e-4, 1e-9))
    assert np.max(np.abs(rough.outputs - fine.outputs)) <= rough.error_estimate + fine.error_estimate
    assert len(rough.errors) == len(rough.steps) - 1 <= len(fine.errors)


def test_steps_that_are_too_large_are_left_out() -> None:
    """Four steps of learning rate 10 leave all bounds; more and smaller ones end where the target is fitted."""
    with pytest.raises(tp.Divergence):
        tp.train(NET, tp.Task(np.ones(5), np.ones(5)), tp.SGD(10.0), SCALE, 4)
    found = tp.studies.gradient_flow(NET, ONE, 40.0, SCALE, 4, tolerance=1e-3)
    assert found.steps[0] > 4 and abs(found.outputs[-1, 0, 0] - 1) <= found.error_estimate + 1e-6
    assert found.error_estimate < 0.1
    with pytest.raises(tp.Divergence):
        tp.studies.gradient_flow(NET, ONE, 40.0, SCALE, 4, most_steps=8)


def test_repeated_batches_are_one_batch() -> None:
    once, thrice = (tp.studies.gradient_flow(NET, tp.Task([1.0] * n, [0.5] * n), 0.3, SCALE, 4).outputs for n in (1, 3))
    assert np.array_equal(once, thrice)


@pytest.mark.parametrize("options, message", [
    (dict(task=tp.Task([1.0, 2.0], [1.0, 1.0])), "batches differ"), (dict(task=None), "tp.Task"),
    (dict(time=0.0), "time: got 0.0"), (dict(time=-1), "time: got -1"), (dict(tolerance=0), "tolerance: got 0"),
    (dict(points=0), "points: got 0"), (dict(points=4, most_steps=31), "at least 32"), (dict(depth=0), "depth: got 0"),
])
def test_bad_input_is_named(options: dict[str, Any], message: str) -> None:
    good = dict(net=NET, task=ONE, time=1.0, scale=SCALE, depth=4)
    with pytest.raises(ValueError, match=message):
        tp.studies.gradient_flow(**{**good, **options})


def test_a_limit_that_is_not_there() -> None:
    with pytest.raises(tp.Divergence, match="a limit needs"):
        tp.studies.gradient_flow(NET, ONE, 1.0, tp.DepthScaling(0.5, 0.25), tp.oo)
