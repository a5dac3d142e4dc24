"""Nodes of functions of kets, built from the equations of a tanh network and evaluated at its first step."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.asymptotics import Counted, SizeSolution
from tpcalc.asymptotics.expressions import Expressions
from tpcalc.asymptotics.graph import GraphNode
from tpcalc.asymptotics.parts import MEAN, Parts, label_of, sure_of
from tpcalc.calculus.kets import Hat, Ket


class Reading(NamedTuple):
    """A pre-activation h, of its own layer's hat-ket, on a stream x, and what builds nodes."""

    expressions: Expressions
    solution: SizeSolution
    h: Ket
    x: Ket
    fresh: int

    def value(self, node: GraphNode) -> Parts:
        self.solution.forget_values()
        return self.solution.value(node)


def reading_at(alpha: sp.Expr) -> Reading:
    symbols = sp.symbols("alpha gamma", real=True)
    kets = tp.kets(tp.program(tp.ResNet("tanh"), tp.SGD(), tp.DepthScaling(*symbols)))
    counted, time = Counted(kets), kets.setting.time
    solution = counted.at(dict(zip(symbols, (alpha, sp.Integer(1)))), steps=1)
    by_name = {e.target.vector.name: e for e in kets.equations if isinstance(e.target, Ket)}
    h, x = (by_name[name].target.subs(time, 0) for name in ("h", "x"))
    hat, = (term for term in sp.Add.make_args(by_name["h"].value) if isinstance(term, Hat))
    source = counted.reading.source(hat.subs(time, 0))
    return Reading(counted.entries.expressions, solution, h, x, label_of(source))


@pytest.fixture()
def reading() -> Reading:
    return reading_at(sp.Integer(1))


def test_the_change_of_a_product_keeps_all_other_factors(reading: Reading) -> None:
    parts, function = reading.expressions, sp.tanh(reading.h)
    others = {factor: rest for rest, factor in parts.slopes(reading.x * function, 0)}
    assert others == {reading.x: parts.parts(function, 0), function: parts.parts(reading.x, 0)}
    assert set(reading.value(others[reading.x])) == {reading.fresh}


def test_an_odd_function_has_a_mean_where_its_argument_is_shifted_by_whatever_number(reading: Reading) -> None:
    def of_shifted(shift: sp.Expr) -> Parts:
        return reading.value(reading.expressions.parts(sp.tanh(reading.h + reading.x + shift), 0))

    def has_mean(parts: Parts) -> bool:
        return any(not sure_of(label) for label in parts)

    assert not has_mean(of_shifted(sp.Integer(0))) and has_mean(of_shifted(sp.Integer(2)))
    assert of_shifted(sp.Integer(1)) == of_shifted(sp.Integer(2)) == of_shifted(sp.Rational(-1, 2))


def test_what_falls_far_out_is_small_by_the_size_in_the_mean_and_by_its_root_in_the_rest() -> None:
    """E[g(s z)] is of order 1/s and E[g(s z)^2]^(1/2) of order s^(-1/2), for the slope g of tanh and a Gaussian z of
    size s = L^(1/4), which h has at alpha = 1/4."""
    grown = reading_at(sp.Rational(1, 4))
    slope = grown.value(grown.expressions.functions.value(1 - sp.tanh(grown.h) ** 2))
    powers = {label: grown.solution.power(value).exponent for label, value in slope.items()}
    assert powers == {grown.fresh: -sp.Rational(1, 8), MEAN: -sp.Rational(1, 4)}
