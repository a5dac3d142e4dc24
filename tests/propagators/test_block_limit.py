"""Nonlinear networks at infinite width and depth: independent numbers, laws, real networks, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from support.propagators import ByHand

import tpcalc as tp
from tpcalc.action.densities import Derivative
from tpcalc.propagators.laws.pair_laws import DerivedBlock, ForwardLaw, kernels_of, linear_block
from tpcalc.propagators.blocks import Pairs
from tpcalc.propagators.collocation import solve_limit

h = sp.Symbol("h", real=True)
SINE = sp.sin(h + sp.Rational(1, 2))
TASK = tp.Task((1, .8, -.6, 1.1), (1, -.7, .5, 1.2))
PLANE = tp.Task(np.array([[1, 0], [.5, .8], [-.6, .7], [1.1, -.4]])[:, None],
                np.array([1, -.7, .5, 1.2])[:, None, None])
OPT, HALF = tp.SGD(1.0), tp.DepthScaling(0.5, 0.5)


class SineMlp(ByHand):
    """W2 phi(W1 x) with phi(u) = sin(u + 1/2): the hand formulas of two matrices, in closed form."""

    has_diagonal, is_linear = True, False

    def _means(self, pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """<phi phi> and <phi' phi'>; phi'' = -phi."""
        assert pairs.left is not None and pairs.right is not None
        size = np.exp(-(pairs.left[..., :, None] + pairs.right[..., None, :]) / 2) / 2
        e = np.exp(pairs.c)
        return size * (e - np.cos(1.0) / e), size * (e + np.cos(1.0) / e)

    def forward(self, pairs: Pairs) -> tuple[Any, Any, Any]:
        phi, slope = self._means(pairs)
        return phi, slope, slope * pairs.c + phi

    def backward(self, pairs: Pairs) -> tuple[Any, Any, Any]:
        phi, slope = self._means(pairs)
        return slope, phi, 2 * slope + phi * pairs.c

    def diagonal(self, pairs: Pairs) -> tuple[Any, Any, Any]:
        phi, slope = self._means(pairs)
        return -phi, -slope, -slope * pairs.c - phi


def outputs(net: tp.ResNet, task: tp.Task = TASK, opt: tp.SGD = OPT, scale: tp.DepthScaling = HALF) -> np.ndarray:
    run = tp.train(net, task, opt, scale, depth=tp.oo)
    assert run.method == "collocation" and run.error_estimate < 1e-8 and run.outputs[0, 0, 0] == 0
    return run.outputs.ravel()[1:]


@pytest.mark.parametrize("net, task, expected", [
    (tp.ResNet(SINE), TASK, (.59861, .00160, .01138)),
    (tp.ResNet("relu"), TASK, (.532297, .006473, .08541)),
    (tp.ResNet("relu", "mlp"), TASK, (1.170172, -.001622, -.184617)),
    pytest.param(tp.ResNet("abs"), TASK, (.813409, .111616, -.048224), marks=pytest.mark.nightly),  # kinks: relu
    (tp.ResNet("tanh"), TASK, (.53060, -.01838, -.10760)),
    (tp.ResNet("tanh", "mlp"), TASK, (.894931, .033056, -.142587)),
    *(pytest.param(*case, marks=pytest.mark.slow) for case in (
        (tp.ResNet(SINE, "mlp", matrices=3), PLANE, (.54425, -.37818, .53000)),
        (tp.ResNet(SINE, "mlp", norm="rms"), PLANE, (.50355, -.50988, .35698)))),
    (tp.ResNet(SINE, "glu"), PLANE, (.38751, .04522, 1.05995))])
def test_independent_numbers(net: tp.ResNet, task: tp.Task, expected: tuple[float, ...]) -> None:
    """From another solver of the closure, with kernels typed by hand: five digits, of which its quadrature and mesh are
    sure."""
    np.testing.assert_allclose(outputs(net, task), expected, rtol=0, atol=5.1e-6)


@pytest.mark.slow
def test_a_finite_time_blow_up_is_named() -> None:
    """At learning rate 1 the variance of a gated block grows like its own square, in layer time: real networks diverge
    there, too."""
    net = tp.ResNet(h / (1 + sp.exp(-h)), "glu")
    with pytest.raises(tp.Divergence, match="with values up to") as caught:
        tp.train(net, TASK, OPT, HALF, depth=tp.oo)
    assert caught.value.step == 2 and caught.value.layer is not None and abs(caught.value.layer - 0.65) < 0.02
    assert np.max(np.abs(outputs(net, opt=tp.SGD(0.7)))) < 1


@pytest.mark.parametrize("net, rate", [("tanh", 8.0), ("relu", 4.0)])
def test_large_learning_rates(net: str, rate: float) -> None:
    """Both resolutions agree, and a smaller last rate changes nothing of what came before."""
    every = outputs(tp.ResNet(net), opt=tp.SGD(rate))
    np.testing.assert_allclose(outputs(tp.ResNet(net), opt=tp.SGD((rate, rate, rate, 0.1))), every, rtol=0, atol=1e-8)


@pytest.mark.slow
def test_two_matrices_are_the_hand_formulas() -> None:
    by_hand = solve_limit(TASK, OPT, 1.0, 1.0, "plain", block=SineMlp()).trace.outputs.ravel()
    np.testing.assert_allclose(outputs(tp.ResNet(SINE, "mlp")), by_hand[1:], rtol=0, atol=1e-11)


def test_without_noise() -> None:
    """1/2 < alpha < 1: drift alone, even activations learn at the first step."""
    assert np.max(np.abs(outputs(tp.ResNet(-sp.cos(h)), scale=tp.DepthScaling(.75, .25))[1:] - (.0629, .2145))) < 5.1e-5
    np.testing.assert_array_equal(outputs(tp.ResNet(SINE), scale=tp.DepthScaling(.75, .25)),
                                  outputs(tp.ResNet(SINE), scale=tp.DepthScaling(.6, .4)))


def test_branch_constants() -> None:
    """A branch multiplier b is absorbed by phi -> b phi, up to the learning rate: kappa and theta both carry b^2."""
    scaled = outputs(tp.ResNet(SINE / 2), opt=tp.SGD(0.8))
    net, opt, scale = tp.ResNet(SINE), tp.SGD(0.4), tp.DepthScaling(0.5, 0.5, branch=sp.Rational(1, 2))
    np.testing.assert_allclose(outputs(net, opt=opt, scale=scale), scaled, rtol=0, atol=1e-12)


def test_each_slot_decays_by_itself() -> None:
    """rho_a = 0.6 against rho_b = 0.9, 0.5: variances carry squares, covariances products."""
    law = ForwardLaw(linear_block(), 1.0, np.zeros(2), np.ones(2), 0.6 * np.array([.9, .5]), 0.36)
    pairs, own = law.pairs(np.ones((1, 2)), np.ones((1, 1))), law.own_pairs(np.ones((1, 1)))
    assert pairs.left_decay == 0.36 and (own.decay, own.left_decay, own.right_decay) == (0.36, 0.36, 0.36)
    np.testing.assert_allclose(pairs.right_decay, [.81, .25], rtol=1e-15)


def test_repeated_samples_are_one_sample() -> None:
    double = tp.Task(np.repeat(TASK.inputs, 2, axis=1), np.repeat(TASK.targets, 2, axis=1))
    run = tp.train(tp.ResNet(SINE), double, OPT, HALF, depth=tp.oo)
    np.testing.assert_allclose(run.outputs[1:, 0, 0], outputs(tp.ResNet(SINE)), rtol=0, atol=1e-10)
    np.testing.assert_allclose(run.outputs[:, 0], run.outputs[:, 1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("net", [
    tp.ResNet("relu"), pytest.param(tp.ResNet("gelu", "glu", norm="rms"), marks=pytest.mark.nightly),
    tp.ResNet(SINE, "mlp", matrices=3)])
def test_derivatives_by_finite_differences(net: tp.ResNet) -> None:
    """12 and d_1, with decay, of the compiled kernels."""
    block, e = DerivedBlock(net), 1e-5
    kappa, slope, theta = Derivative("kappa"), Derivative("kappa", 1), Derivative("theta")

    def at(c: float, p: float) -> Pairs:
        return Pairs(np.array([[c]]), np.array([p]), np.array([0.9]), 0.7 * 0.6, 0.49, 0.36)
    three = (kappa, slope, theta)
    for change, (c, p) in (({"cross": 1}, (e, 0.0)), ({"left": 1}, (0.0, e))):
        exact = block.derivatives(at(.4, 1.1), tuple(
            one._replace(**{name: getattr(one, name) + more for name, more in change.items()}) for one in three))
        up, down = (block.derivatives(at(.4 + sign * c, 1.1 + sign * p), three) for sign in (1, -1))
        differences = [(a - b) / (2 * e) for a, b in zip(up, down)]
        np.testing.assert_allclose(np.ravel(exact), np.ravel(differences), rtol=0, atol=1e-8)


def test_details() -> None:
    run = tp.train(tp.ResNet(SINE), TASK, OPT, HALF, depth=tp.oo, keep_nodes=[0, 0.5, 1])
    x = TASK.inputs.ravel()
    np.testing.assert_allclose(run.forward_covariance[0], np.outer(x, x), atol=1e-12)
    for a, b in ((0, 0), (2, 1)):
        assert abs(run.cross_covariance((a, 0), (b, 0), 0, 0, 0.5, 0.5) - run.forward_covariance[1][a, b]) < 1e-9
    with pytest.raises(ValueError, match="gamma: this network's kets"):
        run.gamma(1, 0, 0, 0, 1.0, 0.5)


def test_bad_input() -> None:
    cases: list[tuple[dict[str, Any], Any, str]] = [
        (dict(scale=tp.DepthScaling(1, 0)), ValueError, "takes alpha < 1: .* nothing closes on kernels"),
        (dict(scale=tp.DepthScaling(.4, .6)), tp.Divergence,
         r"explodes at initialization like exp\(L\^\(1/5\)\); a limit needs"),
        (dict(scale=tp.DepthScaling(.5, .25)), tp.Divergence, r"explodes at step 1 like .*; a limit needs"),
        (dict(net=tp.ResNet("tanh", "pre_nonlin")), ValueError, "acts on the stream"),
        (dict(opt=tp.SGD(1.0, weight_decay=1.0)), ValueError, "weight decay"),
        (dict(net=tp.ResNet(sp.exp(h**2))), ValueError, "tails are so heavy"),  # its mean is subtracted
        (dict(net=tp.ResNet(sp.exp(h**2 / 4), "mlp")), ValueError, "grows too fast"),
        (dict(net=tp.ResNet(1 / h, "glu")), ValueError, "has a pole"),
        (dict(net=tp.ResNet(sp.log(h), "mlp")), ValueError, "not finite for all real"),
        (dict(net=tp.ResNet(sp.Max(h, 1))), ValueError, "s h"),
        (dict(net=tp.ResNet(sp.tan(h))), ValueError, "not smooth enough"),
        (dict(net=tp.ResNet("tanh"), task=tp.Task((1, 100), (1, 1))), ValueError, "got inputs with .* up to 1e\\+04"),
        (dict(net=tp.ResNet("tanh"), task=tp.Task((1, .8), (1, 1), probes=[[100]])), ValueError, "got inputs with .* "
                                                                                                 "up to 1e\\+04")]
    for change, error, reason in cases:
        given = dict(net=tp.ResNet(SINE), task=TASK, opt=OPT, scale=HALF) | change
        with pytest.raises(error, match=reason):
            tp.train(**given, depth=tp.oo, method="collocation",
                     progress=lambda done, steps: pytest.fail("work was begun"))
    assert kernels_of(tp.ResNet()).is_linear and not kernels_of(tp.ResNet(SINE)).is_linear


@pytest.mark.slow
@pytest.mark.parametrize("net, opt", [(tp.ResNet(SINE, "mlp"), OPT),
                                      (tp.ResNet("erf", "mlp"),
                                       tp.SGD(.6, momentum=.5, nesterov=True, weight_decay=.3))])
def test_real_networks_converge_to_it(net: tp.ResNet, opt: tp.SGD) -> None:
    """Width 4096, depths extrapolated like 1/L, in standard errors of independent seeds."""
    def real(depth: int, seed: int) -> np.ndarray:
        return tp.train(net, TASK, opt, HALF, depth, width=4096, method="conditioned", seed=seed).outputs.ravel()[1:]
    found = np.array([2 * real(48, k) - real(24, k + 100) for k in range(16)])
    z = (found.mean(axis=0) - outputs(net, opt=opt)) / (found.std(axis=0, ddof=1) / 4)
    assert np.max(np.abs(z)) < 3.5


@pytest.mark.parametrize("phi", ["relu", "abs"])
def test_repeated_inputs_need_few_elements(phi: str) -> None:
    """At r = 1 the arcsine has half of its digits: iterations stop falling there, and shorter elements do not help."""
    net, scale, targets = tp.ResNet(phi), tp.DepthScaling(), [1, -1, 1, -1, 1, -1]
    long, short = (tp.train(net, tp.Task(np.ones(steps), targets[:steps]), tp.SGD(0.5), scale, tp.oo, keep_nodes="all")
                   for steps in (6, 4))
    assert len(long.layer_times) < 400 and long.error_estimate < 1e-9
    np.testing.assert_allclose(long.outputs[:4], short.outputs, rtol=0, atol=long.error_estimate + short.error_estimate)
