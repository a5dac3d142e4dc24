"""Weight decay on nonlinear residual networks: counted powers of L against slopes of networks in plain NumPy."""

from __future__ import annotations

from typing import Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.nightly import few_of

Function = Callable[[np.ndarray], np.ndarray]
FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "tanh": (np.tanh, lambda x: 1 - np.tanh(x)**2),
    "relu": (lambda x: np.maximum(x, 0), lambda x: (x > 0).astype(float))}
HALF = sp.Rational(1, 2)
POINTS = (HALF, HALF), (sp.Integer(1), sp.Integer(0)), (sp.Integer(1), HALF)
RATE, DECAY, WIDTH, DEPTHS, SEEDS = 0.5, 0.3, 96, (16, 64), 3
SAID = {"change of x": 0, "change of f": 1, "change of h": 2}


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def first_changes(phi: str, normed: bool, alpha: float, gamma: float, depth: int, seed: int) -> list[float]:
    """Root mean squares of what one update changes: the last stream, the output, what matrices make."""
    function, slope = FUNCTIONS[phi]
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(depth, WIDTH, WIDTH)) / np.sqrt(WIDTH)
    embedding, readout = rng.normal(size=WIDTH), rng.normal(size=WIDTH)
    eps, found = depth**-alpha, []
    for _ in range(2):
        x, read, made = embedding, [], []
        for matrix in weights:
            over = rms(x) if normed else 1.0
            read.append((x / over, over))
            made.append(matrix @ function(x / over))
            x = x + eps * made[-1]
        output = readout @ x / WIDTH
        found.append((x, output, np.array(made)))
        gradient = readout * (output - 1)
        for layer in reversed(range(depth)):
            y, over = read[layer]
            back = eps * (weights[layer].T @ gradient) * slope(y)
            if normed:
                back = (back - y * (y @ back) / WIDTH) / over
            step = RATE * depth**-gamma * np.outer(gradient, function(y)) / WIDTH
            weights[layer] = (1 - RATE * DECAY) * weights[layer] - step
            gradient = gradient + back
    (x, f, h), (x_after, f_after, h_after) = found
    return [rms(x_after - x), abs(f_after - f), rms(h_after - h)]


NETS = [("tanh", None), ("relu", None), ("relu", "rms")]


@pytest.mark.parametrize("phi, norm, alpha, gamma", few_of(((*one, *point) for one in NETS for point in POINTS), *(
    (*one, *POINTS[k % len(POINTS)]) for k, one in enumerate(NETS)), *((*NETS[0], *point) for point in POINTS)))
def test_slopes_are_what_is_counted(phi: str, norm: str | None, alpha: sp.Expr, gamma: sp.Expr) -> None:
    verdict = tp.classify(alpha, gamma, tp.ResNet(phi, norm=norm), tp.SGD(RATE, weight_decay=DECAY))
    sizes = [np.sqrt(np.mean([np.square(first_changes(phi, bool(norm), float(alpha), float(gamma), depth, seed))
                              for seed in range(SEEDS)], axis=0)) for depth in DEPTHS]
    slopes = np.polyfit(np.log(DEPTHS), np.log(sizes), 1)[0]
    for name, number in SAID.items():
        assert abs(slopes[number] - float(verdict.exponents[name])) < 0.15, name
