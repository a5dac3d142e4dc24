"""Layers that keep a part of the stream: they decay, explode or are refused, whatever their blocks do."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import example, given, settings, strategies as st

import tpcalc as tp
from tpcalc.limits.layer_map import NoStreams
from tpcalc.limits.slow_streams import normal_form
from tpcalc.programs.blocks import Branch
from tpcalc.programs.language import MatVec, Transpose

H = sp.Symbol("h")
NAMES = st.sampled_from(["linear", "tanh", "relu", "gelu", "silu", "abs"])
SCALE = tp.DepthScaling(sp.Rational(1, 2), sp.Rational(1, 2))


def tied(b: Branch) -> sp.Expr:
    return MatVec(Transpose(b.weights("W")), b.let("z", b.phi(b.let("h", MatVec(b.weights("W"), b.x)))))


def network(phi: object, block: object, keep: object) -> tp.ResNet:
    return tp.ResNet(phi, block, skip=tp.Skip(keep=keep))


@settings(max_examples=12, deadline=None)
@given(NAMES, st.sampled_from(["post_nonlin", "pre_nonlin", "mlp", "glu", tied]),
       st.fractions("-6/5", "6/5", max_denominator=20))
@example("relu", "mlp", Fraction(9, 10))
def test_what_layers_keep_decides(phi: str, block: object, keep: Fraction) -> None:
    if keep == 0:
        with pytest.raises(ValueError, match="expected a number other than 0"):
            network(phi, block, keep)
        return
    form = normal_form(tp.program(network(phi, block, keep), tp.SGD(), SCALE))
    assert (bool(form.explodes), bool(form.forgets)) == (abs(keep) > 1, abs(keep) < 1)


@pytest.mark.parametrize("phi", ["relu", "tanh"])
def test_real_networks_that_keep_less_decay_exponentially(phi: str) -> None:
    assert tp.classify(SCALE, network(phi, "mlp", 0.9)).name == "decays"
    rng, n, sizes = np.random.default_rng(7), 32, []
    function = {"relu": lambda h: np.maximum(h, 0), "tanh": np.tanh}[phi]
    for depth in (64, 128, 256):
        x = rng.standard_normal(n)
        for _ in range(depth):
            W1, W2 = rng.standard_normal((2, n, n)) / np.sqrt(n)
            x = 0.9 * x + W2 @ function(W1 @ x) / np.sqrt(depth)
        sizes.append(np.log(np.linalg.norm(x)))
    assert np.all(np.diff(sizes) < [-0.05 * 64, -0.05 * 128])


@pytest.mark.parametrize("net", [
    tp.ResNet("relu", norm="rms", skip=tp.Skip(keep=0.9)),  # what enters has the same size however small the stream is
    network(sp.tanh(H) + 1, "mlp", 0.9), network(sp.cos(H), "pre_nonlin", 0.9)], ids=str)
def test_what_enters_however_little_is_left_is_no_exponential_decay(net: tp.ResNet) -> None:
    with pytest.raises(NoStreams, match="its layers keep nothing of what they find, and .* enters"):
        normal_form(tp.program(net, tp.SGD(), SCALE))


def test_branches_of_order_one_are_not_small() -> None:
    scale = tp.DepthScaling(0, 1)
    with pytest.raises(NoStreams, match="not known to be a small multiple"):
        normal_form(tp.program(network("relu", "mlp", 0.9), tp.SGD(), scale))
