"""Networks of Depthwise Hyperparameter Transfer, written from its equations 1 to 3 alone, train as mapped problems."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp

N, L, D, STEPS, BATCH = 12, 4, 3, 4, 2
RNG = np.random.default_rng(5)
INPUTS, TARGETS = RNG.normal(size=(STEPS, BATCH, D)), RNG.normal(size=(STEPS, BATCH, 1))


def table_1(name: str, branch: float, mu0: float, eta0: float, alpha: float) -> tuple[float, ...]:
    """beta_0, beta_l, beta_L, output scale, sigma_0, sigma_l, learning rate, read off the printed table and (141)."""
    gamma = mu0 * N**0.5
    return {"SP": (1, branch, 1, 1, D**-0.5, N**-0.5, eta0),
            "NTP": (D**-0.5, branch * N**-0.5, N**-0.5, mu0, 1, 1, eta0 * mu0**2),
            "muP": (D**-0.5, branch * N**-0.5, N**-0.5, gamma, 1, 1, eta0 * gamma**2),
            "muP + 1/sqrt(L)": (D**-0.5, branch * (L * N)**-0.5, N**-0.5, gamma, 1, 1, eta0 * gamma**2),
            "M": (D**-0.5, branch * N**-0.5 * L**-alpha, N**-0.5, gamma, 1, 1,
                  eta0 * mu0**2 * L**(2 * alpha - 1) * N)}[name]


Entrywise = Callable[..., Any]


def raw_outputs(numbers: tuple[float, ...], draws: dict[str, np.ndarray], phi: Entrywise, slope: Entrywise,
                slope_of_loss: Entrywise, train_embedding_readout: bool, beta: float = 0.0,
                shrink: float = 0.0) -> np.ndarray:
    """Outputs before every update, (STEPS, BATCH); draws: standard normal W0 (N, D), W (L - 1, N, N), w (N,)."""
    b0, b, bL, gamma, s0, s, eta = numbers
    W0, W, w = s0 * draws["W0"], s * draws["W"], s * draws["w"]
    velocity: Any = [0.0, 0.0, 0.0]
    outputs = []
    for x, y in zip(INPUTS, TARGETS[..., 0]):
        h = [b0 * W0 @ x.T]
        for matrix in W:
            h.append(h[-1] + b * matrix @ phi(h[-1]))
        f = bL / gamma * w @ h[-1]
        outputs.append(f)
        signal = slope_of_loss(f, y) / BATCH
        grad_w, g, grads = bL / gamma * h[-1] @ signal, np.outer(w, signal) * bL / gamma, []
        for matrix, before in zip(W[::-1], h[-2::-1]):
            grads.append(b * g @ phi(before).T)
            g = g + slope(before) * (b * matrix.T @ g)
        gradient: Any = [b0 * g @ x, np.array(grads[::-1]), grad_w]
        velocity = [beta * v - (1 - beta) * one for v, one in zip(velocity, gradient)]
        W = (1 - shrink) * W + eta * velocity[1]
        if train_embedding_readout:
            W0, w = (1 - shrink) * W0 + eta * velocity[0], (1 - shrink) * w + eta * velocity[2]
    return np.array(outputs)


def both(scaling: tp.theory.DepthwiseScaling, numbers: tuple[float, ...], train_embedding_readout: bool = False,
         phi: str = "tanh",
         loss: str = "mse", momentum: float = 0.0, weight_decay: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of the mapped problem and of the raw network, from the same standard normal draws."""
    rng = np.random.default_rng(1)
    draws = {"W0": rng.normal(size=(N, D)), "W": rng.normal(size=(L - 1, N, N)), "w": rng.normal(size=N)}
    targets = np.sign(TARGETS) if loss == "logistic" else TARGETS
    net = tp.ResNet(phi, "pre_nonlin", train_embedding_readout=train_embedding_readout)
    raw = tp.theory.raw_problem(scaling, net, tp.Task(INPUTS, targets, loss), L - 1, N, layers=L, momentum=momentum,
                                weight_decay=weight_decay)
    weights = {"U": draws["W0"].T, "W": draws["W"] / np.sqrt(N), "nV": draws["w"]}
    run = tp.train(raw.problem, method=tp.methods.Dense(weights=weights))
    function, slope = {"tanh": (np.tanh, lambda h: np.cosh(h)**-2.0), "linear": (lambda h: h, np.ones_like)}[phi]
    signal = {"mse": lambda f, y: f - y, "logistic": lambda f, y: -np.sign(y) / (1 + np.exp(np.sign(y) * f))}[loss]
    shrink = scaling.eta0 * weight_decay
    theirs = raw_outputs(numbers, draws, function, slope, signal, train_embedding_readout, momentum, shrink)
    return raw.output_scale * run.outputs[..., 0], theirs


@pytest.mark.parametrize("name", ["SP", "NTP", "muP", "muP + 1/sqrt(L)"])
def test_the_table_trains_as_mapped(name: str) -> None:
    mu0, eta0 = (1.0, 0.02) if name == "SP" else (0.7, 0.3)
    ours, theirs = both(tp.theory.depthwise_recipe(name, mu0, eta0), table_1(name, 1.0, mu0, eta0, 0.5))
    assert np.ptp(theirs) > 0.01
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("alpha, branch, ends, options", [
    (0.5, -0.6, True, {}), (0.75, 1.3, False, {}), (1.0, 1.4, True, {}), (1.0, 0.8, False, {"phi": "linear"}),
    (0.5, 1.5, True, {"loss": "logistic"}), (0.5, 1.2, True, {"momentum": 0.6, "weight_decay": 0.2}),
    (0.75, 1.0, False, {"momentum": 0.3}), (0.5, 1.0, False, {"weight_decay": 0.5})])
