"""The lazy limit against equations of angles, neural-tangents, trained networks, real ones, and itself."""

from __future__ import annotations

import json
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import tpcalc as tp
from tpcalc.propagators.laws.initial_overlaps import InitialLayers, Overlaps, by_steps
from tpcalc.programs.blocks import Branch
from tpcalc.programs.language import MatVec
from tpcalc.proofs.depthwise_transfer.networks._real_kernels import real_kernels

REFERENCE = Path(__file__).parent.parent / "references" / "neural_tangents_kernels.json"
PRE = tp.ResNet("relu", "pre_nonlin")
INPUTS = np.array([[1.0, 0.0], [0.5, 0.8], [-0.6, 0.7], [1.1, -0.4]])
BLOCKS = [tp.ResNet(phi, block, norm=norm) for phi in ("relu", "tanh",
                                                       "erf") for block in ("post_nonlin", "mlp", "glu", "pre_nonlin")
          for norm in (None, "rms")]
KNOWN = {  # relu, inputs of length 1 at angles 0, pi/4 ... pi, by the equation of the angle below, in more digits
    "linear": (0.8243606353500641, 0.5933081571998446, 0.2628197552859547, 0.0707333900388729, 0.0256049239291168),
    "relu": (0.4121803176750320, 0.2255758618529652, 0.0716372464815689, 0.0131889703071777, 0.0038216816466534)}


def relu_slope(angle: float) -> float:
    return (math.pi - angle) / (2 * math.pi)


