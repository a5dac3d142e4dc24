"""What linearizing a layer in its updates errs by, against networks of two matrices a block in plain NumPy."""

from __future__ import annotations

from typing import Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.verdicts.layer_jet import KINK, SMOOTH, block_jet, pair_power
from drawn.drawn_programs import deep_program

Array = np.ndarray
SAID = "linearization error of a layer"
FUNCTIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array]]] = {
    "tanh": (np.tanh, lambda h: 1 - np.tanh(h)**2), "relu": (lambda h: np.maximum(h, 0), lambda h: (h > 0) * 1.0)}


def error_of_a_layer(phi: str, depth: int, alpha: float, gammas: tuple[float, float], seed: int, width: int = 160,
                     updates: int = 3) -> float:
    """The root mean square over coordinates, in the middle layer, after some updates by plain gradient descent of
    (f - f_0 - 1)^2/2, of x' = x + L^-alpha W2 phi(W1 x); the branch multiplier is left out of gradients."""
    act, slope = FUNCTIONS[phi]
    rng = np.random.default_rng([seed, depth])
    first = rng.standard_normal((2, depth, width, width)) / np.sqrt(width)
    start, readout = rng.standard_normal((2, width))
    weights, target = first.copy(), None
    for _ in range(updates):
        xs, hs = [start], []
        for l in range(depth):
            hs.append(weights[0, l] @ xs[-1])
            xs.append(xs[-1] + depth**-alpha * weights[1, l] @ act(hs[-1]))
        output = readout @ xs[-1] / width
        target = output + 1 if target is None else target
        back = (output - target) * readout
        for l in reversed(range(depth)):
            inner = slope(hs[l]) * (weights[1, l].T @ back)
            now = back + depth**-alpha * weights[0, l].T @ inner
            for number, (left, right) in enumerate(((inner, xs[l]), (back, act(hs[l])))):
                weights[number, l] -= depth**-gammas[number] * np.outer(left, right) / width
            back = now
    l, (d1, d2) = depth // 2, (weights - first)[:, depth // 2]
    x, (w1, w2) = xs[l], first[:, l]
    h = w1 @ x
    kept = (w2 + d2) @ act(h) + w2 @ (slope(h) * (d1 @ x))
    return float(np.sqrt(np.mean((depth**-alpha * ((w2 + d2) @ act(h + d1 @ x) - kept))**2)))


def measured_power(phi: str, alpha: float, gammas: tuple[float, float], seeds: int = 4) -> float:
    depths = (8, 16, 32, 64, 128)
    logs = [np.mean([np.log(error_of_a_layer(phi, depth, alpha, gammas, seed)) for seed in range(seeds)])
            for depth in depths]
    return float(np.polyfit(np.log(depths), logs, 1)[0])


@pytest.mark.parametrize("phi, gammas", [("tanh", (1, 0)), *(pytest.param(*case, marks=pytest.mark.slow) for case in (
    ("relu", (1, 0)), ("tanh", (0, 1)), ("relu", (0, 1)), ("tanh", (0, 0)), ("tanh", (0.5, 0.5))))])
def test_what_two_updates_do_together_is_counted(phi: str, gammas: tuple[float, float]) -> None:
    scale = tp.Parametrization(depth={"alpha": 1, "W1": gammas[0], "W2": gammas[1]})
    said = float(tp.classify(scale, tp.ResNet(phi, "mlp")).exponents[SAID])
    assert abs(measured_power(phi, 1.0, gammas, seeds=2) - said) < 0.3


def test_sublayers_are_expanded_from_streams_of_their_own() -> None:
    """The stream between attention and MLP is one, and what stands before a norm behind both is."""
    pairs = block_jet(tp.Transformer()).second
    assert ("W1", "W2") in pairs and ("Wk", "Wq") in pairs and ("W1", "Wo") not in pairs
    for position in ("pre", "post", "output", "sandwich"):
        assert ("W1", "W2") in block_jet(tp.ResNet("tanh", "mlp", norm="rms", norm_position=position)).second


def test_programs_and_networks_are_expanded_alike() -> None:
    alpha, gamma = (sp.Symbol(name, real=True) for name in ("alpha", "gamma"))
    net = tp.ResNet("relu", "mlp")
    written = tp.program(net, tp.SGD(), tp.DepthScaling(alpha, gamma))
    for point in ((1, 0), (1, 0.5)):
        assert tp.classify(*point, net).exponents[SAID] == tp.classify(*point, written).exponents[SAID]


def test_streams_are_what_a_later_layer_reads_of_any_multiple() -> None:
    """Drawn program 4 hands on halves of two layers before: W^T W acts on a stream, and its updates multiply."""
    drawn = deep_program(4).program
    for gamma in (0, 0.5):
        found = tp.classify(1, gamma, drawn).exponents
        assert found[SAID] == -1 + pair_power(SMOOTH, *2 * [found["change of h"]])


def test_a_matrix_that_makes_two_vectors_has_the_kink_of_either() -> None:
    """Drawn program 28 is x + L^-alpha W relu(W x): the pair (W, W) is straight in one use, and has a kink in the
    other."""
    drawn = deep_program(28).program
    for gamma in (0, 0.5):
        found = tp.classify(1, gamma, drawn).exponents
        assert found[SAID] == -1 + pair_power(KINK, *2 * [found["change of h"]])
