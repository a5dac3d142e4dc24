"""The tangent kernel: closed forms at initialization, finite differences of outputs, and gradient flow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from support.nightly import few
from support.closeness import assert_close
from tpcalc import testing

NET, SCALE = tp.ResNet("linear"), tp.DepthScaling(0.5, 0.5)
RNG = np.random.default_rng(3)
TASK = tp.Task(RNG.normal(size=(3, 2, 2)), RNG.normal(size=(3, 2, 1)))


@settings(deadline=None, max_examples=10)
@given(testing.arrays((3, 2)), testing.arrays((3, 1)).filter(lambda y: bool(np.any(np.abs(y) > 1e-3))),
       st.integers(1, 200), st.sampled_from([0.5, 0.75, 1.0]))
def test_at_initialization_it_is_the_product_of_both_kernels(xi: np.ndarray, y: np.ndarray, depth: int, alpha: float
                                                             ) -> None:
    """H_0 = (1 + eps^2)^(l - 1), G_0 = (1 + eps^2)^(L - l): their product is the same in all layers; e in the limit."""
    task, scale = tp.Task(xi[None], y[None]), tp.DepthScaling(alpha, 1 - alpha)
    finite = tp.theory.tangent_kernel(tp.train(NET, task, tp.SGD(), scale, depth))
    assert_close(finite, (1 + depth**(-2 * alpha)) ** (depth - 1) * xi @ xi.T, 1e-12)
    limit = tp.theory.tangent_kernel(tp.train(NET, task, tp.SGD(), scale, tp.oo))
    assert_close(limit, (np.e if alpha == 0.5 else 1.0) * xi @ xi.T, 1e-11)


@settings(deadline=None, max_examples=4)
@given(testing.problems(max_outputs=1, max_depth=6))
def test_readings_agree(problem: testing.DrawnProblem) -> None:
    runs = [tp.train(NET, *problem, method=method) for method in ("reflection", "coefficients")]
    chi = problem.task.loss.derivative(runs[0].outputs, problem.task.targets)
    if np.min(np.max(np.abs(chi), axis=1)) > 1e-3:
        assert_close(*map(tp.theory.tangent_kernel, runs), 1e-9)


def velocity(depth: Any, width: Any, scale: tp.DepthScaling, rate: float, net: tp.ResNet = NET, **options: Any
             ) -> np.ndarray:
    """How fast an update at step 2 moves the outputs of all inputs of TASK, by a central difference in its rate."""
    inputs = TASK.inputs.reshape(-1, 2)
    outputs = []
    for sign in (1, -1):
        longer = tp.Task(*(np.concatenate([a, a[-1:]]) for a in (TASK.inputs, TASK.targets)), probes=inputs)
        run = tp.train(net, longer, tp.SGD((0.3, 0.3, sign * rate, 0.0)), scale, depth, width, **options)
        assert run.probe_outputs is not None
        outputs.append(run.probe_outputs[-1, :, 0])
    return (outputs[0] - outputs[1]) / (2 * rate)


@pytest.mark.parametrize("depth", [3, 70, tp.oo])
def test_it_moves_the_outputs_of_its_step(depth: Any) -> None:
    run = tp.train(NET, TASK, tp.SGD(0.3), SCALE, depth, keep_nodes="all")
    chi = TASK.loss.derivative(run.outputs[2], TASK.targets[2])[:, 0]
    expected = -tp.theory.tangent_kernel(run)[4:, 4:] @ chi / 2
    assert_close(velocity(depth, tp.oo, SCALE, 1e-3)[4:], expected, 1e-5)


@pytest.mark.parametrize("alpha, gamma", [(0.5, 0.5), (1.0, 0.25)])
def test_of_a_real_network(alpha: float, gamma: float) -> None:
    """Exact at every width: averages over coordinates are inner products of its gradients."""
    depth, scale = 4, tp.DepthScaling(alpha, gamma, branch=0.7, base_depth=2)
    run = tp.train(NET, TASK, tp.SGD(0.3), scale, depth, 12, seed=5, keep_nodes="all")
    chi = TASK.loss.derivative(run.outputs[2], TASK.targets[2])[:, 0]
    strength = depth * scale.multiplier(depth) * scale.update_size(depth)
    expected = -strength * tp.theory.tangent_kernel(run)[4:, 4:] @ chi / 2
    # the gradient carries eps once by itself: what g multiplies is delta x^T, not eps delta x^T
    assert_close(velocity(depth, 12, scale, 1e-3, seed=5)[4:], expected, 1e-5)


@pytest.mark.parametrize("net", few([tp.ResNet("tanh", "mlp"), tp.ResNet("erf", "glu", norm="rms"), tp.ResNet("relu")],
                                    tp.ResNet("tanh", "mlp"), tp.ResNet("relu")))
@pytest.mark.parametrize("alpha", [pytest.param(0.5, marks=pytest.mark.slow), 0.75])
def test_of_nonlinear_blocks(net: tp.ResNet, alpha: float) -> None:
    """Gradients differ within a batch. A kink is no smooth function of the rate where probes equal inputs."""
    scale = tp.DepthScaling(alpha, 1 - alpha, branch=0.7)
    run = tp.train(net, TASK, tp.SGD(0.3), scale, tp.oo)
    chi = TASK.loss.derivative(run.outputs[2], TASK.targets[2])[:, 0]
    kernel = tp.theory.tangent_kernel(run)
    assert_close(velocity(tp.oo, tp.oo, scale, 3e-4, net)[4:], -scale.drift_constant * kernel[4:, 4:] @ chi / 2, 3e-5)
    assert_close(kernel, kernel.T, 1e-14)
    assert np.linalg.eigvalsh(kernel).min() > 0


@pytest.mark.slow
def test_of_a_real_nonlinear_network() -> None:
    """At initialization: how fast the output of 0.8 moves as 1 is learned. Width 2048, depths extrapolated like 1/L, in
    standard errors of independent seeds."""
    net, task, rate = tp.ResNet("tanh", "mlp"), tp.Task([1.0, 0.8], [1.0, 0.5]), 0.01
    kernel = tp.theory.tangent_kernel(tp.train(net, task, tp.SGD(0.0), SCALE, tp.oo))[0, 1]

    def real(depth: int, seed: int) -> float:
        up, down = (tp.train(net, task, tp.SGD(sign * rate), SCALE, depth, 2048, seed=seed).outputs.ravel()
                    for sign in (1, -1))
        return float((down - up)[1] / (2 * rate * (up[0] - 1.0)))
    found = np.array([2 * real(32, k) - real(16, k + 100) for k in range(16)])
    assert abs(np.mean(found) - kernel) < 3.5 * np.std(found, ddof=1) / 4
    assert np.std(found, ddof=1) / 4 < 0.04 * kernel


def test_in_depth_it_converges_like_one_over_l() -> None:
    limit = tp.theory.tangent_kernel(tp.train(NET, TASK, tp.SGD(0.3), SCALE, tp.oo))
    distance = [np.abs(tp.theory.tangent_kernel(tp.train(NET, TASK, tp.SGD(0.3), SCALE, 2**k)) - limit).max()
                for k in range(4, 9)]
    assert np.all(np.abs(np.log2(np.array(distance[:-1]) / distance[1:]) - 1) < 0.1)


def test_symmetric_and_positive() -> None:
    kernel = tp.theory.tangent_kernel(tp.train(NET, TASK, tp.SGD(0.3), SCALE, tp.oo))
    assert_close(kernel, kernel.T, 1e-14)
    assert np.linalg.eigvalsh(kernel).min() > -1e-12


def test_gradients_are_read_off_inputs_that_have_one() -> None:
    """An input that is fitted already (y = f_0 = 0) takes its gradient from the other."""
    task = tp.Task(TASK.inputs[:1], [[[0.0], [1.0]]])
    assert_close(tp.theory.tangent_kernel(tp.train(NET, task, tp.SGD(), SCALE, 8)), 1.125**7 * TASK.inputs[0]
                 @ TASK.inputs[0].T, 1e-13)


def test_what_it_refuses() -> None:
    def run(task: tp.Task, *depth: Any, **options: Any) -> tp.Run:
        return tp.train(NET, task, tp.SGD(), SCALE, *depth, **options)

    with pytest.raises(ValueError, match="2 outputs"):
        tp.theory.tangent_kernel(run(tp.Task(TASK.inputs, np.ones((3, 2, 2))), 4))
    with pytest.raises(ValueError, match="step 0 vanishes"):
        tp.theory.tangent_kernel(run(tp.Task([1.0], [0.0]), 4))
    with pytest.raises(ValueError, match="1 of 5 nodes kept"):
        tp.theory.tangent_kernel(run(TASK, 4, 8, keep_nodes=[0.5]))
    for options in (dict(width=16, keep_nodes="all"), dict(samples=64, batches=2)):
        sampled = tp.train(tp.ResNet("erf"), tp.Task([1.0], [1.0]), tp.SGD(), SCALE, 2, **options)
        with pytest.raises(ValueError, match="the tangent kernel is found of linear blocks"):
            tp.theory.tangent_kernel(sampled)
    few, deep = tp.methods.Particles(samples=64, batches=2), tp.methods.CommonDraws(1.0, samples=64, coarsest=2)
    for net, depth, method in ((NET, 4, few), (tp.ResNet("tanh"), tp.oo, deep)):
        sampled = tp.train(net, tp.Task([1.0, 0.5], [1.0, 1.0]), tp.SGD(), SCALE, depth, method=method)
        with pytest.raises(ValueError, match=f"got one by method='{method.name}'.* expected the exact methods"):
            tp.theory.tangent_kernel(sampled)
    fitted = tp.train(tp.ResNet("erf"), tp.Task([[[1.0], [0.5]]], [[[1.0], [0.0]]]), tp.SGD(), SCALE, tp.oo)
    with pytest.raises(ValueError, match="step 0, input 1 vanishes"):
        tp.theory.tangent_kernel(fitted)
