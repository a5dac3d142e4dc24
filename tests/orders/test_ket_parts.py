"""The parts of kets and of functions of them, read off the equations of a tanh network at its first step."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.calculus.kets import Hat, Ket
from tpcalc.orders import Sort
from tpcalc.orders.ket_parts import KetParts
from tpcalc.orders.parts import Parts
from tpcalc.orders.quantities import MEAN, STREAM, Label


class Reading(NamedTuple):
    """A pre-activation h, of its own layer's hat-ket, on a stream x, and their reader."""

    parts: KetParts
    h: Ket
    x: Ket
    fresh: Label


@pytest.fixture()
def reading() -> Reading:
    kets = tp.kets(tp.program(tp.ResNet("tanh"), tp.SGD(), tp.DepthScaling(*sp.symbols("alpha gamma", real=True))))
    parts, time = KetParts(kets), kets.setting.time
    by_name = {e.target.vector.name: e for e in kets.equations if isinstance(e.target, Ket)}
    h, x = (by_name[name].target.subs(time, 0) for name in ("h", "x"))
    hat, = (term for term in sp.Add.make_args(by_name["h"].value) if isinstance(term, Hat))
    fresh = parts.fresh(hat.subs(time, 0))
    parts.key(Sort.KET, fresh, 0, parts.family(h.vector))
    parts.key(Sort.KET, STREAM, 0, parts.family(x.vector))
    return Reading(parts, h, x, fresh)


def test_the_change_of_a_product_keeps_all_other_factors(reading: Reading) -> None:
    parts, function = reading.parts, sp.tanh(reading.h)
    others = {factor: rest for rest, factor in parts.slopes(reading.x * function, 0)}
    assert others == {reading.x: parts.parts(function, 0), function: parts.parts(reading.x, 0)}
    assert {label for label, _ in others[reading.x]} == {reading.fresh}


def test_an_odd_function_has_a_mean_where_its_argument_is_shifted_by_whatever_number(reading: Reading) -> None:
    def of_shifted(shift: sp.Expr) -> Parts:
        return reading.parts.parts(sp.tanh(reading.h + reading.x + shift), 0)

    assert not of_shifted(sp.Integer(0)).mean() and of_shifted(sp.Integer(2)).mean()
    assert of_shifted(sp.Integer(1)) == of_shifted(sp.Integer(2)) == of_shifted(sp.Rational(-1, 2))


def test_what_falls_far_out_is_small_by_the_size_in_the_mean_and_by_its_root_in_the_rest(reading: Reading) -> None:
    """E[g(s z)] is of order 1/s and E[g(s z)^2]^(1/2) of order s^(-1/2), for the slope g of tanh and a Gaussian z."""
    functions = reading.parts.functions
    powers = {label: {functions.nodes[factor][1] for one in size for factor in one.factors}
              for label, size in functions.value(1 - sp.tanh(reading.h) ** 2)}
    assert powers == {reading.fresh: {Fraction(-1, 2)}, MEAN: {Fraction(-1)}}
