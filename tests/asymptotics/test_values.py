"""Exponents as whole numbers, with the affine forms that they are of in lower digits."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

import tpcalc as tp
from tpcalc.asymptotics.parts import Scale, unit_directions
from tpcalc.verdicts.ket_exponents import rate_of
from tpcalc.orders.affine import Affine

quarters = st.integers(-12, 12).map(lambda number: Fraction(number, 4))
forms = st.builds(lambda a, b, c: Affine((a, b), c), quarters, quarters, quarters)
points = st.tuples(*[st.fractions(-16, 16, max_denominator=200)] * 2)


def scale_at(point: tuple[Fraction, Fraction]) -> Scale:
    return Scale(point, unit_directions(2), 4)


@given(forms, points)
def test_a_value_tells_its_form(form: Affine, point: tuple[Fraction, Fraction]) -> None:
    scale = scale_at(point)
    assert scale.form(scale.of(form)) == form and scale.fraction(scale.of(form)) == form.at(point)


@given(forms, points, st.integers(1, 12))
def test_a_mean_over_layers_tells_its_form(form: Affine, point: tuple[Fraction, Fraction], layers: int) -> None:
    """Also where a sum is a multiple of the layers and its digits are none: a third of one digit was read as two thirds
    of the next, which drew walls at random, and the plane of relu(W1 x) by matrices was refused."""
    solution: Any = SimpleNamespace(scale=scale_at(point))
    found, = rate_of(solution, Fraction(solution.scale.of(form), layers)).forms
    assert found == form * Fraction(1, layers)


def test_such_sums_are_among_those_that_are_drawn() -> None:
    scale = scale_at((Fraction(7, 100), Fraction(57, 200)))
    thirds = [scale.of(Affine((Fraction(a, 4), Fraction(b, 4)), Fraction(c, 4)))
              for a in range(3) for b in range(3) for c in range(3)]
    assert any(value % 3 == 0 and not scale.has_digits(2 * value // 3) for value in thirds)


def test_directions_that_no_digit_holds_are_refused() -> None:
    far = Scale((Fraction(0),), ((Fraction(1, 3**40),), (Fraction(1),)))
    assert far.of(Affine((Fraction(1),), Fraction(0)))  # a direction is one whatever its length
    skew = Scale((Fraction(0),) * 2, ((Fraction(1), Fraction(1, 3**40)),))
    with pytest.raises(tp.NotCovered):
        skew.of(Affine((Fraction(1), Fraction(0)), Fraction(0)))
