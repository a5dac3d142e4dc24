"""A network class written outside of the package is judged by what it states, as one of the package is."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.models.network import Layer, Network
from tpcalc.programs.blocks import Branch, vector
from tpcalc.programs.indices import l
from tpcalc.programs.language import MatVec
from tpcalc.programs.program import Assign


@dataclass(frozen=True)
class Twice(Network):
    """x + eps V tanh(W x), stated without any of the classes of the package."""

    phi: str = "tanh"
    norm: str | None = None
    train_embedding_readout: bool = False
    positions: int | None = None
    takes = tp.Task
    title = "two matrices"
    is_linear = is_plain = False

    def layer(self, sample: tuple[sp.Expr, ...], eps: sp.Expr) -> Layer:
        before, after = (vector("x")[(*sample, at)] for at in (l - 1, l))
        branch = Branch(before, sp.tanh, False, sample)
        hidden = branch.let("a", sp.tanh(branch.let("h", MatVec(branch.weights("W1"), before))))
        branch.statements.append(Assign(after, before + eps * MatVec(branch.weights("W2"), hidden)))
        return Layer.of(branch)

    def frozen(self) -> Network:
        return self


@pytest.mark.parametrize("at", [(0.5, 0.5), (1, 0), (0.5, 0)])
def test_verdicts_are_those_of_the_package(at: tuple[float, float]) -> None:
    ours, theirs = tp.ResNet("tanh", "mlp"), Twice()
    for opt in ("sgd", "adam", tp.Clipped(tp.SGD(), 1.0)):
        found, expected = (tp.classify(*at, net, opt) for net in (theirs, ours))
        assert (found.name, found.exponents) == (expected.name, expected.exponents)


def test_powers_are_solved_for() -> None:
    ours, theirs = (tp.solve(net, want=("stable", "diverse")) for net in (tp.ResNet("tanh", "mlp"), Twice()))
    assert theirs.region == ours.region


def test_several_positions_without_a_transformer_are_refused() -> None:
    with pytest.raises(tp.NotCovered, match="of networks of several positions"):
        tp.classify(0.5, 0.5, Twice(positions=2))