def test_other_exponents_constants_and_optimizers(alpha: float, branch: float, ends: bool, options: Any) -> None:
    scaling = tp.theory.DepthwiseScaling(alpha, mu0=0.6, eta0=0.4, branch=branch)
    ours, theirs = both(scaling, table_1("M", branch, 0.6, 0.4, alpha), ends, **options)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)
    if alpha > 0.5:  # the test sees the rate
        wrong = both(scaling, table_1("M", branch, 0.6, 0.4 * 1.1, alpha), ends, **options)[1]
        assert np.max(np.abs(wrong - theirs)) > 1e-3


def test_what_does_not_depend_on_the_width_is_the_problem_of_infinite_width() -> None:
    scaling, task = tp.theory.DepthwiseScaling(mu0=0.5, eta0=0.3, branch=1.2), tp.Task(INPUTS, TARGETS)
    wide, finite = (tp.theory.raw_problem(scaling, tp.ResNet(), task, 8, width) for width in (tp.oo, 100))
    assert wide.problem.scale == finite.problem.scale and wide.output_scale == pytest.approx(finite.output_scale)
    assert wide.problem.opt.lr == pytest.approx(finite.problem.opt.lr)
    limit = tp.theory.raw_problem(scaling, tp.ResNet(), task, tp.oo)
    many = tp.theory.raw_problem(scaling, tp.ResNet(), task, 512, layers=513)
    np.testing.assert_allclose(tp.train(limit.problem).outputs, tp.train(many.problem).outputs, rtol=0, atol=2e-2)


def test_the_richness_is_what_separates_it_from_the_lazy_limit() -> None:
    """At small mu0 outputs are those of the tangent kernel; features move like mu0."""
    task, moved = tp.Task(INPUTS[:1].repeat(2, axis=0), TARGETS[:1].repeat(2, axis=0)), []
    for mu0 in (1e-2, 1e-3):
        raw = tp.theory.raw_problem(tp.theory.DepthwiseScaling(mu0=mu0, eta0=0.5), tp.ResNet(), task, tp.oo)
        run = tp.train(raw.problem, keep_nodes=[1.0])
        size = np.diagonal(run.forward_covariance[0])
        moved.append(np.max(np.abs(size[BATCH:] - size[:BATCH])))
        kernel = tp.kernel_fn(tp.ResNet())(INPUTS[0] / np.sqrt(D), get="ntk")
        lazy = 0.5 * kernel @ TARGETS[0] / BATCH
        np.testing.assert_allclose(raw.output_scale * run.outputs[1], lazy, rtol=0, atol=10 * mu0**2)
    assert moved[0] / moved[1] == pytest.approx(100, rel=0.02)  # c^2 of appendix G.2.2


@pytest.mark.parametrize("layers", [2, 3, 5])
@pytest.mark.parametrize("name, width", [("SP", "SP"), ("NTP", "NTP"), ("muP", "muP"), ("muP + 1/sqrt(L)", "muP")])
def test_as_abc(name: str, width: str, layers: int) -> None:
    found = tp.theory.depthwise_recipe(name).width_scaling(layers).canonical()
    assert found == tp.width.width_recipe(width, layers).canonical()


def test_verdicts_of_the_table() -> None:
    assert tp.theory.depthwise_recipe("SP").depth_scaling() == tp.DepthScaling(0, 0)
    assert tp.classify(tp.theory.depthwise_recipe("muP + 1/sqrt(L)").depth_scaling()).feature_learning
    for alpha in ("1/2", "3/4", 1):
        scale = tp.theory.DepthwiseScaling(alpha).depth_scaling()
        assert scale.drift_exponent == 0 and tp.classify(scale).nontrivial
    assert tp.theory.DepthwiseScaling(alpha="3/4").rate == sp.Rational(1, 2)


def test_what_is_refused() -> None:
    task = tp.Task(INPUTS, TARGETS)
    with pytest.raises(tp.NotCovered, match="got trained embedding and readout, and one learning rate"):
        tp.theory.raw_problem(tp.theory.depthwise_recipe("SP"), tp.ResNet(train_embedding_readout=True), task, 4,
                              width=8)
    with pytest.raises(tp.NotCovered, match="output_power=0"):
        tp.theory.raw_problem(tp.theory.depthwise_recipe("NTP"), tp.ResNet(), task, 4)
    with pytest.raises(tp.NotCovered, match="got trained embedding and readout at infinite depth"):
        tp.theory.raw_problem(tp.theory.DepthwiseScaling(1), tp.ResNet(train_embedding_readout=True), task, tp.oo)
    with pytest.raises(tp.NotCovered, match="branch: got 2.0 with trained embedding and readout"):
        tp.theory.raw_problem(tp.theory.DepthwiseScaling(0, branch=2.0), tp.ResNet(train_embedding_readout=True),
                              task, 4)
    with pytest.raises(ValueError, match="mu0: got 2; expected 1 for 'SP'"):
        tp.theory.depthwise_recipe("SP", mu0=2)
    with pytest.raises(ValueError, match="layers: got 4 at infinite depth"):
        tp.theory.raw_problem(tp.theory.DepthwiseScaling(), tp.ResNet(), task, tp.oo, layers=4)


@pytest.mark.parametrize("name", ["SP", "NTP", "muP"])
def test_constants_that_are_not_given_are_one(name: str) -> None:
    found = tp.theory.depthwise_recipe(name)
    assert (found.mu0, found.eta0) == (1, 1) and found == tp.theory.depthwise_recipe(name, 1.0, 1.0)
