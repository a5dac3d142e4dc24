"""Principles as equations: the family that solves them, for every number of layers, and nothing outside it."""

from __future__ import annotations

from typing import Any

import pytest
import sympy as sp
from hypothesis import given, strategies as st

import tpcalc as tp
from tpcalc.testing import rationals
from tpcalc.width import broken_principles, principles, solve_any_depth
from tpcalc.width.principles import COUNTED_ORDERS, CRITICALITY, DIFFERENTIALS, EQUIVALENCE, GAUGE, LEARNING, OUTPUTS, S


@pytest.mark.parametrize("layers", range(2, 8))
def test_the_kernel_is_s_and_the_gauge(layers: int) -> None:
    found = principles(layers)
    assert len(found.kernel) == 2 == solve_any_depth().free
    assert len(found.equations) == 2 * layers - 1
    gauge = sp.Matrix([0] * layers + [1] * (layers + 1))
    member = tp.meta_principled(1, layers)
    for direction in (gauge, sp.Matrix([*member.p, *member.q, member.r])):
        assert sp.Matrix.hstack(*found.kernel, direction).rank() == 2
    assert found.solve() == solve_any_depth().at(layers)
    assert set(found.interval().expressions([S])) == {S >= 0, S <= 1}


def test_the_family_is_the_paper_s() -> None:
    """(3.15), typed here as its independent reference."""
    for layers in (2, 3, 6):
        hidden = [0] * (layers - 1)
        assert tp.meta_principled(S, layers) == tp.WidthScaling([*hidden, S], [*hidden, S], S)
        assert tp.meta_principled(GAUGE, layers).r == GAUGE  # a symbol of the same name as the gauge's is not the gauge


def test_the_interval_s_ends_are_of_two_principles() -> None:
    for s, principle in ((sp.Rational(-1, 8), OUTPUTS), (sp.Rational(9, 8), DIFFERENTIALS)):
        assert broken_principles(tp.meta_principled(s, 3)).principles == (principle,)
    assert all(broken_principles(tp.meta_principled(s, 3)).passes for s in (0, sp.Rational(1, 2), 1))


@st.composite
def near_the_family(draw: Any) -> tp.WidthScaling:
    """A member in some gauge, of which some exponents are changed, or none."""
    layers = draw(st.integers(2, 5))
    member = tp.meta_principled(draw(rationals(-1, 2)), layers).shifted(draw(rationals(-1, 1)))
    values = [*member.p, *member.q, member.r]
    for at in draw(st.sets(st.integers(0, 2 * layers), max_size=3)):
        values[at] += draw(rationals(-1, 1))
    return tp.WidthScaling(values[:layers], values[layers:-1], values[-1])


@given(near_the_family())
def test_nothing_outside_the_family_passes(scaling: tp.WidthScaling) -> None:
    s = scaling.p[-1]
    inside = scaling.canonical() == tp.meta_principled(s, scaling.layers) and 0 <= s <= 1
    found = broken_principles(scaling)
    assert found.passes == inside
    assert bool(found.principles) != inside


@given(near_the_family(), rationals(-2, 2))
def test_audits_know_no_gauge(scaling: tp.WidthScaling, g: sp.Rational) -> None:
    moved = broken_principles(scaling.shifted(g))
    assert [str(b) for b in broken_principles(scaling).breaches] == [str(b) for b in moved.breaches]


@pytest.mark.parametrize("scaling, broken", [
    (tp.width_recipe("SP", 3), (EQUIVALENCE, LEARNING)),
    (tp.width_recipe("SP, rate 1/n", 3), (EQUIVALENCE,)),
    (tp.WidthScaling([0, 1, 0], [0, 0, 0], 0), (CRITICALITY,)),
    (tp.WidthScaling([0, 0, 0], [0, 0, 0], 1), (LEARNING, DIFFERENTIALS)),
    (tp.WidthScaling([0, 0, 0], [0, 0, 0], -1), (LEARNING,)),
    (tp.WidthScaling([0, 0, 1], [0, 0, 0], 0), (EQUIVALENCE,)),
])
def test_rejected_strategies_are_told_why(scaling: tp.WidthScaling, broken: tuple[str, ...]) -> None:
    assert broken_principles(scaling).principles == broken


def test_the_kernel_of_a_layer_is_its_larger_part() -> None:
    found = broken_principles(tp.width_recipe("SP", 4))
    assert found.kernels == (0, 1, 1, 1)  # hidden weights learn n times faster than the first layer's
    assert found.unjudged == (DIFFERENTIALS,)
    assert [b.layer for b in found.breaches] == [2, 4] and found.breaches[1].power == 1


def test_no_order_beyond_the_counted_ones_narrows_the_interval() -> None:
    for s in (sp.Integer(0), sp.Rational(1, 3), sp.Integer(1)):
        for order in range(2, 4 * COUNTED_ORDERS.stop):
            assert tp.ntk_exponent(order, s, insert_output=order % 2 == 0) <= 0


@pytest.mark.parametrize("s", [sp.Integer(0), sp.Rational(1, 3), sp.Integer(1)])
@pytest.mark.parametrize("layers", [2, 4])
def test_members_meet_the_symbolic_requirements(s: sp.Rational, layers: int) -> None:
    scaling = tp.meta_principled(s, layers).shifted(sp.Rational(3, 4))
    found = principles(scaling.layers)
    values = dict(zip(found.unknowns, (*scaling.p, *scaling.q, scaling.r)))
    assert all(one.holds(values) for one in found.requirements)


def test_undecided_audits_are_refused() -> None:
    with pytest.raises(ValueError, match="numbers are needed"):
        broken_principles(tp.meta_principled(S, 3))
    positive = sp.Symbol("x", positive=True)
    assert broken_principles(tp.meta_principled(-positive, 3)).principles == (OUTPUTS,)


@pytest.mark.parametrize("make", [
    lambda: principles(1), lambda: tp.meta_principled(0, 1), lambda: tp.meta_principled(1j, 2),
    lambda: broken_principles("SP"),  # type: ignore[arg-type]
    lambda: tp.meta_principled(0, 2.5),  # type: ignore[arg-type]
])
def test_bad_input_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="got .*; expected"):
        make()
