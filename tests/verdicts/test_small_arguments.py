"""Functions of what falls with the depth: right, or refused by name, never counted as if it were of order one."""

from __future__ import annotations

from typing import Callable

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.programs.blocks import Block, Branch
from tpcalc.programs.indices import L
from tpcalc.programs.language import MatVec

HALF = sp.Rational(1, 2)
BOUNDED: list[Callable[[sp.Expr], sp.Expr]] = [sp.tanh, sp.cos, lambda u: u * sp.exp(-u**2)]


def block(function: Callable[[sp.Expr], sp.Expr], power: sp.Expr, named: bool) -> Block:
    """W f(x / L^power), the argument under a name of its own or not."""
    def written(b: Branch) -> sp.Expr:
        small = b.x / L**power
        return MatVec(b.weights(), b.let("z", function(b.let("h", small) if named else small)))
    return written


@pytest.mark.parametrize("function", BOUNDED, ids=("tanh", "cos", "bump"))
def test_bounded_functions_of_what_falls_are_refused(function: Callable[[sp.Expr], sp.Expr]) -> None:
    """W tanh(x / sqrt(L)) is as large as W x / sqrt(L), not as W tanh(x)."""
    for named in (False, True):
        assert tp.classify(HALF, HALF, tp.ResNet("tanh", block(function, sp.Integer(0), named))).name == "Depth-muP"
        with pytest.raises(ValueError, match="falls with the depth" if named else "a name of its own"):
            tp.classify(HALF, HALF, tp.ResNet("tanh", block(function, HALF, named)))


def test_homogeneous_functions_of_what_falls_are_counted() -> None:
    """relu(x / sqrt(L)) is relu(x) / sqrt(L): a branch multiplier and an update smaller by that."""
    one = tp.classify(HALF, HALF, tp.ResNet("relu", block(lambda u: sp.Max(u, 0), HALF, True)))
    other = tp.classify(1, 1, tp.ResNet("relu", block(lambda u: sp.Max(u, 0), sp.Integer(0), True)))
    shared = ("x at initialization", "change of f", "noise of x over a piece")
    assert one.name == other.name == "trivial"
    assert [one.exponents[name] for name in shared] == [other.exponents[name] for name in shared]
