"""Extensions of Depthwise Hyperparameter Transfer, appendices K to M: against real networks, or an exact solution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters import run_dense
from tpcalc.interpreters.lowered_particles import particles
from tpcalc.programs.blocks import preactivated
from tpcalc.programs.from_zero import from_zero

X, Y = [1.0, 0.8, -0.6], [1.0, -0.7, 0.5]
TASK = tp.Task(X, Y)
LAYERS, WIDTH = 3, 384


def agree(net: tp.ResNet, seeds: int = 6, **options: Any) -> np.ndarray:
    """Outputs at infinite width, which real networks have on average, n^-1/2 apart; returns them."""
    scaling = tp.theory.DepthwiseScaling(options.pop("alpha", 0.5), mu0=0.8, eta0=1.5)
    raw = tp.theory.raw_problem(scaling, net, TASK, LAYERS, **options)
    wide = tp.train(raw.problem, method=tp.methods.Particles(samples=2048, batches=4))
    finite = tp.theory.raw_problem(scaling, net, TASK, LAYERS, WIDTH, **options)
    found = np.array([tp.train(finite.problem, method=tp.methods.Conditioned(seed=seed)).outputs.ravel()
                      for seed in range(seeds)])
    error = found.std(axis=0, ddof=1) / math.sqrt(seeds) + wide.error_estimate + 4.0 / WIDTH
    assert np.all(np.abs(found.mean(axis=0) - wide.outputs.ravel()) < 4 * error)
    return wide.outputs.ravel()


@pytest.mark.parametrize("net, options", [
    (tp.ResNet("tanh", preactivated(2)), {}), (tp.ResNet("tanh", "pre_nonlin", train_embedding_readout=True), {}),
    (tp.ResNet("tanh", "pre_nonlin"), {"momentum": 0.5, "weight_decay": 0.3}),
    (tp.ResNet("tanh", "pre_nonlin"), {"alpha": 0.75})])
def test_extensions_agree_with_real_networks(net: tp.ResNet, options: dict[str, Any]) -> None:
    plain = tp.train(tp.theory.raw_problem(tp.theory.DepthwiseScaling(mu0=0.8, eta0=1.5),
                                           tp.ResNet("tanh", "pre_nonlin"), TASK, LAYERS).problem,
                     method=tp.methods.Particles(samples=2048, batches=4))
    assert np.max(np.abs(agree(net, **options) - plain.outputs.ravel())) > 0.02  # the extension is seen


@pytest.mark.parametrize("matrices", [1, *(pytest.param(k, marks=pytest.mark.slow) for k in (2, 3))])
def test_every_matrix_of_a_block_learns(matrices: int) -> None:
    """K.2: one step moves the output of a linear network by K e, not by e: inner matrices are not static."""
    task = tp.Task([1.0, 1.0], [1.0, 0.0])
    run = tp.train(tp.ResNet("linear", preactivated(matrices)), task, tp.SGD(1.0), tp.DepthScaling(), tp.oo)
    assert run.outputs[1, 0, 0] == pytest.approx(matrices * math.e, abs=1e-7)


def zero_start(seed: int = 0, n: int = 64) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    draws = {name: rng.normal(size=(LAYERS, n, n)) / math.sqrt(n) for name in ("W1", "W2")}
    return {"U": rng.normal(size=n), "nV": rng.normal(size=n), **draws}


@pytest.mark.parametrize("opt", [tp.SGD(0.7), tp.SGD(0.5, momentum=0.4)])
@pytest.mark.parametrize("alpha", [0.5, 1])
def test_read_outs_of_branches_start_at_zero(opt: tp.SGD, alpha: float) -> None:
    """M: exactly the network whose last matrices are zeros; and its limit of infinite width."""
    net, scale = tp.ResNet("tanh", preactivated(2)), tp.DepthScaling(alpha, 1 - alpha)
    program = from_zero(tp.program(net, opt, scale), "W2")
    sizes, data = {"T": 3, "L": LAYERS}, {"xi": X, "y": Y}
    weights = zero_start()
    real = tp.train(net, TASK, opt, scale, LAYERS, 64, method=tp.methods.Dense(
        weights={**weights, "W2": np.zeros_like(weights["W2"])}))
    ours = run_dense(program, sizes, data, 64, weights=weights).series("f")
    np.testing.assert_allclose(ours, real.outputs.ravel(), rtol=0, atol=1e-12)
    if alpha == 0.5 and opt.momentum == 0:
        limit = particles(program, sizes, data, 2048).series("f")
        found = []
        for seed in range(8):
            start = zero_start(seed, 256)
            found.append(tp.train(net, TASK, opt, scale, LAYERS, 256, method=tp.methods.Dense(
                weights={**start, "W2": np.zeros_like(start["W2"])})).outputs.ravel())
        error = np.std(found, axis=0, ddof=1) / math.sqrt(8) + 0.01
        assert np.all(np.abs(np.mean(found, axis=0) - limit) < 4 * error) and abs(limit[1]) > 0.1


def test_all_matrices_may_start_at_zero() -> None:
    net, opt, scale = tp.ResNet("tanh", preactivated(1)), tp.SGD(0.7), tp.DepthScaling(1, 0)
    weights = {**zero_start(), "W1": np.zeros((LAYERS, 64, 64))}
    del weights["W2"]
    real = tp.train(net, TASK, opt, scale, LAYERS, 64, method=tp.methods.Dense(weights=weights)).outputs.ravel()
    drawn = {**weights, "W1": np.random.default_rng(1).normal(size=(LAYERS, 64, 64)) / 8}
    ours = run_dense(from_zero(tp.program(net, opt, scale), "W1"), {"T": 3, "L": LAYERS}, {"xi": X, "y": Y}, 64,
                     weights=drawn).series("f")
    np.testing.assert_allclose(ours, real, rtol=0, atol=1e-12)
    assert abs(real[1] - real[0]) > 1e-3


def test_what_cannot_start_at_zero_is_refused() -> None:
    decaying = tp.program(tp.ResNet("tanh", "mlp"), tp.SGD(1.0, weight_decay=0.1), tp.DepthScaling())
    with pytest.raises(ValueError, match="expected matrices to which updates are added"):
        from_zero(decaying, "W2")
    with pytest.raises(ValueError, match="expected one or more of 'W1', 'W2'"):
        from_zero(decaying, "W3")
    from_zero(tp.program(tp.ResNet("tanh", "mlp"), tp.Adam(0.1), tp.DepthScaling()), "W2")


def by_hand(weights: dict[str, np.ndarray], inputs: np.ndarray, targets: np.ndarray, rate: float, steps: int
            ) -> np.ndarray:
    """Outputs of V^T tanh(x^L) / n, blocks W tanh(x), all trained by gradient descent on the mean of (f - y)^2 / 2."""
    U, V, W = weights["U"], weights["nV"], weights["W"].copy()
    n, eps, found = len(V), LAYERS ** -0.5, []
    for _ in range(steps):
        x = [np.outer(inputs, U)]
        for matrix in W:
            x.append(x[-1] + eps * np.tanh(x[-1]) @ matrix.T)
        found.append(np.tanh(x[-1]) @ V / n)
        chi = (found[-1] - targets) / len(targets)
        back = np.outer(chi, V) * (1 - np.tanh(x[-1]) ** 2)
        V = V - rate * chi @ np.tanh(x[-1])
        for number in reversed(range(LAYERS)):
            update = back.T @ np.tanh(x[number]) / n
            back = back + eps * (back @ W[number]) * (1 - np.tanh(x[number]) ** 2)
            W[number] -= rate * eps * update
        U = U - rate * inputs @ back
    return np.array(found)


def test_a_read_out_acts_on_an_activation() -> None:
    """(1), trained ends as well: exactly the network that anyone would write."""
    net, n, steps = tp.ResNet("tanh", "pre_nonlin", train_embedding_readout=True, readout="tanh"), 48, 4
    program = tp.program(net, tp.SGD(0.7), tp.DepthScaling(), batch=True)
    inputs, targets = np.array(X), np.array(Y)
    weights = {"U": zero_start(1, n)["U"], "nV": zero_start(1, n)["nV"], "W": zero_start(1, n)["W1"]}
    data = {"xi": np.broadcast_to(inputs, (steps, 3)), "y": np.broadcast_to(targets, (steps, 3))}
    found = run_dense(program, {"T": steps, "L": LAYERS, "B": 3}, data, n, weights=weights).series("f")
    np.testing.assert_allclose(found, by_hand(weights, inputs, targets, 0.7, steps), rtol=0, atol=1e-13)
    task = tp.Task(data["xi"][..., None], data["y"][..., None])
    run = tp.train(net, task, tp.SGD(0.7), tp.DepthScaling(), LAYERS, n, method=tp.methods.Dense(weights=weights))
    np.testing.assert_allclose(run.outputs[..., 0], found, rtol=0, atol=1e-13)


@pytest.mark.parametrize("phi", ["relu", "tanh"])
def test_the_first_step_is_the_tangent_kernel_of_that_read_out(phi: str) -> None:
    """A small step moves outputs by the rate times K (y - f) / B, where K is ``tp.kernel_fn``'s."""
    inputs, y, rate = np.array([[1.0, 0.0], [0.5, 0.8], [-0.6, 0.7]]), np.array([1.0, -0.7, 0.5]), 1e-3
    net, depth = tp.ResNet(phi, "pre_nonlin", readout=phi), 4
    kernel = tp.kernel_fn(net, depth=depth)(inputs, get="ntk")
    np.testing.assert_array_equal(
        tp.kernel_fn(tp.ResNet(phi, "pre_nonlin"), depth=depth, readout=phi)(inputs, get="ntk"), kernel)
    program = tp.program(net, tp.SGD(rate), tp.DepthScaling(), batch=True, d_in=2)
    data = {"xi": np.broadcast_to(inputs, (2, 3, 2)), "y": np.broadcast_to(y, (2, 3))}
    runs = particles(program, {"T": 2, "L": depth, "B": 3}, data, 2048, batches=8).batches
    before, after = np.array([run.series("f") for run in runs]).swapaxes(0, 1)
    found, size = (after - before) / rate - (y - before) @ kernel / 3, np.max(np.abs(kernel @ y / 3))
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(runs))
    assert np.all(error < 0.03 * size) and np.all(np.abs(found.mean(axis=0)) < 4 * error + 3e-3 * size)


