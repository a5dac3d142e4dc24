"""Adafactor, written outside of the package in a class: real networks, particles, verdicts, recipes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.optimizers.faithful import direction_power
from tpcalc.optimizers.polar import polar
from tpcalc.theory import Outer, factored_square

DEPTH, WIDTH = 3, 12
TASK = tp.Task(np.array([[[1.0], [0.5]], [[0.3], [-1.0]], [[0.7], [0.2]]]), np.array([[[1.0], [-1.0]]] * 3))


@dataclass(frozen=True)
class Adafactor:
    """The factored second moment alone: no first moment, no clipping, no step relative to the weights."""

    lr: float = 0.3
    beta: sp.Rational = sp.Rational(1, 2)
    eps: Any = 0.0
    weight_decay: float = 0.0

    def schedule(self, steps: int) -> np.ndarray:
        return np.full(steps, self.lr)

    def direction(self, gradient: Callable[[sp.Expr], sp.Expr], step: sp.Expr) -> sp.Expr:
        k = sp.Symbol("k", integer=True, nonnegative=True)

        def average(of: Callable[[sp.Expr], sp.Expr]) -> sp.Expr:
            return (1 - self.beta) / (1 - self.beta ** (step + 1)) * sp.Sum(self.beta ** (step - k) * of(k),
                                                                            (k, 0, step))
        return gradient(step) / (sp.sqrt(factored_square(gradient, average)) + self.eps)


def plain(weights: dict[str, np.ndarray], opt: Adafactor) -> np.ndarray:
    """W2 tanh(W1 x), trained in NumPy; gradients carry no branch multiplier and a factor n."""
    u, v, n = weights["U"].ravel(), weights["nV"].ravel(), WIDTH
    w = {name: weights[name].copy() for name in ("W1", "W2")}
    eps = g = DEPTH**-0.5
    moments: dict[tuple[str, int], tuple[np.ndarray, np.ndarray]] = {}
    outputs = []
    for t, (xi, y) in enumerate(zip(TASK.inputs[..., 0], TASK.targets[..., 0])):
        x, kept = np.outer(u, xi), []
        for layer in range(DEPTH):
            z = np.tanh(w["W1"][layer] @ x)
            kept.append((x, z))
            x = x + eps * w["W2"][layer] @ z
        f = v @ x / n
        outputs.append(f)
        dx = np.outer(v, f - y) / len(xi)
        for layer in reversed(range(DEPTH)):
            x, z = kept[layer]
            dz = (1 - z**2) * (w["W2"][layer].T @ dx)
            moved = {"W1": dz @ x.T, "W2": dx @ z.T}
            dx = dx + eps * w["W1"][layer].T @ dz
            for name, gradient in moved.items():
                rows, columns = moments.get((name, layer), (0.0, 0.0))
                beta = float(opt.beta)
                rows = beta * rows + (1 - beta) * np.mean(gradient**2, axis=1)
                columns = beta * columns + (1 - beta) * np.mean(gradient**2, axis=0)
                moments[name, layer] = rows, columns
                now = np.outer(rows, columns) / np.mean(rows) / (1 - beta ** (t + 1))
                w[name][layer] = w[name][layer] - opt.lr * g * gradient / (np.sqrt(now) + opt.eps) / n
    return np.array(outputs)


@pytest.mark.parametrize("eps", [0.0, 0.5])
def test_real_networks_are_those_of_plain_numpy(eps: float) -> None:
    opt, net = Adafactor(eps=eps), tp.ResNet("tanh", "mlp")
    run = tp.train(net, TASK, opt, tp.DepthScaling(), DEPTH, WIDTH, method="dense")
    np.testing.assert_allclose(run.outputs[..., 0], plain(run.initial_weights(), opt), rtol=0, atol=1e-12)
    adam = tp.train(net, TASK, tp.Adam(0.3, 0, 0.5, eps), tp.DepthScaling(), DEPTH, WIDTH, method="dense")
    assert np.max(np.abs(adam.outputs - run.outputs)) > (1e-5 if eps else 1e-3)  # what is factored is seen


@pytest.mark.nightly
def test_particles_are_wide_networks() -> None:
    problem = tp.Problem(tp.ResNet("tanh", "mlp"), TASK, Adafactor(), tp.DepthScaling(), DEPTH)
    limit = tp.train(problem, method=tp.methods.Particles(samples=2048, batches=4))
    found = np.array([tp.train(problem.net, TASK, Adafactor(), tp.DepthScaling(), DEPTH, 512,
                               method=tp.methods.Conditioned(seed=seed)).outputs for seed in range(8)])
    error = found.std(axis=0, ddof=1) / 8**0.5 + limit.error_estimate + 4 / 512
    assert np.all(np.abs(found.mean(axis=0) - limit.outputs) < 4 * error)


def test_powers_are_read_off_the_direction() -> None:
    opt, net, a = Adafactor(), tp.ResNet("tanh", "mlp"), sp.Symbol("a", real=True)
    assert direction_power(opt, a) == 0 and direction_power(tp.SGD(), a) == a
    assert direction_power(Adafactor(eps=0.1), sp.Integer(2), sp.Integer(1)) == 1
    assert [tp.classify(point, 1 - point, net, opt).name for point in (1, 0.5)] == ["ODE limit", "Depth-muP"]
    assert tp.recipe(optimizer=opt).powers["lr"] == tp.recipe(optimizer="adam").powers["lr"] == -sp.Rational(1, 2)
    assert tp.solve(net, opt, want=("stable", "diverse")).region == tp.solve(
        net, tp.Adam(), fixed={("*", "eps"): -3}, want=("stable", "diverse")).region
    assert tp.audit(-1, 0, optimizer=opt).verdict.name == tp.audit(-1, 0, eps=None).verdict.name
    scale = tp.Parametrization({"*": tp.Powers(init={"n": -0.5}, lr={"n": -1, "L": -1})})
    assert tp.theory.with_exponents(scale, net, opt) == tp.theory.with_exponents(scale, net, "adam")


def test_a_name_does_not_stand_for_a_direction() -> None:
    """A class that is called Adam and moves along gradients has powers of gradient descent."""
    moving: Any = type("Adam", (Adafactor,), {"direction": lambda self, gradient, step: gradient(step)})
    a = sp.Symbol("a", real=True)
    assert direction_power(moving(), a) == a and direction_power(tp.Adam(), a) == 0
    assert tp.recipe(optimizer=moving()).powers["lr"] == tp.recipe(optimizer="sgd").powers["lr"] == 0


def test_an_eps_that_takes_no_symbol_is_refused_by_name() -> None:
    @dataclass(frozen=True)
    class Fixed(Adafactor):
        def __post_init__(self) -> None:
            if not isinstance(self.eps, float):
                raise TypeError("a number")

    with pytest.raises(tp.NotCovered, match="powers of its direction are read with a symbol for eps"):
        tp.classify(1, 0, opt=Fixed(eps=0.1))


def test_directions_of_whole_matrices_are_refused_where_entries_are_counted() -> None:
    @dataclass(frozen=True)
    class Spectral(Adafactor):
        def direction(self, gradient: Callable[[sp.Expr], sp.Expr], step: sp.Expr) -> sp.Expr:
            return polar(gradient(step)) if gradient(step).has(Outer) else sp.sign(gradient(step))

    @dataclass(frozen=True)
    class OfMatricesAlone(Adafactor):
        def direction(self, gradient: Callable[[sp.Expr], sp.Expr], step: sp.Expr) -> sp.Expr:
            return polar(gradient(step))

    net, scale = tp.ResNet("tanh", "mlp"), tp.Parametrization({"*": tp.Powers(init={"n": -0.5}, lr={"n": -1, "L": -1})})
    assert tp.classify(1, 0, net, Spectral()).name == "ODE limit"
    with pytest.raises(tp.NotCovered, match="of whose directions powers of n are not counted"):
        tp.theory.with_exponents(scale, net, Spectral())
    with pytest.raises(tp.NotCovered, match="whose direction is none of a single weight"):
        tp.recipe(optimizer=OfMatricesAlone())
