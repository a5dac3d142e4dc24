"""Powers of another growing variable than the depth."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.asymptotics import KET, Counted, Unknown

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)


@pytest.mark.parametrize("net", [tp.ResNet(), tp.ResNet("tanh")], ids=str)
def test_in_another_growing_variable_layers_are_a_number_of_order_one(net: tp.ResNet) -> None:
    """Branch multipliers m^-alpha in a size m that is not the depth: a sum over the layers is then no power of m."""
    kets = tp.kets(tp.program(net, tp.SGD(), tp.DepthScaling(ALPHA, GAMMA)))
    depth, other = kets.setting.depth, sp.Symbol("m", positive=True)
    equations = replace(kets, equations=tuple(replace(e, value=e.value.replace(
        lambda p: isinstance(p, sp.Pow) and p.base == depth, lambda p: other**p.exp)) for e in kets.equations))
    assert Counted(equations).parameters == () and Counted(equations, other).parameters == (ALPHA, GAMMA)
    point = {ALPHA: sp.Rational(3, 2), GAMMA: sp.Rational(1, 4)}
    of_depth, of_other = Counted(kets).at(point, 1), Counted(equations, other).at(point, 1)
    gained = {"layers": 1, "independent layers": Fraction(1, 2), "": 0}
    compared = 0
    for family in of_depth.counted.reading.of_family:
        sweeps, without = ({(str(one.term), one.rule): found.power(one.value).exponent
                            for one in found.terms(Unknown(KET, 0, family))} for found in (of_depth, of_other))
        own = {rule: exponent + gained[rule] for (_, rule), exponent in without.items()}
        assert own == {rule: exponent for (_, rule), exponent in sweeps.items()}
        compared += len(own)
    assert compared >= 4
