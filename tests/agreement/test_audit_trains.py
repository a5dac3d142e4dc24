"""Networks trained with the powers of L that people set, and with the depth scaling that the audit says it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from support.closeness import assert_close

WIDTH, SEED = 64, 3
TASK = tp.Task([1.0, 0.7, -0.8, 1.1], [1.0, -0.5, 0.6, 0.9])


def moved(audit: tp.tune.audit.Audit, gradients: np.ndarray, depth: int, large: float = 30.0) -> np.ndarray:
    """The directions of a first step; Adam's eps is ``large`` times what gradients are at depth 1."""
    if audit.settings.optimizer == "sgd":
        return gradients
    eps = large * float(depth) ** float(audit.powers["eps"]) if audit.settings.optimizer == "adam" else 0.0
    return gradients / (np.abs(gradients) * WIDTH + eps)


def trained(audit: tp.tune.audit.Audit, depth: int, rate: float, large: float = 30.0) -> np.ndarray:
    """f_t of a plain linear residual network whose matrices, branch and learning rate carry the raw powers of L."""
    rng, powers = np.random.default_rng(SEED), audit.powers
    branch, init, lr = (float(depth) ** float(powers[name]) for name in ("branch", "init", "lr"))
    U, V = rng.normal(size=WIDTH), rng.normal(size=WIDTH) / WIDTH
    W = init * rng.standard_normal((depth, WIDTH, WIDTH)) / np.sqrt(WIDTH)
    outputs = []
    for xi, target in zip(TASK.inputs[:, 0, 0], TASK.targets[:, 0, 0]):
        x = [xi * U]
        for matrix in W:
            x.append(x[-1] + branch * matrix @ x[-1])
        outputs.append(V @ x[-1])
        back = (outputs[-1] - target) * V
        gradients = []
        for matrix, below in zip(W[::-1], x[-2::-1]):
            gradients.append(branch * np.outer(back, below))
            back = back + branch * matrix.T @ back
        W = W - rate * lr * moved(audit, np.array(gradients[::-1]), depth, large)
    return np.array(outputs)


@pytest.mark.parametrize("branch, init, lr", [(-0.5, 0, 0), (0, -0.5, -1), (-0.25, -0.25, -0.5), (-1, 0, 1),
                                              (-0.75, -0.25, 0.5), (-0.5, 0, -0.5), (-1.5, 0.5, 1)])
@pytest.mark.parametrize("depth", [8, 32])
def test_the_scaling_of_an_audit_is_that_of_the_network(branch: float, init: float, lr: float, depth: int) -> None:
    """Gradient descent with raw powers of L, and tp.train of the same draw at (alpha, gamma): the same outputs."""
    audit = tp.audit(branch, lr, "sgd", init=init)
    run = tp.train(tp.ResNet(), TASK, tp.SGD(0.5), audit.scaling, depth=depth, width=WIDTH, seed=SEED)
    assert_close(trained(audit, depth, 0.5), run.outputs.ravel(), 1e-10)


def growth(audit: tp.tune.audit.Audit, large: float = 30.0) -> float:
    """The power of L of the first change of f, from depths 64 and 512."""
    changes = [abs(outputs[1] / TASK.inputs[1, 0, 0] - outputs[0] / TASK.inputs[0, 0, 0])
               for outputs in (trained(audit, depth, 1e-3, large) for depth in (64, 512))]
    return float(np.log(changes[1] / changes[0]) / np.log(8))


@pytest.mark.parametrize("optimizer, given", [
    ("sgd", dict(branch=-0.5, lr=0)), ("sgd", dict(branch=-1, lr=0)), ("sgd", dict(branch=-0.5, lr=-0.5)),
    ("signsgd", dict(branch=-0.5, lr=0)), ("signsgd", dict(branch=-0.5, lr=-0.5)), ("signsgd", dict(branch=-1, lr=0)),
    ("signsgd", dict(branch=0, init=-0.5, lr=-1)), ("signsgd", dict(branch=0, init=-0.5, lr=0)),
    ("adam", dict(branch=-0.5, lr=-0.5, eps=-0.5)), ("adam", dict(branch=-0.5, lr=-0.5, eps=0)),
    ("adam", dict(branch=-1, lr=0, eps=-1)), ("adam", dict(branch=-1, lr=0, eps=0))])
def test_the_first_change_of_f_grows_as_the_verdict_says(optimizer: str, given: dict[str, Any]) -> None:
    """With a rate so small that the first step is linear in it; one draw a depth, so the slope is not exact. Adam's
    eps is large, so that it is in charge where it goes with a larger power than gradients do, or so small that it
    is not."""
    audit = tp.audit(optimizer=optimizer, **given)
    charged = audit.eps_in_charge or audit.verdict
    assert growth(audit) == pytest.approx(float(1 - charged.alpha - charged.gamma), abs=0.15)
    if audit.eps_in_charge is not None:
        assert growth(audit, large=1e-6) == pytest.approx(float(1 - audit.alpha - audit.gamma), abs=0.15)


@pytest.mark.parametrize("branch, eps", [(-0.5, 0), (-1, -0.5), (-1, 0)])
def test_eps_crosses_the_gradient_of_a_real_network_where_it_is_said(branch: float, eps: float) -> None:
    """Gradients of plain networks at depth 8 give the depth; there, measured again, eps is the gradient."""
    def gradient(depth: int) -> float:
        sizes = []
        for seed in range(4):
            rng = np.random.default_rng(seed)
            x, back = [rng.standard_normal(WIDTH)], rng.standard_normal(WIDTH) / WIDTH
            W = float(depth) ** branch * rng.standard_normal((depth, WIDTH, WIDTH)) / np.sqrt(WIDTH)
            for matrix in W:
                x.append(x[-1] + matrix @ x[-1])
            for matrix, below in zip(W[::-1], x[-2::-1]):
                sizes.append(float(depth) ** (2 * branch) * np.mean(back ** 2) * np.mean(below ** 2))
                back = back + matrix.T @ back
        return float(np.sqrt(np.mean(sizes)))

    first = gradient(8)
    found = tp.audit(branch, eps=eps, sizes=dict(depth=8, width=WIDTH, eps=first / 5, gradient=first))
    assert found.crossover_depth is not None
    there = round(found.crossover_depth)
    assert there > 30
    assert gradient(there) == pytest.approx(first / 5 * (there / 8) ** eps, rel=0.2)
