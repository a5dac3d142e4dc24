"""Verdicts on skips that grow, forget, inject or cancel."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters.program_coefficients import read_program_coefficients
from tpcalc.programs.blocks import Branch
from tpcalc.programs.language import MatVec

L, QUARTER = sp.Symbol("L"), sp.Rational(1, 4)


@pytest.mark.parametrize("keep", [L**QUARTER, (2 * L) ** QUARTER, sp.sqrt(L), L, L / 2, -L, 1 + L, sp.Integer(2)],
                         ids=str)
def test_what_is_kept_more_than_once_explodes(keep: sp.Expr) -> None:
    """Real networks grow by this factor in every layer."""
    assert tp.classify(0.5, 0.5, tp.ResNet(skip=tp.Skip(keep=keep))).name == "explodes at initialization"


@pytest.mark.parametrize("keep, name", [(0.9, "decays"), (1 - 1 / L, "Depth-muP"), (1 - 2 / L, "Depth-muP")])
def test_what_is_damped(keep: sp.Expr, name: str) -> None:
    assert tp.classify(0.5, 0.5, tp.ResNet(skip=tp.Skip(keep=keep))).name == name


def test_dampings_of_several_powers_are_as_large_as_the_largest() -> None:
    """Real networks decay: a layer takes away 1/L and L^(-1/2)/2 of the stream; at alpha = 3/2 the former alone."""
    def block(b: Branch) -> sp.Expr:
        return MatVec(b.weights(), b.x) - b.x / 2

    damped = tp.ResNet(block=block, skip=tp.Skip(keep=1 - 1 / L))
    assert [tp.classify(alpha, 0.5, damped).name for alpha in (0.5, 1.5)] == ["decays", "trivial"]


LOCATIONS = [(0.5, 0.5), (1, 0), (0.5, 0.25), (1, 0.25), (0.25, 0.75)]


def test_a_linear_stream_that_alternates_in_sign_is_one_that_does_not() -> None:
    """With (-1)^l x^l for x^l its layers are those with -W for W, which has the same law."""
    turned, task, how = tp.ResNet(skip=tp.Skip(keep=-1)), tp.Task([1.0, 0.5], [1.0, -1.0]), dict(width=8)
    plain = tp.train(tp.ResNet(), task, tp.SGD(0.5), tp.DepthScaling(), 4, method="dense", **how)
    weights = plain.initial_weights()
    method = tp.methods.Dense(weights={**weights, "W": -weights["W"]})
    again = tp.train(turned, task, tp.SGD(0.5), tp.DepthScaling(), 4, method=method, **how)
    assert np.abs(again.outputs - plain.outputs).max() < 1e-12
    for alpha, gamma in LOCATIONS:
        ours, theirs = (tp.classify(alpha, gamma, net) for net in (turned, tp.ResNet()))
        assert (ours.name, ours.exponents) == (theirs.name, theirs.exponents)


@pytest.mark.parametrize("alpha, gamma", LOCATIONS[:4])
def test_verdicts_on_alternating_streams_are_slopes(alpha: float, gamma: float) -> None:
    net = tp.ResNet(skip=tp.Skip(keep=-1))
    program = tp.program(net, tp.SGD(1.0), tp.DepthScaling(alpha, gamma))
    moved = [read_program_coefficients(program, {"T": 2, "L": depth}, {"xi": [1, 0.5], "y": [1, 1]}).series("f")[1]
             for depth in (8, 16, 32)]
    slopes = np.diff(np.log2(np.abs(moved)))
    assert abs(2 * slopes[1] - slopes[0] - float(tp.classify(alpha, gamma, net).exponents["change of f"])) < 0.03


def test_a_stream_that_is_injected_does_not_decay() -> None:
    """It goes to x^0 / (1 - keep), and gradients alone are forgotten."""
    net = tp.ResNet(skip=tp.Skip(keep=0.9, inject=1))
    with pytest.raises(ValueError, match="layers forget"):
        tp.classify(0.5, 0.5, net)
    for depth in (32, 64):
        runs = [tp.train(net, tp.Task([1.0], [1.0]), tp.SGD(1e-3), tp.DepthScaling(1, 0), depth, width=64, seed=seed,
                         method="dense").forward_covariance for seed in range(16)]
        grown = np.array([run[-1][0, 0] / run[0][0, 0] for run in runs])
        error = grown.std(ddof=1) / 4
        assert error < 0.5 and abs(grown.mean() - injected(0.9, depth)) < 3 * error


def injected(keep: float, depth: int) -> float:
    """E (x^L)^2 / E (x^0)^2 of x^l = keep x^(l-1) + x^0 + W x^(l-1) / L, from E x^l x^0 and E (x^l)^2 by layers."""
    start = square = 1.0
    for _ in range(depth):
        square = keep**2 * square + 2 * keep * start + 1 + square / depth**2
        start = keep * start + 1
    return square


def test_streams_that_cancel_are_refused() -> None:
    with pytest.raises(ValueError, match=r"reads: got \(1, -1\)"):
        tp.HyperConnections(reads=(1, -1))


def test_a_perceptron_behind_a_convolution_is_refused_by_name() -> None:
    from tpcalc.models.convolution import Convolution

    net = tp.Transformer(positions=3, attention=Convolution(3, 3), mlp="mlp", norm=None, phi="tanh")
    with pytest.raises(ValueError, match="mlp: got mlp with a convolution"):
        tp.classify(0.5, 0.5, net)