def relu_mean(angle: float) -> float:
    return (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / (2 * math.pi)


@pytest.mark.parametrize("readout", KNOWN)
def test_relu_against_an_equation_of_the_angle(readout: str) -> None:
    """Variances are e^(t / 2), and (cos angle)' = <relu relu'> / variance - cos(angle) / 2."""
    angles = np.pi / 4 * np.arange(5)
    x = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    x[-1] = -x[0]
    found = tp.kernel_fn(PRE, readout=readout)(x[:1], x, get="ntk")[0]
    np.testing.assert_allclose(found, KNOWN[readout], atol=1e-13, rtol=0)

    def rates(t: float, state: np.ndarray) -> list[float]:
        angle, tangent = state
        return [(math.cos(angle) / 2 - relu_mean(angle)) / math.sin(angle),
                relu_slope(angle) * tangent + math.exp(t / 2) * relu_mean(angle)]

    for location in (1, 2, 3):
        angle, tangent = solve_ivp(rates, (0, 1), [angles[location], 0.0], "DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
        assert found[location] == pytest.approx(tangent * (1.0 if readout == "linear" else relu_slope(angle)),
                                                rel=1e-10)


def test_tanh_against_plain_quadrature() -> None:
    points = np.linspace(-9, 9, 121)
    weights = np.exp(-points**2 / 2) / np.sum(np.exp(-points**2 / 2))
    weight = np.outer(weights, weights)

    def rates(_: float, state: np.ndarray) -> list[float]:
        p, own, c, pair = state
        u, r = np.sqrt(p) * points, c / p
        v, w = np.sqrt(p) * points[:, None], np.sqrt(p) * (r * points[:, None] + np.sqrt(1 - r * r) * points)
        mean, slope = np.sum(np.tanh(v) * np.tanh(w) * weight), np.sum((np.cosh(v) * np.cosh(w))**-2.0 * weight)
        square = np.tanh(u)**2 @ weights
        return [square, np.cosh(u)**-4.0 @ weights * own + square, mean, slope * pair + mean]

    end = solve_ivp(rates, (0, 1), [1.0, 0.0, math.sqrt(0.5), 0.0], "DOP853", rtol=1e-12, atol=1e-14).y[:, -1]
    found = tp.kernel_fn(tp.ResNet("tanh", "pre_nonlin"))([[1.0, 0.0]], [[1.0, 0.0], [math.sqrt(0.5), math.sqrt(0.5)]])
    np.testing.assert_allclose([*found.nngp[0], *found.ntk[0]], end[[0, 2, 1, 3]], rtol=1e-11)


def test_finite_depth_is_that_of_neural_tangents() -> None:
    """1e-12 off the diagonal; on it their slope of a kinked function has the rounding of a correlation below 1."""
    known = json.loads(REFERENCE.read_text(encoding="utf-8"))
    x, off = np.array(known.pop("inputs")), ~np.eye(5, dtype=bool)
    for phi, depths in known.items():
        for depth, kernels in depths.items():
            found = tp.kernel_fn(tp.ResNet(phi, "pre_nonlin"), int(depth))(x)
            for name, kernel in kernels.items():
                difference = np.abs(getattr(found, name) - kernel)
                assert np.max(difference[off]) < 1e-12 and np.max(difference) < 3e-8, (phi, depth, name)


@pytest.mark.parametrize("net", [tp.ResNet("tanh"), *(pytest.param(net, marks=pytest.mark.nightly) for net in (
    tp.ResNet("erf", "mlp"), tp.ResNet("erf", "glu"), tp.ResNet("tanh", "mlp", norm="rms")))], ids=repr)
def test_infinite_depth_is_where_training_starts(net: tp.ResNet) -> None:
    """The solver of trained networks has its own sweep, forward and backward."""
    task = tp.Task(INPUTS[None], np.ones((1, 4, 1)))
    run = tp.train(net, task, tp.SGD(1.0), tp.DepthScaling(), depth=tp.oo)
    found = tp.kernel_fn(net)(INPUTS)
    np.testing.assert_allclose(found.ntk, tp.theory.tangent_kernel(run), rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(found.nngp, run.forward_covariance[-1], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("depth", [6, tp.oo])
@pytest.mark.parametrize("branch", [1.0, -0.7])
@pytest.mark.parametrize("train_embedding_readout", [False, True])
def test_a_linear_network_moves_by_its_tangent_kernel(depth: Any, branch: float, train_embedding_readout: bool) -> None:
    """A step so small that its square is rounding: f_1 at the probes."""
    rate, scale = 1e-7, tp.DepthScaling(branch=branch)
    task = tp.Task(INPUTS[[0, 0]][:, None], [1.0, 0.0], probes=INPUTS)
    net = tp.ResNet(train_embedding_readout=train_embedding_readout)
    run = tp.train(net, task, tp.SGD(rate), scale, depth)
    found = tp.kernel_fn(net, depth, scale)(INPUTS, INPUTS[:1], get="ntk")
    np.testing.assert_allclose(run.probe_outputs[1] / rate, found, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("norm", [None, "rms"])
def test_real_networks(norm: str | None) -> None:
    """Of width 384 and depth 4, mean of 32, with the whole backward pass through the norm."""
    rng = np.random.default_rng(2)
    found = np.array([real_kernels(np.tanh, lambda h: np.cosh(h)**-2.0, INPUTS, 4, 384, rng, norm is not None)
                      for _ in range(32)])
    mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / math.sqrt(len(found))
    expected = np.array(tp.kernel_fn(tp.ResNet("tanh", "pre_nonlin", norm=norm), 4)(INPUTS))
    scores = np.abs(mean - expected) / error
    assert np.max(scores) < 4.5 and np.sqrt(np.mean(scores**2)) < 1.8


@pytest.mark.parametrize("net", BLOCKS, ids=repr)
def test_collocation_is_what_small_steps_find(net: tp.ResNet) -> None:
    layers = InitialLayers(net, None, tp.DepthScaling())
    first, second = np.triu_indices(len(INPUTS), 1)
    own, pair = np.sum(INPUTS**2, axis=1), np.sum(INPUTS[first] * INPUTS[second], axis=1)
    start = Overlaps(own, own / 2, pair, pair / 3)
    steps = by_steps(start, layers._rates_of(first, second), 1e-12, [1e-14] * len(start), repr(net))
    for one, other in zip(layers.carry(start, first, second), steps):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("branch", [0.5, 3.0, 7.0])
def test_large_branches_against_exponentials(branch: float) -> None:
    """A linear network: C = e^(branch^2) <xi|xi'>, where Picard's iteration would take more than it is given."""
    found, gram = tp.kernel_fn(tp.ResNet(), scale=tp.DepthScaling(branch=branch))(INPUTS), INPUTS @ INPUTS.T
    np.testing.assert_allclose(found.nngp, math.exp(branch**2) * gram, rtol=1e-10)
    np.testing.assert_allclose(found.ntk, branch * math.exp(branch**2) * gram, rtol=1e-10)


@pytest.mark.parametrize("net", [tp.ResNet("relu", "pre_nonlin"), tp.ResNet("erf", "mlp")], ids=repr)
def test_layers_come_to_layer_time_like_one_over_depth(net: tp.ResNet) -> None:
    limit, depths = np.array(tp.kernel_fn(net)(INPUTS)), np.array([32, 64, 128])
    gaps = [np.max(np.abs(np.array(tp.kernel_fn(net, int(depth))(INPUTS)) - limit)) for depth in depths]
    assert np.polyfit(np.log(depths), np.log(gaps), 1)[0] == pytest.approx(-1, abs=0.05)


@given(seed=st.integers(0, 2**16), net=st.sampled_from(BLOCKS), depth=st.sampled_from([1, 3, tp.oo]))
def test_kernels_do_not_depend_on_how_they_are_asked_for(seed: int, net: tp.ResNet, depth: Any) -> None:
    """Rows in another order, repeated, opposite, zero; one at a time; symmetric and with no negative eigenvalue."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (3, 2))
    x = np.concatenate([x, x[:1], -x[:1], np.zeros((1 - (net.norm is not None), 2))])
    kernel_fn = tp.kernel_fn(net, depth)
    found, order = kernel_fn(x), rng.permutation(len(x))
    for name in found._fields:
        kernel = getattr(found, name)
        np.testing.assert_array_equal(kernel, kernel.T)
        np.testing.assert_array_equal(kernel[0], kernel[3])
        size = np.max(np.abs(kernel))
        assert np.linalg.eigvalsh(kernel)[0] > -1e-10 * size
        np.testing.assert_allclose(kernel_fn(x[order], x[:2], get=name), kernel[order][:, :2], atol=1e-11 * size)


def test_what_get_asks_for() -> None:
    kernel_fn = tp.kernel_fn(PRE)
    both = kernel_fn(INPUTS)
    assert both._fields == ("nngp", "ntk") and kernel_fn(INPUTS, get=("ntk", "nngp"))._fields == ("ntk", "nngp")
    assert isinstance(kernel_fn(INPUTS, get="ntk"), np.ndarray) and kernel_fn(INPUTS, get=("ntk",))._fields == ("ntk",)
    assert kernel_fn(INPUTS[:3], INPUTS, get="nngp").shape == (3, 4)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(kernel_fn))(INPUTS).ntk, both.ntk)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(both)).ntk, both.ntk)


@pytest.mark.parametrize("identity", ["Linear", sp.Symbol("u")])
def test_the_identity_is_a_read_out_of_the_stream_however_it_is_written(identity: Any) -> None:
    net = tp.ResNet("tanh")
    np.testing.assert_array_equal(tp.kernel_fn(net, 3, readout=identity)(INPUTS, get="ntk"),
                                  tp.kernel_fn(net, 3)(INPUTS, get="ntk"))


def test_other_scalings() -> None:
    """Between 1/2 and 1 the layers' noise is gone and updates see the inputs themselves; beyond, nothing moves."""
    kernels = tp.kernel_fn(PRE, scale=tp.DepthScaling(0.75, 0.25))(INPUTS)
    np.testing.assert_allclose(kernels.nngp, INPUTS @ INPUTS.T, rtol=1e-12)
    np.testing.assert_allclose(kernels.ntk, tp.kernel_fn(PRE, 1, tp.DepthScaling(0, 0))(INPUTS).ntk, rtol=1e-12)
    assert not np.any(tp.kernel_fn(PRE, scale=tp.DepthScaling(0.75, 0.5))(INPUTS).ntk)
    for alpha, gamma in ((0.25, 1), (0.5, 0.25)):
        with pytest.raises(tp.Divergence, match="grow like"):
            tp.kernel_fn(PRE, scale=tp.DepthScaling(alpha, gamma))


def test_predictions() -> None:
    kernel_fn, x, y = tp.kernel_fn(PRE), INPUTS[:3], np.array([[1.0, 0.5], [-0.7, 0.2], [0.3, 0.1]])
    kernel, across = kernel_fn(x, get="ntk"), kernel_fn(INPUTS, x, get="ntk")
    np.testing.assert_allclose(kernel_fn.predict(x, y, x), y, atol=1e-10)
    np.testing.assert_allclose(kernel_fn.predict(x, y, INPUTS, ridge=0.1),
                               across @ np.linalg.solve(kernel + 0.1 * np.eye(3), y), atol=1e-12)
    flowed = across @ np.linalg.solve(kernel, (np.eye(3) - expm(-2.0 * kernel / 3)) @ y)
    np.testing.assert_allclose(kernel_fn.predict(x, y, INPUTS, time=2.0), flowed, atol=1e-12)
    np.testing.assert_allclose(kernel_fn.predict(x, y[:, 0], INPUTS, get="nngp"), kernel_fn(
        INPUTS, x, get="nngp") @ np.linalg.solve(kernel_fn(x, get="nngp"), y[:, 0]), atol=1e-10)
    twice = kernel_fn.predict(np.concatenate([x, x[:1]]), [1.0, -0.7, 0.3, 0.0], x)
    np.testing.assert_allclose(twice, [0.5, -0.7, 0.3], atol=1e-9)


def test_prediction_is_gradient_flow_of_a_network_that_is_asked_for_little() -> None:
    """Targets of 1e-4 leave features as they are, up to their square."""
    task = tp.Task(INPUTS[None, :2], 1e-4 * np.array([[[1.0], [-0.7]]]), probes=INPUTS[2:])
    flow = tp.studies.gradient_flow(tp.ResNet(), task, 1.5, tp.DepthScaling(), depth=16, tolerance=1e-11)
    found = tp.kernel_fn(tp.ResNet(), 16).predict(INPUTS[:2], [1.0, -0.7], INPUTS[2:], time=1.5)
    assert flow.probe_outputs is not None
    np.testing.assert_allclose(flow.probe_outputs[-1, :, 0] / 1e-4, found, atol=1e-5)


def bent_twice(branch: Branch) -> sp.Expr:
    """phi(W phi(x)), less its mean: neither the stream nor what is added is Gaussian."""
    inside = branch.let("a", branch.phi(branch.x))
    return branch.let("z", branch.phi(branch.let("h", MatVec(branch.weights(), inside))))


def mixed(branch: Branch) -> sp.Expr:
    """W (n + phi(n)) x: the stream beside itself, rescaled."""
    unit = branch.let("unit", branch.x * tp.programs.language.Mean(branch.x**2)**sp.Rational(-1, 2))
    return MatVec(branch.weights(), branch.let("z", branch.phi(unit) + branch.x))


def test_refusals() -> None:
    with pytest.raises(ValueError, match="Gaussian stream"):
        tp.kernel_fn(tp.ResNet("tanh", block=bent_twice), 4)
    assert tp.kernel_fn(tp.ResNet("tanh", block=bent_twice))(INPUTS).ntk.shape == (4, 4)
    with pytest.raises(ValueError, match="rescaled"):
        tp.kernel_fn(tp.ResNet("tanh", block=mixed))
    with pytest.raises(ValueError, match="readout"):
        tp.kernel_fn(tp.ResNet("tanh"), 4, readout="relu")
    with pytest.raises(tp.Divergence, match=r"blow up at layer time 0\.(5|49999)"):
        tp.kernel_fn(tp.ResNet("relu", "glu"))(2 * np.eye(2))
    with pytest.raises(tp.Divergence, match="leave what floats hold") as blown:
        tp.kernel_fn(tp.ResNet("relu", "glu"), 200)(30 * np.eye(2))
    assert blown.value.layer is not None and 1 < blown.value.layer < 200
    kernel_fn = tp.kernel_fn(PRE)
    for arguments, words in (((INPUTS[0],), "x1.*shape"), ((INPUTS, np.ones((2, 3))), "x2: got 3"),
                             ((INPUTS, None, "both"), "get: got 'both'"), ((INPUTS, None, ["ntk"]), "get"),
                             ((INPUTS, None, ("ntk", "ntk")), "get"), (([[np.nan, 1.0]],), "x1")):
        with pytest.raises(ValueError, match=words):
            kernel_fn(*arguments)
