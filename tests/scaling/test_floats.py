"""What a float or a text means as a power of the depth."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, strategies as st

import tpcalc as tp
from tpcalc import _checks
from tpcalc._checks import NEAR, least_denominator
from tpcalc._numbers import from_text

GRIDS = [(0.5, 1, 7), (0.5, 1, 11), (0.5, 1, 31), (0, 1, 13), (0.5, 1, 50), (0.5, 2, 97)]


@pytest.mark.parametrize("low, high, points", GRIDS)
def test_grids_of_floats_are_read_as_the_fractions_they_are_meant_to_be(low: float, high: float, points: int) -> None:
    meant = [Fraction(low) + (Fraction(high) - Fraction(low)) * k / (points - 1) for k in range(points)]
    for a, exactly in zip(np.linspace(low, high, points), meant):
        scale = tp.DepthScaling(a, 1 - a)
        assert scale.alpha == sp.Rational(exactly.numerator, exactly.denominator)
        assert scale.alpha + scale.gamma == 1


@given(st.integers(1, 10**4), st.data())
def test_a_and_1_minus_a_are_read_alike(q: int, data: st.DataObject) -> None:
    p = data.draw(st.integers(0, q))
    scale = tp.DepthScaling(p / q, 1 - p / q)
    assert scale.alpha == sp.Rational(p, q) and scale.gamma == 1 - sp.Rational(p, q)


def test_verdicts_on_a_grid_of_floats() -> None:
    names = [tp.classify(a, 1 - a).name for a in np.linspace(.5, 1, 7)]
    assert names == ["Depth-muP"] + ["ODE limit"] * 6


def test_training_at_sevenths_and_twelfths_moves() -> None:
    task = tp.Task([1, 0.8], [1, -0.7])
    rounded = tp.train(tp.ResNet(), task, tp.SGD(), tp.DepthScaling(7 / 12, 5 / 12), tp.oo)
    exactly = tp.train(tp.ResNet(), task, tp.SGD(), tp.DepthScaling(sp.Rational(7, 12), "5/12"), tp.oo)
    assert np.array_equal(rounded.outputs, exactly.outputs) and abs(rounded.outputs[1, 0, 0]) > 0.5


@pytest.mark.parametrize("given_value, meant", [
    (0.5000001, "5000001/10000000"), (1 - 0.5000001, "4999999/10000000"), (0.1 + 0.2, "3/10"), (1e-20, "0"),
    (-2 / 3, "-2/3"), (3.0, "3"), (2.5e10, "25000000000"), ("1/2", "1/2"), ("0.1", "1/10"), ("1e-3", "1/1000"),
    (" -7/12 ", "-7/12"), ("0.6667", "6667/10000"), (Fraction(2, 3), "2/3"), (Decimal("0.1"), "1/10"),
    (np.float32(2 / 3), "2/3"), (np.float16(1 / 3), "1/3"), (np.array(0.1), "1/10"), (sp.Float(2 / 3), "2/3"),
    (np.longdouble(1) / 3, "1/3"), (np.int64(1), "1"), (Decimal("-0.25"), "-1/4"), (np.str_("2/3"), "2/3")])
def test_what_was_read_can_be_seen(given_value: Any, meant: str) -> None:
    assert repr(tp.DepthScaling(given_value)).startswith(f"DepthScaling(alpha={meant}, ")


@given(st.fractions(-3, 3), st.fractions(Fraction(1, 2**60), Fraction(1, 100)))
def test_no_fraction_of_less_denominator_is_as_near(value: Fraction, within: Fraction) -> None:
    found = least_denominator(value, within)
    assert abs(found - value) <= within
    for q in range(1, min(found.denominator, 300)):
        assert abs(Fraction(round(value * q), q) - value) > within
    assert least_denominator(1 - value, within) == 1 - found


def test_two_floats_apart_by_more_than_rounding_stay_apart() -> None:
    half = least_denominator(Fraction(0.5 + 2**-51))
    assert half != Fraction(1, 2) and abs(half - Fraction(0.5 + 2**-51)) <= NEAR


@pytest.mark.parametrize("text", ["half", "", "1/0", "nan", "inf", "1e999999999", "1e-500", "2*3", "1j", "alpha"])
def test_text_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="alpha: got .*; expected"):
        tp.DepthScaling(text, .5)
    with pytest.raises(ValueError):
        from_text("1e400000000")


ENDLESS = [Decimal("1e999999999"), Decimal("-1e-999999999"), Decimal("nan"), Decimal("inf"), "1e999999999",
           "1E+999_999", "-.5e-999999999", sp.sympify(Decimal("1e99999999")),
           1 + sp.Symbol("x", real=True) * sp.sympify(Decimal("1e-99999999")),
           sp.Pow(10, 10**9, evaluate=False), sp.Pow(sp.Rational(2, 3), -10**9, evaluate=False),
           sp.Pow(2, sp.Pow(10, 9, evaluate=False), evaluate=False), sp.Pow(sp.Float(2), 10**9, evaluate=False),
           sp.Pow(sp.Rational(1, 2), sp.Float(1e9), evaluate=False)]


@pytest.mark.parametrize("value", ENDLESS, ids=str)
@pytest.mark.parametrize("read", [_checks.exact, _checks.exponent])
def test_no_number_is_read_whose_digits_take_all_memory(value: object, read: Callable[[str, object], object]) -> None:
    with pytest.raises(ValueError, match="^alpha: got .*; expected"):
        read("alpha", value)


def test_decimals_are_read_exactly() -> None:
    assert _checks.exact("alpha", Decimal("0.1")) == sp.Rational(1, 10)
    assert _checks.exponent("alpha", Decimal("0e999999999")) == 0
    assert _checks.exact("alpha", sp.Pow(2, 1000, evaluate=False) * sp.pi) == 2**1000 * sp.pi
