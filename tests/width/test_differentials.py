"""Powers of n in differentials of the tangent kernel, counted from operators."""

from __future__ import annotations

from typing import Any

import pytest
import sympy as sp
from hypothesis import given, strategies as st

import tpcalc as tp
from tpcalc.testing import rationals
from tpcalc.width import DifferentialTerm, differential_exponent, feature_exponent, terms

S = sp.Symbol("s", real=True)


@pytest.mark.parametrize("order, insert, expected", [(1, False, 0), (3, False, S - 1), (5, False, 2 * S - 2),
                                                     (2, True, -1), (4, True, S - 2), (2, False, -sp.oo),
                                                     (4, False, -sp.oo), (1, True, -sp.oo), (3, True, -sp.oo)])
def test_the_first_orders(order: int, insert: bool, expected: sp.Expr) -> None:
    assert tp.ntk_exponent(order, S, insert) == expected


@given(st.integers(1, 40), rationals(-1, 2))
def test_the_hierarchy(order: int, s: sp.Rational) -> None:
    """(A15) and (A17), typed here as their independent reference."""
    m, odd = divmod(order, 2)
    assert tp.ntk_exponent(order, s, insert_output=not odd) == (m * (s - 1) if odd else -m * (1 - s) - s)
    assert tp.ntk_exponent(order, s, insert_output=bool(odd)) == -sp.oo


def test_terms_are_those_of_second_derivatives() -> None:
    """f = W phi(z): the derivative along its gradient, twice, by hand."""
    assert terms(2) == {DifferentialTerm(0, 3, 2), DifferentialTerm(1, 1, 1)}
    assert terms(3) == {DifferentialTerm(0, 4, 3), DifferentialTerm(1, 2, 2), DifferentialTerm(2, 0, 1)}


@given(st.integers(1, 6), rationals(-1, 2), rationals(-1, 2), rationals(-1, 2), rationals(-1, 2), rationals(-1, 2))
def test_exponents_know_no_gauge(order: int, p: sp.Rational, q1: sp.Rational, q2: sp.Rational, r: sp.Rational,
                                 g: sp.Rational) -> None:
    scaling = tp.WidthScaling([0, p], [q1, q2], r)
    for insert in (False, True):
        assert differential_exponent(order, scaling, insert) == differential_exponent(order, scaling.shifted(g), insert)


def test_a_scaling_whose_terms_differ_in_size_takes_the_largest() -> None:
    """Only the last layer learns, or only the first: rate n^-q_2 sum phi^2 / n against sum W^2 phi'^2 H / n^q_1."""
    assert differential_exponent(1, tp.WidthScaling([0, 0], [5, 0], 0)) == 0
    assert differential_exponent(1, tp.WidthScaling([0, 1], [0, 5], 0)) == -1


@given(rationals(-1, 1), rationals(-1, 1))
def test_features_of_the_family(s: sp.Rational, g: sp.Rational) -> None:
    """In every gauge and at every depth: (s - 1) / 2, by the weights that the last layer starts with."""
    for layers in (2, 4):
        assert feature_exponent(tp.meta_principled(s, layers).shifted(g)) == (s - 1) / 2


def test_features_by_learned_weights() -> None:
    """A last layer that starts at nearly nothing moves features once it has learned; that of SP does not."""
    assert feature_exponent(tp.WidthScaling([0, 5], [0, 1], 1)) == 0
    assert feature_exponent(tp.width_recipe("SP, rate 1/n", 3)) == sp.Rational(-1, 2)


@pytest.mark.parametrize("call, match", [
    (lambda: feature_exponent(tp.WidthScaling([1, 0], [0, 0], 0)), "got p_1 = 1; expected 0"),
    (lambda: tp.ntk_exponent(0, 0), "order: got 0"),
    (lambda: tp.ntk_exponent(1.5, 0), "order: got 1.5"),  # type: ignore[arg-type]
    (lambda: tp.ntk_exponent(1, 1j), "s: got 1j"), (lambda: tp.ntk_exponent(1, 0, 2), "insert_output: got 2"),
    (lambda: differential_exponent(1, tp.WidthScaling([0, 0, 0], [0, 0, 0], 0)), "got 3 layers; expected 2"),
    (lambda: differential_exponent(1, tp.WidthScaling([1, 0], [0, 0], 0)), "got p_1 = 1; expected 0"),
])
def test_bad_input_is_refused(call: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        call()
