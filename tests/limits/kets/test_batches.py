"""Several samples a step, and several numbers a sample: equations of passes, solved as they stand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp
from support.nightly import few_of

import tpcalc as tp
from tpcalc.calculus.kets import Ket

# two steps of two samples, two numbers each
XI = np.array([[[1.0, -0.4], [-0.6, 0.5]], [[0.8, 0.3], [-0.5, 0.7]]])
Y = np.array([[[1.0, -0.5], [-0.7, 0.4]], [[0.5, 0.2], [0.3, -0.6]]])
TANH, HALF = tp.ResNet("tanh"), tp.DepthScaling()
TRAINED = tp.ResNet("tanh", train_embedding_readout=True)
EVEN = tp.ResNet(-sp.cos(sp.Symbol("h", real=True)))


def limit_of(net: tp.ResNet, opt: tp.SGD, scale: tp.DepthScaling = HALF, **sizes: Any) -> tp.theory.KetLimitRegion:
    region, = tp.depth_limit(tp.kets(tp.program(net, opt, scale, **sizes))).regions
    return region


CASES = [
    (TANH, tp.SGD(), HALF, {"batch": True}), (TANH, tp.SGD(), HALF, {"d_in": 2}), (TANH, tp.SGD(), HALF, {"d_out": 2}),
    (TRAINED, tp.SGD(0.5, momentum=0.5), HALF, {"batch": True, "d_in": 2, "d_out": 2}),
    (EVEN, tp.SGD(weight_decay=0.25), tp.DepthScaling(0.75, 0.25), {"batch": True}),
    (tp.ResNet("tanh", "mlp"), tp.SGD(0.5, weight_decay=0.25), HALF, {"batch": True}),
    (tp.ResNet("relu"), tp.SGD(0.5), HALF, {"batch": True, "d_out": 2}),
    (tp.ResNet("silu", "glu"), tp.SGD(0.25), HALF, {"batch": True})]


@pytest.mark.parametrize("net, opt, scale, sizes", few_of(CASES, *CASES[:4]), ids=str)
def test_equal_to_training(net: tp.ResNet, opt: tp.SGD, scale: tp.DepthScaling, sizes: dict[str, Any]) -> None:
    """The solver behind ``depth=tp.oo`` shares no step with these."""
    rows, inputs, outputs = (slice(None) if sizes.get(name) else slice(1) for name in ("batch", "d_in", "d_out"))
    xi, y = XI[:, rows, inputs], Y[:, rows, outputs]
    kept = [axis for axis, name in ((1, "batch"), (2, "d_in")) if not sizes.get(name)]
    beside = [axis for axis, name in ((1, "batch"), (2, "d_out")) if not sizes.get(name)]
    found = limit_of(net, opt, scale, **sizes).compile()(np.squeeze(xi, tuple(kept)), np.squeeze(y, tuple(beside)))
    run = tp.train(net, tp.Task(xi, y), opt, scale, depth=tp.oo)
    assert found.outputs.shape == np.squeeze(y, tuple(beside)).shape
    difference = np.max(np.abs(found.outputs.ravel() - run.outputs.ravel()))
    assert difference <= found.error_estimate < 2e-4
    assert np.max(np.abs(run.outputs[1])) > 0.05


@pytest.mark.nightly
def test_with_updates_inside_the_activation() -> None:
    scale = tp.DepthScaling(1, 0)
    found = limit_of(TANH, tp.SGD(), scale, batch=True).compile()(XI[..., 0], Y[..., 0])
    run = tp.train(TANH, tp.Task(XI[..., :1], Y[..., :1]), tp.SGD(), scale, depth=tp.oo)
    assert run.error_estimate is not None
    assert np.max(np.abs(found.outputs[1] - run.outputs[1, :, 0])) <= found.error_estimate + run.error_estimate < 0.01


def plain_network(depth: int, width: int, seed: int) -> np.ndarray:
    """A tanh network trained by two steps of a batch of two, in NumPy alone; outputs (steps, samples, outputs)."""
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((2, 2, width))
    W = rng.standard_normal((depth, width, width)) / np.sqrt(width)
    found = []
    for inputs, targets in zip(XI, Y):
        xs, hs = [inputs @ U], []
        for layer in W:
            hs.append(xs[-1] @ layer.T)
            z = np.tanh(hs[-1])
            xs.append(xs[-1] + (z - z.mean(axis=1, keepdims=True)) / np.sqrt(depth))
        found.append(xs[-1] @ V.T / width)
        gradient = (found[-1] - targets) @ V
        for l in reversed(range(depth)):
            inner = (gradient - gradient.mean(axis=1, keepdims=True)) / np.cosh(hs[l])**2
            gradient = gradient + inner @ W[l] / np.sqrt(depth)
            W[l] -= inner.T @ xs[l] / (width * 2 * np.sqrt(depth))
    return np.array(found)


@pytest.mark.nightly
def test_plain_networks_come_close() -> None:
    """Means of networks of depths 16 and 32, extrapolated: within four standard errors, of which most are 0.005."""
    found = limit_of(TANH, tp.SGD(), batch=True, d_in=2, d_out=2).compile()(XI, Y)
    shallow, deep = (np.array([plain_network(depth, 192, seed) for seed in range(48)])[:, 1] for depth in (16, 32))
    several = 2 * deep - shallow
    mean, error = several.mean(axis=0), several.std(axis=0, ddof=1) / np.sqrt(len(several))
    assert np.all(error < 0.02)
    assert np.max(np.abs(mean - found.outputs[1]) / error) < 4
    flipped = limit_of(TANH, tp.SGD(-1), batch=True, d_in=2, d_out=2).compile()(XI, Y)
    assert np.max(np.abs(mean - flipped.outputs[1]) / error) > 20


def test_equations_name_both_samples() -> None:
    """A sample takes, of its own step, something of itself alone."""
    lines = [str(e) for e in limit_of(TANH, tp.SGD(), batch=True).equations]
    assert any(line.startswith("d|x[t, i, p]> = sqrt(dp)*phi(u[t,i]) + dp*Sum(A[t,i;s,i'](p)*|dx[s, i', p]>, "
                               "(i', 0, B - 1), (s, 0, t - 1))") for line in lines)
    assert any("dp*(B[t,i;t,i](p)*|x[t, i, p]> + Sum(B[t,i;s,i'](p)" in line for line in lines)
    assert r"G^{x,\delta x}_{t,i;s,i'}" in limit_of(TANH, tp.SGD(), batch=True).latex()


def test_one_sample_is_the_same_as_none() -> None:
    alone = limit_of(TANH, tp.SGD()).compile()(XI[:, 0, 0], Y[:, 0, 0]).outputs
    batch = limit_of(TANH, tp.SGD(), batch=True).compile()(XI[:, :1, 0], Y[:, :1, 0]).outputs
    assert batch[:, 0] == pytest.approx(alone, abs=1e-13)


def test_losses_of_several_outputs_together() -> None:
    """The derivative of log sum exp f - y . f, which couples outputs."""
    def loss(f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.exp(f) / np.exp(f).sum() - y
    xi, y = np.array([1.0, 0.8, 0.6]), np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = limit_of(tp.ResNet(), tp.SGD(0.5), d_out=2).compile(loss=loss)(xi, y)
    task = tp.Task(xi, y[:, None], loss="softmax")
    run = tp.train(tp.ResNet(), task, tp.SGD(0.5), HALF, depth=tp.oo)
    assert np.max(np.abs(found.outputs - run.outputs[:, 0])) <= found.error_estimate < 1e-4
    alone = limit_of(tp.ResNet(), tp.SGD(0.5), d_out=2).compile(loss=lambda f, y: 1 / (1 + np.exp(-f)) - y)(xi, y)
    assert np.max(np.abs(found.outputs - alone.outputs)) > 0.02


def test_shapes() -> None:
    compiled = limit_of(TANH, tp.SGD(), batch=True, d_in=2).compile()
    with pytest.raises(ValueError, match=r"xi: got shape \(2, 2\) and targets of shape \(2, 2\); expected 2 steps, "
                       "2 samples, 2 coordinates"):
        compiled(XI[..., 0], Y[..., 0])
    with pytest.raises(ValueError, match="targets: got shape"):
        compiled(XI, Y)


def test_samples_that_know_each_other_are_refused() -> None:
    kets = tp.kets(tp.program(TANH, tp.SGD(), HALF, batch=True))
    i = next(index for index, role in kets.setting.program.index_roles().items() if role == "sample")

    def mixed(equation: Any) -> Any:
        if not isinstance(equation.target, Ket) or equation.target.vector.name != "z":
            return equation
        return replace(equation, value=equation.value.xreplace({i: i + 1}))
    with pytest.raises(tp.NotCovered, match="of another sample"):
        tp.depth_limit(replace(kets, equations=tuple(map(mixed, kets.equations))))
