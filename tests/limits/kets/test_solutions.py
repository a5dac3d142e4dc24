"""The equations solved as they stand, against the solver of the action and against sampled networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from support.nightly import few_of

import tpcalc as tp
from tpcalc.limits.kets.nodes import Push

h = sp.Symbol("h", real=True)
XI, Y = [1.0, 0.8, -0.6], [1.0, -0.7, 0.5]
HALF = tp.DepthScaling()
EVEN = tp.ResNet(-sp.cos(h))


def limit_of(net: tp.ResNet, opt: tp.SGD, scale: tp.DepthScaling = HALF) -> tp.theory.KetLimitRegion:
    region, = tp.depth_limit(tp.kets(tp.program(net, opt, scale))).regions
    return region


def compare(net: tp.ResNet, opt: tp.SGD, scale: tp.DepthScaling = HALF) -> None:
    found = limit_of(net, opt, scale).compile()(XI, Y)
    run = tp.train(net, tp.Task(XI, Y), opt, scale, depth=tp.oo)
    difference = np.max(np.abs(found.outputs - run.outputs.ravel()))
    assert difference <= found.error_estimate < 2e-4


NETWORKS = [
    (tp.ResNet("tanh"), tp.SGD(momentum=0.5, weight_decay=0.25), HALF), (EVEN, tp.SGD(), tp.DepthScaling(0.75, 0.25)),
    (tp.ResNet("tanh", train_embedding_readout=True), tp.SGD(0.5, momentum=0.5, weight_decay=0.2), HALF),
    (tp.ResNet(), tp.SGD(0.5), HALF), (tp.ResNet("abs"), tp.SGD(0.5), HALF),
    (tp.ResNet("tanh", "mlp", train_embedding_readout=True), tp.SGD(0.5), tp.DepthScaling(0.5, 1))]


@pytest.mark.parametrize("net, opt, scale", few_of(NETWORKS, *NETWORKS[1:3]), ids=str)
def test_equal_to_training(net: tp.ResNet, opt: tp.SGD, scale: tp.DepthScaling) -> None:
    compare(net, opt, scale)


@pytest.mark.slow
@pytest.mark.parametrize("net, opt", [
    (tp.ResNet("silu", "glu"), tp.SGD(0.25)), (tp.ResNet("relu"), tp.SGD()), (tp.ResNet("gelu", "mlp"), tp.SGD(0.5)),
    (tp.ResNet("tanh", "mlp", matrices=3), tp.SGD()), (tp.ResNet("tanh", "mlp", norm="rms"), tp.SGD(0.5)),
    (tp.ResNet("relu", "mlp", norm="rms", norm_position="output"), tp.SGD(0.25, weight_decay=0.2)),
    (tp.ResNet("tanh", "mlp", mlp_ratio=2), tp.SGD()), (tp.ResNet("erf"), tp.SGD(0.5, momentum=0.9, nesterov=True))],
    ids=str)
def test_other_blocks_are_equal_to_training(net: tp.ResNet, opt: tp.SGD) -> None:
    compare(net, opt)


def test_with_updates_inside_the_activation() -> None:
    """alpha = 1, gamma = 0, against common draws of networks of several depths: .3150(3), -.1214(3)."""
    found = limit_of(tp.ResNet("tanh"), tp.SGD(), tp.DepthScaling(1, 0)).compile()(XI, Y)
    assert np.abs(found.outputs[1:] - [0.3150, -0.1214]).max() <= found.error_estimate + 6e-4
    assert found.error_estimate < 6e-3


@pytest.mark.slow
@pytest.mark.parametrize("net, opt", [
    (tp.ResNet("tanh", "mlp"), tp.SGD(0.5)), (tp.ResNet("tanh"), tp.SGD(momentum=0.5)),
    (EVEN, tp.SGD(weight_decay=0.25)), (tp.ResNet("silu", "glu"), tp.SGD(0.25)),
    (tp.ResNet("tanh", "mlp", train_embedding_readout=True), tp.SGD(0.5))], ids=str)
def test_other_networks_with_updates_inside(net: tp.ResNet, opt: tp.SGD) -> None:
    scale = tp.DepthScaling(1, 0)
    found = limit_of(net, opt, scale).compile()(XI, Y)
    run = tp.train(net, tp.Task(XI, Y), opt, scale, depth=tp.oo)
    assert run.error_estimate is not None
    difference = np.max(np.abs(found.outputs - run.outputs.ravel()))
    assert difference <= found.error_estimate + 2 * run.error_estimate


def test_trained_readouts_answer_where_blocks_add_up_to_nothing() -> None:
    """At gamma = 1 what blocks learn vanishes; what they drew reaches back through the trained vectors."""
    net = tp.ResNet("tanh", train_embedding_readout=True)
    region = limit_of(net, tp.SGD(0.5), tp.DepthScaling(0.5, 1))
    assert not region.is_trivial
    by_target = {str(e.target): str(e.value) for e in region.equations}
    assert by_target["G_U_dx[t + 1,s](q)"] == "G_U_dx[t,s](q) - G_dx_dx[t,s](0,q)*xi[t]/2"
    assert by_target["G_U_dx[0,s](q)"] == "0" and by_target["A[t,s](p)"] == "r[t,s](p)*E[phi'(u[s])*phi'(u[t])]"
    frozen = limit_of(tp.ResNet("tanh"), tp.SGD(0.5), tp.DepthScaling(0.5, 1))
    assert frozen.is_trivial and not any(e.value.has(Push) for e in frozen.equations)


def test_rates_that_are_data() -> None:
    found = limit_of(tp.ResNet("tanh"), tp.SGD([1.0, 0.5, 0.25])).compile()
    with pytest.raises(ValueError, match=r"data: got \[\]; expected \['eta'\]"):
        found(XI, Y)
    run = tp.train(tp.ResNet("tanh"), tp.Task(XI, Y), tp.SGD([1.0, 0.5, 0.25]), HALF, depth=tp.oo)
    assert found(XI, Y, eta=[1.0, 0.5, 0.25]).outputs == pytest.approx(run.outputs.ravel(), abs=1e-5)


def test_other_losses() -> None:
    """The derivative of log(1 + exp(-y f))."""
    found = limit_of(tp.ResNet("tanh"), tp.SGD()).compile(loss=lambda f, y: -y / (1 + np.exp(y * f)))(XI, [1, -1, 1])
    run = tp.train(tp.ResNet("tanh"), tp.Task(XI, [1, -1, 1], loss="logistic"), tp.SGD(), HALF, depth=tp.oo)
    assert found.outputs == pytest.approx(run.outputs.ravel(), abs=1e-5)


def test_what_the_paper_leaves_out_matters() -> None:
    """An even activation at alpha = 3/4: with E[phi'(u_t)] E[phi'(u_s)] for E[phi'(u_t) phi'(u_s)] nothing is learned;
    simulated networks have .308 after the first step."""
    found = limit_of(EVEN, tp.SGD(), tp.DepthScaling(0.75, 0.25)).compile()([1.0, 0.8], [1.0, -0.7])
    assert found.outputs[1] == pytest.approx(0.308, abs=1e-3)
    without_second_derivatives = limit_of(EVEN, tp.SGD(), tp.DepthScaling(0.75, 0.25))
    assert any("phi''" in str(e.value) for e in without_second_derivatives.equations)


def test_large_gradients_are_no_blow_up() -> None:
    """Means of what layers draw have numbers at variances of gradients of 10^4, too."""
    net, targets = tp.ResNet("tanh", "mlp"), 100 * np.array(Y)
    found = limit_of(net, tp.SGD(1e-4)).compile()(XI, targets)
    run = tp.train(net, tp.Task(XI, targets), tp.SGD(1e-4), HALF, depth=tp.oo)
    assert np.max(np.abs(found.outputs - run.outputs.ravel())) <= found.error_estimate + 1e-8 < 1e-5


def test_a_blow_up_says_where() -> None:
    with pytest.raises(tp.Divergence, match="blow up at step 1, layer time"):
        limit_of(tp.ResNet(h - h**3 / 6), tp.SGD(6.0)).compile()(XI[:2], Y[:2])


def test_shapes() -> None:
    compiled = limit_of(tp.ResNet("tanh"), tp.SGD()).compile()
    with pytest.raises(ValueError, match=r"xi: got shape \(3,\) and targets of shape \(2,\)"):
        compiled(XI, [1.0, 2.0])


def of(block: Any) -> tp.ResNet:
    return tp.ResNet("tanh", block)


def product(branch: tp.Branch, name: str, of_what: Any) -> Any:
    return branch.let(f"h{name}", tp.theory.MatVec(branch.weights(name), of_what))


def two_branches(b: tp.Branch) -> Any:
    return b.let("z1", sp.tanh(product(b, "A", b.x))) + b.let("z2", sp.tanh(product(b, "B", b.x)))


def gate(b: tp.Branch) -> Any:
    return b.let("z", sp.tanh(product(b, "A", b.x))) * product(b, "B", b.x)


def minus_half(b: tp.Branch) -> Any:
    first = product(b, "A", b.x)
    return b.let("z", sp.tanh(first)) - first / 2


def with_a_named_number(b: tp.Branch) -> Any:
    first = product(b, "A", b.x)
    return product(b, "O", b.let("z", b.let_scalar("q", tp.theory.Mean(first**2)) * sp.tanh(first)))


def over_its_own_size(b: tp.Branch) -> Any:
    first = sp.tanh(product(b, "A", b.x))
    return product(b, "O", b.let("z", first / sp.sqrt(tp.theory.Mean(first**2))))


LAYERS = [
    (of(with_a_named_number), HALF), (of(two_branches), tp.DepthScaling(0.75, 0.25)), (tp.ResNet(h**2 - 1), HALF),
    (tp.ResNet(h - h**3 / 6), HALF), (of(two_branches), HALF), (of(gate), HALF), (of(minus_half), HALF),
    (tp.ResNet("tanh"), tp.DepthScaling(base_depth=4))]


@pytest.mark.parametrize("net, scale", few_of(LAYERS, *LAYERS[:3]))
def test_what_layers_draw_and_add(net: tp.ResNet, scale: tp.DepthScaling) -> None:
    """Polynomials, equal branches, products without a matrix after them, and numbers that a layer names."""
    found = limit_of(net, tp.SGD(), scale).compile()([0.5, 0.4, -0.3], Y)
    run = tp.train(net, tp.Task([0.5, 0.4, -0.3], Y), tp.SGD(), scale, depth=tp.oo)
    assert np.max(np.abs(found.outputs - run.outputs.ravel())) <= found.error_estimate + 2e-8 < 1e-4


@pytest.mark.slow
def test_functions_over_their_own_size() -> None:
    found = limit_of(of(over_its_own_size), tp.SGD()).compile()([0.5, 0.4, -0.3], Y)
    run = tp.train(of(over_its_own_size), tp.Task([0.5, 0.4, -0.3], Y), tp.SGD(), HALF, depth=tp.oo)
    assert np.max(np.abs(found.outputs - run.outputs.ravel())) <= found.error_estimate < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("phi", [h * sp.tanh(2 * h), h * sp.tanh(h), sp.tanh(h)**2], ids=str)
def test_errors_cover_where_updates_are_inside(phi: sp.Expr) -> None:
    scale = tp.DepthScaling(1, 0)
    for xs in ([0.5, 0.4], [1.0, 0.8]):
        found = limit_of(tp.ResNet(phi), tp.SGD(), scale).compile()(xs, [1.0, -0.7])
        run = tp.train(tp.ResNet(phi), tp.Task(xs, [1.0, -0.7]), tp.SGD(), scale, depth=tp.oo)
        assert run.error_estimate is not None
        assert abs(found.outputs[1] - run.outputs.ravel()[1]) <= found.error_estimate + run.error_estimate


def test_outputs_without_a_digit_are_refused() -> None:
    def inner_skip(b: tp.Branch) -> Any:
        first = b.let("h", b.x + tp.theory.MatVec(b.weights("A"), b.x))
        return product(b, "O", b.let("z", sp.tanh(first)) * first)
    with pytest.raises((tp.Divergence, tp.NotCovered)):
        limit_of(of(inner_skip), tp.SGD(3.0), tp.DepthScaling(1, 0)).compile()(XI, [9.0, -9.0, 9.0])
