"""Norms of what layers hand on: x = N(x + eps f(x)) is y over its root mean square, y + eps rms(y) f(y / rms y)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.verdicts.post_norms import POST, without_post_norms

H, L = sp.Rational(1, 2), sp.Symbol("L")
DEEP = tp.Skip(keep=(2 * L) ** (H / 2))  # DeepNorm's


def post(*given: object, **more: object) -> tp.ResNet:
    return tp.ResNet(*given, **{"norm": "rms", "norm_position": "post", **more})


@pytest.mark.parametrize("net", [post("tanh", "mlp"), post("relu", "mlp", norm="layer"), post("silu", "glu", skip=DEEP),
                                 post("tanh", norm="layer", skip=tp.Skip(keep=H))], ids=str)
def test_it_is_the_same_network_up_to_the_last_norm(net: tp.ResNet, depth: int = 5, width: int = 12) -> None:
    """Outputs of three readouts are those of the stream without norms, all over one number: its root mean square."""
    rng = np.random.default_rng(3)
    start = rng.normal(size=width)
    start -= start.mean()
    weights = {name: rng.normal(size=(depth, width, width)) / np.sqrt(width) for name in net.matrices_of_block}
    ends = {"U": start / np.sqrt(np.mean(start**2)), "nV": rng.normal(size=(3, width))}

    def outputs(one: tp.ResNet) -> np.ndarray:
        return tp.train(one, tp.Task([1], [[0, 0, 0]]), tp.SGD(), tp.DepthScaling(0, 0), depth=depth, width=width,
                        method=tp.methods.Dense(weights={**weights, **ends})).outputs.ravel()

    ratio = outputs(without_post_norms(net)) / outputs(net)
    assert np.ptp(ratio) < 1e-9 * ratio[0] and ratio[0] > 1.1


@pytest.mark.parametrize("point", [(H, H), (1, 0), (1, H)], ids=str)
def test_powers_are_those_of_a_norm_before_the_block(point: tuple[sp.Expr, sp.Expr]) -> None:
    there = tp.classify(*point, post("tanh", "mlp"))
    before = tp.classify(*point, tp.ResNet("tanh", "mlp", "rms"))
    assert (there.name, there.exponents, there.bounds) == (before.name, before.exponents, before.bounds)
    assert POST in there.assumptions and POST not in before.assumptions


def test_deep_norm_divides_branches() -> None:
    """(2 L)^(1/4) x + eps f is x + eps (2 L)^(-1/4) f, up to a number that the norm takes away; gradients have it, too.
    """
    at = tp.classify(H / 2, H / 2, post("relu", "mlp", skip=DEEP, norm="layer"))
    plain = tp.classify(H, H, post("relu", "mlp", norm="layer"))
    names = ("x at initialization", "change of x", "change of f", "change of h")
    assert [at.exponents[name] for name in names] == [plain.exponents[name] for name in names]


@pytest.mark.parametrize("point", [(0, 1), (H / 2, 1), (1, -H)], ids=str)
def test_what_norms_hold_is_refused(point: tuple[sp.Expr, sp.Expr]) -> None:
    net = post("tanh", "mlp")
    with pytest.raises(tp.NotCovered, match="norm_position: got 'post' at alpha") as refused:
        tp.classify(*point, net)
    assert repr(net) in str(refused.value) and "ScaledSkip" not in str(refused.value)


def test_a_stream_that_decays_before_its_norm_is_refused() -> None:
    """x - L^(-1/2) tanh(x) is no smaller once it is normalized."""
    with pytest.raises(tp.NotCovered):
        tp.classify(H, H, post("linear", lambda b: tp.theory.MatVec(b.weights(), b.x) - sp.tanh(b.x)))


def test_transformers_too() -> None:
    net = tp.Transformer(norm="rms", norm_position="post", mlp=None)
    assert tp.classify(1, 0, net).name == tp.classify(1, 0, replace(net, norm_position="pre")).name == "ODE limit"


def test_what_no_rule_moves_stays_as_it_is() -> None:
    for net in (tp.ResNet("tanh", norm="rms"), post("tanh", gains=True), post("tanh", skip=tp.Skip(inject=H)),
                post("tanh", skip=tp.HyperConnections())):
        assert without_post_norms(net) is net
