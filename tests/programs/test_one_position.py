"""One position that stands for all: softmax of two by a logistic function, terms once, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.verdicts.counted import two_positions
from tpcalc.interpreters.dense import run_dense
from tpcalc.programs.blocks import Branch
from tpcalc.programs.indices import m, p
from tpcalc.programs.language import HeadSum, MatVec
from tpcalc.programs.one_position import one_position

RNG = np.random.default_rng(5)
SCALE = tp.DepthScaling(0.5, 0.5)


@pytest.mark.parametrize("causal", [True, False])
def test_softmax_of_two_scores_is_a_logistic_function(causal: bool) -> None:
    """Three steps of training, with gradients through either form."""
    net = tp.Transformer(head_dim=1, positions=2, causal=causal)
    programs = [tp.program(net, tp.SGD(), SCALE), two_positions(net, tp.SGD(), SCALE)]
    data = {"xi": RNG.standard_normal((3, 2)), "y": RNG.standard_normal((3, 2))}
    one, two = (run_dense(program, {"T": 3, "L": 2, "P": 2}, data, width=16).series("f") for program in programs)
    assert np.abs(one - two).max() < 1e-12 and np.abs(one[1] - one[0]).max() > 1e-2


def linear(b: Branch) -> sp.Expr:
    q, k, v = (b.let(name, MatVec(b.weights("W" + name), b.x)) for name in ("q", "k", "u"))
    return MatVec(b.weights("Wo"), b.let_total("mixed", HeadSum(q * b.other(k), 2) / 2 * b.other(v)))


def test_positions_are_joined_and_heads_have_one_coordinate() -> None:
    net = tp.Transformer(head_dim=2, positions=3, attention=linear, mlp=None, norm=None)
    lines = [line.strip() for line in str(one_position(tp.program(net, tp.SGD(), SCALE))).splitlines()]
    assert "mixed[t, l] := k[t, l]*q[t, l]*u[t, l]/2" in lines
    assert [line.count("outer") for line in lines if line.startswith("Wu[t + 1, l]")] == [1]
    assert not any("Sum" in line or "headsum" in line or ", p" in line for line in lines)


def test_functions_in_products_have_names() -> None:
    """So that their parts are counted once; but h times a function of h is one function."""
    net = tp.Transformer(head_dim=1, positions=2, attention=linear, mlp="glu", phi="gelu")
    lines = [line.strip() for line in str(one_position(tp.program(net, tp.SGD(), SCALE))).splitlines()]
    assert "z[t, l] := v[t, l]*z_0[t, l]/2" in lines
    assert not any(":= (erf" in line and "v[t" in line for line in lines)
    assert any(line.startswith("z_0[t, l] := ") and "erf" in line and "h[t, l]" in line for line in lines)


def apart(b: Branch) -> sp.Expr:
    v = b.let("v", MatVec(b.weights("V"), b.x))
    return b.let_total("apart", v - b.other(v))


def contrasted(b: Branch) -> sp.Expr:
    v = b.let("v", MatVec(b.weights("V"), b.x))
    return b.let_total("contrast", sp.tanh(v - b.other(v)))


def shifted(b: Branch) -> sp.Expr:
    v = b.let("v", MatVec(b.weights("V"), b.x))
    return b.let_total("before", sp.Piecewise((1, m < p), (0, True)) * b.other(v))


@pytest.mark.parametrize("attention, said", [
    (apart, "vanish|of itself"), (contrasted, "vanishes where positions are alike"), (shifted, "of itself")])
def test_positions_that_are_not_alike_are_refused(attention: object, said: str) -> None:
    net = tp.Transformer(head_dim=1, positions=2, attention=attention, mlp=None, norm=None)
    with pytest.raises(ValueError, match=said):
        one_position(tp.program(net, tp.SGD(), SCALE))
