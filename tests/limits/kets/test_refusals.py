"""What has no such limit is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.action.block_kernels import derive_block_kernels
from tpcalc.theory import MatVec


H = sp.Symbol("h", real=True)


@pytest.mark.parametrize("net, opt, says", [
    (tp.ResNet("tanh", "pre_nonlin"), tp.SGD(), "a function of a stream itself"),
    (tp.ResNet("tanh"), tp.SignSGD(0.1), "means over independent copies"),
    (tp.ResNet("tanh"), tp.Adam(0.1), "means over independent copies"),
    (tp.ResNet("tanh", "mlp", norm="rms", norm_position="post"), tp.SGD(), "no ket runs through its layers"),
    (tp.ResNet("tanh", skip=tp.Skip(0.5)), tp.SGD(), "no ket runs through its layers"),
    (tp.ResNet("tanh", "mlp", norm="rms", norm_scale=1 / sp.sqrt(sp.Symbol("l"))), tp.SGD(), "another way in each"),
    (tp.ResNet(readout="tanh"), tp.SGD(), "no sum of multiples of kets"),
    (tp.ResNet("tanh", readout="relu"), tp.SGD(), "no sum of multiples of kets"),
    (tp.ResNet(sp.Piecewise((H, H > 0), (H / 10, True))), tp.SGD(), "written in pieces"),
    (tp.Transformer(positions=2), tp.SGD(), "over a clock, a layer, a position")], ids=str)
def test_refused(net: tp.ResNet, opt: object, says: str) -> None:
    with pytest.raises(tp.NotCovered, match=says):
        tp.depth_limit(tp.kets(tp.program(net, opt, tp.DepthScaling())))


def twice(branch: tp.Branch) -> sp.Expr:
    h = branch.let("h", MatVec(branch.weights(), branch.x))
    return MatVec(branch.weights(), branch.let("z", branch.phi(h)))


def uncentered(branch: tp.Branch) -> sp.Expr:
    return branch.let("z", sp.cos(branch.let("h", MatVec(branch.weights(), branch.x))))


def with_stream(branch: tp.Branch) -> sp.Expr:
    return MatVec(branch.weights(), branch.x) - branch.x


def gated_by_stream(branch: tp.Branch) -> sp.Expr:
    h = branch.let("h", MatVec(branch.weights(), branch.x))
    return MatVec(branch.weights("O"), branch.let("z", branch.x * branch.phi(h)))


def mixed(branch: tp.Branch) -> sp.Expr:
    u, v = (branch.let(n, MatVec(branch.weights(m), branch.x)) for n, m in (("u", "A"), ("v", "B")))
    return MatVec(branch.weights("O"), branch.let("z", sp.tanh(u + v)))


@pytest.mark.parametrize("block, says", [
    (twice, "are products of one matrix"), (uncentered, "has a mean that is not zero"),
    (with_stream, "adds a stream itself"), (gated_by_stream, "a function of the stream itself beside a product"),
    (mixed, "a function of several products")])
def test_blocks_that_do_not_close(block: Any, says: str) -> None:
    """Those that the action refuses, too."""
    net = tp.ResNet("tanh", block)
    with pytest.raises(tp.NotCovered, match=says):
        tp.depth_limit(tp.kets(tp.program(net, tp.SGD(), tp.DepthScaling())))
    with pytest.raises(tp.NotCovered):
        derive_block_kernels(net)
