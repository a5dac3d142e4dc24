"""Muon at infinite width: against an independent solver's numbers, real networks, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tpcalc as tp

REF = tp.Task((.9, -.5, .7), (1, .3, -.8))
SEVENTY_SEVEN = np.random.default_rng(77)
B77 = tp.Task(SEVENTY_SEVEN.normal(size=(3, 2, 3)) / np.sqrt(3), SEVENTY_SEVEN.normal(size=(3, 2, 1)))
LINEAR, TANH, SCALE = tp.ResNet(), tp.ResNet("tanh"), tp.DepthScaling()
PLAIN, HEAVY, FIVE = tp.Muon(.3), tp.Muon(.3, momentum=.9), tp.Muon(.3, newton_schulz_steps=5)


def outputs(task: tp.Task, opt: tp.Muon, depth: Any, net: tp.ResNet = LINEAR, scale: tp.DepthScaling = SCALE,
            **options: Any) -> np.ndarray:
    return tp.train(net, task, opt, scale, depth, **options).outputs[..., 0]


# from MATH.md 10, by a solver that shares no code with this one
@pytest.mark.parametrize("task, opt, step, depth, expected", [
    (REF, PLAIN, 1, 4, [-.209631372891]), (REF, PLAIN, 1, 8, [-.226529667547]),
    (REF, PLAIN, 1, tp.oo, [-.247308190605]),
    (REF, PLAIN, 2, 4, [.005006981293]), (REF, PLAIN, 2, 8, [.008145763168]), (REF, PLAIN, 2, tp.oo, [.013415633906]),
    (REF, HEAVY, 2, 4, [.567996641839]), (REF, HEAVY, 2, 8, [.596580766325]),
    (B77, PLAIN, 1, 4, [.266841088889, .117800606599]), (B77, PLAIN, 1, 8, [.288351034106, .127296462746]),
    (B77, PLAIN, 1, tp.oo, [.314800146382, .138972780974]),
    (B77, HEAVY, 2, 4, [-.280016791945, .04964752069]), (B77, HEAVY, 2, 8, [-.299836803926, .059939002812]),
    (REF, FIVE, 1, 4, [-.145994920648]), (REF, FIVE, 1, 8, [-.157763508305]), (REF, FIVE, 1, tp.oo, [-.172234428297]),
    (REF, FIVE, 2, 4, [.001747150092]), (REF, FIVE, 2, 8, [.002890720714]), (REF, FIVE, 2, tp.oo, [.004886757475])])
def test_an_independent_solver(task: tp.Task, opt: tp.Muon, step: int, depth: Any, expected: list[float]) -> None:
    np.testing.assert_allclose(outputs(task, opt, depth)[step], expected, rtol=0, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("task, expected", [(REF, [.61879315278]), (B77, [-.32037797037, .07372014823])])
def test_momentum_at_infinite_depth(task: tp.Task, expected: list[float]) -> None:
    np.testing.assert_allclose(outputs(task, HEAVY, tp.oo)[2], expected, rtol=0, atol=1e-9)


def test_above_one_half_noise_dies() -> None:
    found = outputs(REF, PLAIN, tp.oo, scale=tp.DepthScaling(.75, .25))
    np.testing.assert_allclose(found[1:, 0], [-.15, .00571026388], rtol=0, atol=1e-10)


def test_rows_of_inputs_and_of_outputs_agree() -> None:
    """keep_nodes carries a row for every input, whose Gram matrices are of lower rank than they have rows."""
    opt = tp.Muon([.3, .5, .2], momentum=.6, nesterov=True, weight_decay=.2)
    for depth in (5, tp.oo):
        one = tp.train(LINEAR, B77, tp.Muon(.3) if depth is tp.oo else opt, SCALE, depth)
        other = tp.train(LINEAR, B77, one.problem.opt, SCALE, depth, keep_nodes="all")
        np.testing.assert_allclose(one.outputs, other.outputs, rtol=0, atol=1e-11)


def test_the_sign_of_a_branch_does_not_matter() -> None:
    turned = tp.DepthScaling(.5, .5, branch=-1)
    np.testing.assert_allclose(outputs(B77, PLAIN, 4), outputs(B77, PLAIN, 4, scale=turned), atol=1e-13)


@pytest.mark.parametrize("net, opt", [(LINEAR, tp.Muon(.9, momentum=.6, nesterov=True, weight_decay=.2)),
                                      pytest.param(TANH, tp.Muon(.9, weight_decay=.2), marks=pytest.mark.slow)])
def test_exact_methods_are_the_limit_of_particles(net: tp.ResNet, opt: tp.Muon) -> None:
    """At finite depth for linear blocks; of others at a depth from where the limit is not far."""
    depth = 4 if net is LINEAR else 32
    exact = outputs(B77, opt, depth if net is LINEAR else tp.oo, net)
    found = tp.train(net, B77, opt, SCALE, depth, method=tp.methods.Particles(samples=512, batches=4))
    slack = 0 if net is LINEAR else 2.0 / depth
    assert np.max(np.abs(found.outputs[..., 0] - exact)) < 3 * found.error_estimate + slack * np.max(np.abs(exact))
    assert found.error_estimate < .05


@pytest.mark.slow
@pytest.mark.parametrize("opt", [tp.Muon(.3), tp.Muon(.3, momentum=.9, nesterov=True, weight_decay=.3),
                                 tp.Muon([.3, .6, .1], weight_decay=.3)])
def test_real_networks_extrapolate_to_it(opt: tp.Muon) -> None:
    """Outputs of networks of width n differ from the limit by c/n on average, which is fitted and taken off."""
    exact, seeds = outputs(B77, opt, 4), 60
    means, errors, widths = [], [], np.array([200, 400, 800])
    for n in widths:
        found = np.array([outputs(B77, opt, 4, width=int(n), seed=seed) for seed in range(seeds)])
        means.append(found.mean(0) - exact)
        errors.append(found.std(0) / np.sqrt(seeds))
    design = np.stack([np.ones(3), 1 / widths], axis=1)
    for location in np.ndindex(3, 2):
        sigma = np.array([e[location] for e in errors])
        weighted = design / sigma[:, None]
        covariance = np.linalg.inv(weighted.T @ weighted)
        at_infinity = (covariance @ weighted.T @ (np.array([m[location] for m in means]) / sigma))[0]
        assert abs(at_infinity) < 3.5 * np.sqrt(covariance[0, 0]), (location, at_infinity)


@pytest.mark.parametrize("net, targets, method", [
    (LINEAR, (0, .3, -.8), "reflection"), (TANH, (0, .3, -.8), "particles"), (LINEAR, (1, -.2269, 1), None)])
def test_a_gradient_that_vanishes_in_the_limit_alone_is_refused(net: tp.ResNet, targets: Any, method: str) -> None:
    """f_0 = 0 at infinite width: with target 0 a real network follows the sign of a fluctuation."""
    task = tp.Task((.9, -.5, .7), targets)
    if method is None:
        found = tp.train(net, task, PLAIN, SCALE, 4)  # small, and not 0
        assert np.all(np.isfinite(found.outputs))
        return
    with pytest.raises(ValueError, match="at step 0 a direction of the gradient vanishes at infinite width"):
        tp.train(net, task, PLAIN, SCALE, 4, method=method)
    assert np.all(np.isfinite(tp.train(net, task, PLAIN, SCALE, 4, width=64).outputs))


def test_two_equal_targets_are_one_direction_too_few() -> None:
    rng = np.random.default_rng(5)
    y = rng.normal(size=(2, 3, 2))
    task = tp.Task(rng.normal(size=(2, 3, 2)), y)
    assert np.all(np.isfinite(outputs(task, PLAIN, 3)))
    y[0, :, 1] = 2 * y[0, :, 0]
    with pytest.raises(ValueError, match="at step 0 a direction of the gradient vanishes"):
        outputs(tp.Task(task.inputs, y), PLAIN, 3)


@pytest.mark.parametrize("net, depth, method, said", [
    (tp.ResNet("tanh", "mlp"), tp.oo, "collocation", r"updates are known in linear blocks and in phi\(W x\)"),
    (tp.ResNet("tanh", norm="rms"), tp.oo, "collocation", "without a norm"),
    (LINEAR, 4, "coefficients", "'coefficients' takes a tp.SGD, whose outer products weigh the same in all layers"),
    (tp.ResNet(train_embedding_readout=True), 4, "auto", "Muon moves matrices, embedding and readout are vectors")])
def test_what_does_not_take_it_says_so(net: tp.ResNet, depth: Any, method: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.train(net, REF, PLAIN, SCALE, depth, method=method)


def test_runs_say_what_was_set_to_one_and_know_no_fluctuations() -> None:
    run = tp.train(LINEAR, B77, HEAVY, SCALE, 4)
    assert "singular values that Muon sets to 1 are at least 0.0" in run.notes[0]
    with pytest.raises(ValueError, match="fluctuations: got Muon"):
        run.fluctuations


LOCATIONS = [(.5, .5), (1, 0), (.5, .25), (.75, .5), (.5, .75), (1, .25)]


def slope(alpha: float, gamma: float, depths: tuple[int, int], **width: int) -> float:
    task, (few, many) = tp.Task([1.0, .5], [9.0, 9.0]), depths
    moved = [np.ptp(outputs(task, PLAIN, depth, scale=tp.DepthScaling(alpha, gamma), **width)) for depth in depths]
    return float(np.log(moved[1] / moved[0]) / np.log(many / few))


@pytest.mark.parametrize("alpha, gamma", LOCATIONS[1:4])
def test_verdicts_are_slopes(alpha: float, gamma: float) -> None:
    """The change of f in a step, between depths, against the power that is derived."""
    derived = float(tp.classify(alpha, gamma, opt=PLAIN).exponents["change of f"])
    assert abs(slope(alpha, gamma, (512, 1024)) - derived) < .02


@pytest.mark.slow
@pytest.mark.parametrize("alpha, gamma", LOCATIONS)
def test_verdicts_are_slopes_of_real_networks(alpha: float, gamma: float) -> None:
    derived = float(tp.classify(alpha, gamma, opt=PLAIN).exponents["change of f"])
    assert abs(slope(alpha, gamma, (16, 128), width=400) - derived) < .15


def test_kets_have_no_rule_for_it() -> None:
    with pytest.raises(ValueError, match="moves by a function of Gram matrices of all its rows"):
        tp.kets(tp.program(LINEAR, PLAIN, SCALE))


@pytest.mark.parametrize("bad, said", [
    (dict(lr=np.inf), "lr"), (dict(momentum=-1), "momentum"), (dict(nesterov=True), "expected a momentum"),
    (dict(newton_schulz_steps=0),
     "newton_schulz_steps: got 0; expected a whole number of at least 1, or None"),
    (dict(newton_schulz_steps=True), "newton_schulz_steps"),
    (dict(weight_decay="a"), "weight_decay"), (dict(momentum=.9, nesterov=1), "nesterov")])
def test_numbers_that_mean_nothing_are_refused(bad: dict, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.Muon(**bad)