@pytest.mark.parametrize("skip", [None, tp.HyperConnections()], ids=str)
def test_a_step_goes_down_the_gradient_through_the_read_out(skip: Any) -> None:
    """Several outputs and streams: a small step takes off the loss its rate times the squared gradient, which is found
    by differences; embedding and readout are moved by n times theirs."""
    inputs, targets, n, rate, move = np.array([[0.7, -0.4]]), np.array([[1.0, 0.0, 0.0]]), 5, 1e-5, 1e-5
    net = tp.ResNet("tanh", "mlp", skip=skip, readout="tanh", norm="rms", norm_position="output",
                    train_embedding_readout=True)

    def losses(steps: int, weights: dict[str, np.ndarray] | None = None) -> tuple[np.ndarray, Any]:
        task = tp.Task(np.array([inputs] * steps), np.array([targets] * steps), loss="softmax")
        run = tp.train(net, task, tp.SGD(rate), tp.DepthScaling(), 2, n, method=tp.methods.Dense(weights=weights))
        return run.losses, run

    (before, after), run = losses(2)
    weights, total = run.initial_weights(), 0.0
    for name, value in weights.items():
        for at in np.ndindex(value.shape):
            up, down = ({**weights, name: value + sign * move * (np.indices(value.shape).T == at).all(-1).T}
                        for sign in (1, -1))
            slope = (losses(1, up)[0][0] - losses(1, down)[0][0]) / (2 * move)
            total += slope**2 * (1 if name.startswith("W") else n)
    assert (before - after) / rate == pytest.approx(total, rel=1e-3) and total > 0.01


