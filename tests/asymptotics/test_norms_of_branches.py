"""Streams that add vectors over their own size: rms x <= rms x_0 + L^(1 - alpha), and L^(1/2 - alpha) at first."""

from __future__ import annotations

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.programs.blocks import Branch
from tpcalc.programs.language import MatVec

HALF, QUARTER = sp.Rational(1, 2), sp.Rational(1, 4)


def gated(b: Branch) -> sp.Expr:
    h, z = (b.let(name, MatVec(b.weights(matrix), b.x)) for name, matrix in (("h", "W1"), ("z", "W2")))
    return MatVec(b.weights("W3"), b.let("g", h * z))


@pytest.mark.parametrize("alpha, block", [
    (0, "post_nonlin"), (QUARTER, "post_nonlin"), (1, "post_nonlin"), (1, gated),
    *(pytest.param(alpha, gated, marks=pytest.mark.nightly) for alpha in (0, QUARTER))])
def test_a_stream_grows_like_a_root_of_the_layers(alpha: sp.Expr, block: object) -> None:
    """However much larger than the stream, or its square, branches are before they are divided."""
    verdict = tp.classify(alpha, 1, tp.ResNet("linear", block, "rms", norm_position="output"))
    assert verdict.exponents["x at initialization"] == max(HALF - alpha, 0)


def test_a_small_part_of_what_is_divided_stays_small() -> None:
    """tanh(x) in a branch with W x is divided by the size of both: where the stream grows, the powers that it would
    have pass into each other, x = L^(1/2) and 0 in turn, and nothing is said of it."""
    net = tp.ResNet(norm="rms", norm_position="output", block=lambda b: MatVec(b.weights(), b.x) + sp.tanh(b.x))
    with pytest.raises(tp.NotCovered):
        tp.classify(HALF, HALF, net)
    assert tp.classify(1, 0, net).name == "ODE limit"


@pytest.mark.parametrize("net", [tp.Transformer(norm="rms", norm_position="output", mlp=None),
                                 tp.ResNet(norm="rms", norm_position="output")], ids=lambda net: type(net).__name__)
def test_transformers_and_residual_networks_give_the_same_answer(net: object) -> None:
    assert tp.classify(0, 1, net).exponents["x at initialization"] == HALF


@pytest.mark.parametrize("alpha", [HALF, 1])
def test_a_layer_norm_is_as_large_as_a_root_mean_square(alpha: sp.Expr) -> None:
    """What it divides is a vector of its own, of which an update is a small part: as if it were all, the stream was
    said to grow and its change not to be known; 16 real networks have L^(-.06 +- .04) at (1/2, 1/2)."""
    layer, rms = (tp.classify(alpha, HALF, tp.ResNet("linear", "pre_nonlin", norm, norm_position="output"))
                  for norm in ("layer", "rms"))
    assert layer.name == rms.name and layer.exponents == rms.exponents and layer.bounds == rms.bounds
