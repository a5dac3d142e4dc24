"""The regime of infinite depth comes from a network's own program: which terms survive, and what grows elsewhere."""

from __future__ import annotations

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.propagators.limit_cell import limit_cell, regime
from tpcalc.programs.blocks import Branch
from tpcalc.programs.language import MatVec, Mean

H, Q = sp.Rational(1, 2), sp.Rational(1, 4)
h = sp.Symbol("h", real=True)


def named(b: Branch) -> sp.Expr:
    return b.let("h", MatVec(b.weights(), b.x))


def plus(b: Branch) -> sp.Expr:
    return MatVec(b.weights(), b.x) + b.x


def minus(b: Branch) -> sp.Expr:
    return MatVec(b.weights(), b.x) - b.x / 2


def unnamed_mean(b: Branch) -> sp.Expr:
    """A centered activation without a name for it."""
    z = b.phi(b.let("h", MatVec(b.weights(), b.x)))
    return z - Mean(z)


BOUNDED_BEHIND_NORM = tp.ResNet("tanh", norm="rms")
FAST = [tp.ResNet(), tp.ResNet("relu"), tp.ResNet(block=named), tp.ResNet("tanh", train_embedding_readout=True),
        tp.ResNet("linear", "mlp", matrices=9)]
SLOW = [tp.ResNet("tanh"), tp.ResNet("linear", "mlp"), tp.ResNet("tanh", "mlp"), tp.ResNet("linear", "mlp", matrices=3),
        BOUNDED_BEHIND_NORM, tp.ResNet(sp.sin(h + H)), tp.ResNet("relu", block=unnamed_mean)]


@pytest.mark.parametrize("net", [*FAST, *(pytest.param(net, marks=pytest.mark.slow) for net in SLOW)],
                         ids=range(len(FAST) + len(SLOW)))
def test_regimes(net: tp.ResNet) -> None:
    """Noise survives at alpha = 1/2 alone, drift at alpha + gamma = 1 alone, for every block of one fresh matrix or
    more: their orders are not those of other networks by decree, but they agree. Behind a norm a bounded function's
    stream grows like a power, which outputs tell first after an update."""
    for alpha, gamma in ((H, H), (3 * Q, Q), (H, sp.Integer(1)), (3 * Q, 3 * Q)):
        found = regime(net, alpha, gamma)
        assert (found.noise, found.drift, found.obstacle) == (alpha == H, alpha + gamma == 1, "")
    at_once = ("first update",) if net == BOUNDED_BEHIND_NORM else ("at initialization", "step 1")
    for alpha, gamma, step in ((Q, H, at_once), (H, Q, ("step 1", "first update"))):
        with pytest.raises(tp.Divergence, match=rf"alpha = {alpha}, gamma = {gamma} given.*needs") as caught:
            limit_cell(tp.DepthScaling(alpha, gamma), net)
        assert any(when in str(caught.value) for when in step)


def test_what_grows_is_the_nets_own() -> None:
    """At alpha = 1/4 the stream of tanh grows like L^(1/4), and the slopes are small where it is large; a root mean
    square holds the stream's arguments: what an update adds is L^(1 - alpha - gamma) at most, and no exponential. Those
    of a linear network are exp(L^(1/2))."""
    grows = {net: regime(net, Q, H).obstacle for net in (tp.ResNet(), tp.ResNet("tanh"), tp.ResNet(norm="rms"))}
    assert list(grows.values()) == ["the network explodes at initialization like exp(L^(1/2))",
                                    "the network explodes at initialization like exp(L^(1/4))",
                                    "the first update moves the output by L^(1/4)"]


def test_the_stream_itself_in_the_block() -> None:
    """W x + x grows like exp(L^(1 - alpha)), W x - x/2 decays: neither is the plain linear network's problem."""
    task = tp.Task((1, .8, -.6), (1, -.7, .5))
    for block, reason in ((plus, "explodes at initialization like exp"), (minus, "decays: its layers forget")):
        net = tp.ResNet(block=block)
        for alpha, gamma in ((H, H), (3 * Q, Q), (H, sp.Integer(1))):
            assert reason in regime(net, alpha, gamma).obstacle
            scale = tp.DepthScaling(alpha, gamma)
            with pytest.raises(ValueError, match="contains the stream itself"):
                tp.train(net, task, tp.SGD(), scale, depth=tp.oo, method="collocation")
            for call in (lambda: limit_cell(scale, net), lambda: tp.train(net, task, tp.SGD(), scale, depth=tp.oo)):
                with pytest.raises(tp.Divergence, match=reason):
                    call()


def test_what_cannot_be_counted() -> None:
    """Without a count the powers of L are those of kernels of order one; without kernels there is no answer."""
    assert regime(tp.ResNet("tanh"), sp.sqrt(2) / 2, 1 - sp.sqrt(2) / 2) == regime(tp.ResNet("tanh"), 3 * Q, Q)
    with pytest.raises(ValueError, match="does not close on kernels"):
        regime(tp.ResNet("tanh", "pre_nonlin"), sp.sqrt(2) / 2, H)