def test_what_knows_streams_alone_refuses_other_read_outs() -> None:
    """By name; what reads the program takes them."""
    task, four = tp.Task([1.0, 0.5], [1.0, -0.5]), (2, 4, 8, 16)
    for net in (tp.ResNet(readout="tanh"), tp.ResNet("tanh", "mlp", readout="relu")):
        for depth, width, taken in ((tp.oo, tp.oo, {"common_draws"}), (4, tp.oo, {"particles"}),
                                    (4, 16, {"dense", "conditioned"})):
            rows = tp.methods.table(tp.Problem(net, task, tp.SGD(), tp.DepthScaling(), depth, width)).rows
            assert {row.name for row in rows if row.refusal is None} == taken
        for asked in (lambda: tp.train(net, task, tp.SGD(), tp.DepthScaling(), tp.oo, method="collocation"),
                      lambda: tp.theory.gradient_correlation(net),
                      lambda: tp.studies.cauchy_differences(net, task, tp.SGD(), tp.DepthScaling(), four)):
            with pytest.raises(tp.NotCovered, match="readout"):
                asked()
    with pytest.raises(ValueError, match="readout: got 'nothing'"):
        tp.ResNet(readout="nothing")
    with pytest.raises(tp.NotCovered, match="readout: got 1/h"):
        tp.train(tp.ResNet(readout=1 / sp.Symbol("h")), task, tp.SGD(), tp.DepthScaling(), 4)


def test_gradient_flow_is_the_limit_of_small_steps_in_the_sources_units() -> None:
    """(88): eta0 t is the time; and 60 steps of eta0 / 60 are there but for 1 / 60."""
    scaling, one = tp.theory.DepthwiseScaling(mu0=0.7, eta0=0.5), tp.Task([1.0], [0.9])
    raw = tp.theory.raw_problem(scaling, tp.ResNet(), one, tp.oo)
    flow = tp.studies.gradient_flow(raw.problem.net, raw.problem.task, 0.5, raw.problem.scale, tp.oo)
    slow, often = tp.theory.DepthwiseScaling(mu0=0.7, eta0=0.5 / 60), tp.Task([1.0] * 61, [0.9] * 61)
    small = tp.theory.raw_problem(slow, tp.ResNet(), often, 64)
    found = small.output_scale * tp.train(small.problem).outputs[-1, 0, 0]
    assert raw.output_scale * flow.outputs[-1, 0, 0] == pytest.approx(found, abs=0.02)
