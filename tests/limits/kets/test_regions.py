"""Regions of the exponents: they cover the plane, and each says what survives, or what grows."""

from __future__ import annotations

import pickle
from typing import Callable

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp
from tpcalc.calculus.kets import Bracket
from tpcalc.limits.kets.nodes import Answer, GivenStreams, Increment
from tpcalc.programs.from_zero import from_zero
from tpcalc.programs.program import Program

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)
SCALE, Q = tp.DepthScaling(ALPHA, GAMMA), sp.Rational
TANH, MLP, SINE = tp.ResNet("tanh"), tp.ResNet("tanh", "mlp"), tp.ResNet(sp.sin(sp.Symbol("h") + 1))


@pytest.fixture(scope="module")
def limit() -> tp.theory.KetLimit:
    return tp.depth_limit(tp.kets(tp.program(TANH, tp.SGD(), SCALE)))


@settings(max_examples=60, deadline=None)
@given(st.fractions(0, 2, max_denominator=8), st.fractions(-1, 2, max_denominator=8))
def test_of_every_point_one_region(limit: tp.theory.KetLimit, alpha: object, gamma: object) -> None:
    point = tuple(map(sp.Rational, (alpha, gamma)))
    assert sum(one.region.contains(point) for one in limit.regions) == 1
    region = limit.at(alpha=point[0], gamma=point[1])
    verdict = tp.classify(*point)
    a, g = point
    assert region.has_limit == bool(a >= sp.Rational(1, 2) and a + g >= 1 and g >= 0)
    if region.has_limit:
        assert region.is_trivial == (not verdict.nontrivial), verdict


@pytest.mark.parametrize("alpha, gamma, drawn, answers", [(.5, .5, True, True), (.5, 1, True, False),
                                                          (.75, .25, False, False)])
def test_what_survives(limit: tp.theory.KetLimit, alpha: float, gamma: float, drawn: bool, answers: bool) -> None:
    region = limit.at(alpha=alpha, gamma=gamma)
    moved = [e for e in region.equations if e.target.has(Increment)]
    assert len(moved) == 2
    assert all(e.value.has(sp.Symbol("dp", positive=True)**sp.Rational(1, 2)) == drawn for e in moved)
    assert any(e.value.has(Answer) for e in region.equations) == answers
    assert any(one.drawn for one in region.kept) == drawn
    assert all(one.order == 0 for one in region.kept)
    assert all(one.order.subs({ALPHA: alpha, GAMMA: gamma}) < 0 for one in region.dropped)


def test_updates_inside_the_activation(limit: tp.theory.KetLimit) -> None:
    """At alpha = 1, gamma = 0 nothing is expanded: h has its update in it, and x is a mean over what a layer draws."""
    region = limit.at(alpha=1, gamma=0)
    by_target = {str(e.target): e.value for e in region.equations}
    assert by_target["|h[t, p]>"].has(sp.Sum) and by_target["d|x[t, p]>"].has(GivenStreams)
    assert str(by_target["-d|dx[t, p]>"].func) == str(sp.Mul) and by_target["-d|dx[t, p]>"].has(Bracket)
    kinked, = tp.depth_limit(tp.kets(tp.program(tp.ResNet("relu"), tp.SGD(), tp.DepthScaling(1, 0)))).regions
    with pytest.raises(tp.NotCovered, match="a function with kinks"):
        kinked.compile()([1.0], [1.0])


@pytest.mark.parametrize("alpha, gamma, says", [
    (.25, 1, r"what layers draw adds up in the stream .* like L\^\(1/2 - alpha\)"),
    (.75, 0, "updates add up in the stream"),
    (2, -.5, r"updates add up within a layer like L\^\(-gamma\)")])
def test_where_there_is_no_limit(limit: tp.theory.KetLimit, alpha: float, gamma: float, says: str) -> None:
    region = limit.at(alpha=alpha, gamma=gamma)
    with pytest.raises(tp.Divergence, match=says):
        region.equations
    with pytest.raises(tp.Divergence, match=says):
        region.compile()
    with pytest.raises(tp.Divergence, match=says):
        region.rate
    assert "no limit" in str(region) and "no limit" in region.latex()


@pytest.mark.parametrize("net, alpha, gamma", [
    (TANH, .5, .5), (TANH, .75, .25), (TANH, 1, 0), (MLP, .6, .4), (SINE, .6, .4), (tp.ResNet("relu"), .75, .25),
    (SINE, .5, .5)], ids=str)
def test_rates_are_the_counted_ones(net: tp.ResNet, alpha: float, gamma: float) -> None:
    from tpcalc.propagators.depth_orders import depth_orders

    scale = tp.DepthScaling(alpha, gamma)
    region, = tp.depth_limit(tp.kets(tp.program(net, tp.SGD(), scale))).regions
    assert region.rate == sp.Rational(depth_orders(net, scale).powers[0])


def test_a_line_of_one_symbol() -> None:
    """gamma = 1 - alpha: what is a point and what a segment is read off one symbol."""
    found = tp.depth_limit(tp.kets(tp.program(TANH, tp.SGD(), tp.DepthScaling(ALPHA, 1 - ALPHA))))
    assert {alpha: found.at(alpha=alpha).has_limit for alpha in (.25, .5, .75, 1, 1.5)} == {
        .25: False, .5: True, .75: True, 1: True, 1.5: False}
    assert found.at(alpha=.75).rate == sp.Min(1, 2 - 2 * ALPHA, 2 * ALPHA - 1) and found.at(alpha=1).inside


def test_limits_are_pickled() -> None:
    limit = tp.depth_limit(tp.kets(tp.program(TANH, tp.SGD(), tp.DepthScaling())))
    again, compiled = pickle.loads(pickle.dumps((limit, limit.compile())))
    assert str(again) == str(limit) and all(step.check() for step in again.regions[0].derivation.steps)
    data = [1.0, 0.8], [1.0, -0.7]
    assert compiled(*data).outputs.tolist() == limit.compile()(*data).outputs.tolist()


def test_written() -> None:
    """The document's lines name what they stand for; every Gaussian has its law."""
    region, = tp.depth_limit(tp.kets(tp.program(MLP, tp.SGD(), tp.DepthScaling()))).regions
    text = region.latex()
    assert text.count(r"\begin") == text.count(r"\end") and "&=" in text
    for line in ("u[t] = hat|W1[0, p] @ x[t, p]>", "E[u[s]*u[t]] = <x[s, p]|x[t, p]>",
                 "E[v[s]*v[t]] = E[phi(u[s])*phi(u[t])]", "phi(h) = tanh(h)"):
        assert line in str(region).replace("  ", "")


def linear(opt: tp.SGD, scale: tp.DepthScaling) -> Program:
    return tp.program(tp.ResNet(), opt, scale)


def branches_from_zero(opt: tp.SGD, scale: tp.DepthScaling) -> Program:
    """What branches draw is 0 until they have learned: the line alpha + gamma = 1 has limits below alpha = 1/2 too."""
    return from_zero(tp.program(tp.ResNet("linear", "mlp"), opt, scale), "W2")


@pytest.mark.parametrize("written, opt, least, lowest", [
    (linear, tp.SGD(0.5, momentum=0.5), Q(1, 2), -sp.oo),
    pytest.param(linear, tp.SGD(0.5), Q(1, 2), -sp.oo, marks=pytest.mark.nightly),
    pytest.param(branches_from_zero, tp.SGD(0.5), -sp.oo, sp.Integer(0), marks=pytest.mark.nightly)])
def test_kets_and_recursions_of_linear_networks_have_one_limit(
        written: Callable[[tp.SGD, tp.DepthScaling], Program], opt: tp.SGD, least: sp.Expr,
        lowest: sp.Expr) -> None:
    """Two derivations without a common step: regions, rates and outputs; a number for an exponent changes nothing."""
    kets = tp.kets(written(opt, SCALE))
    one, two = tp.depth_limit(kets), tp.depth_limit(tp.recursion(kets))
    for alpha in (Q(1, 4), Q(1, 2), Q(3, 4), sp.Integer(1), Q(3, 2)):
        for gamma in (-Q(1, 2), sp.Integer(0), Q(1, 4), Q(1, 2), Q(3, 4)):
            region, other = (limit.at(alpha=alpha, gamma=gamma) for limit in (one, two))
            assert (region.has_limit, region.is_trivial) == (other.has_limit, other.is_trivial)
            assert region.has_limit == (alpha >= least and alpha + gamma >= 1 and gamma >= lowest)
            if not region.has_limit:
                continue
            assert region.rate.subs({ALPHA: alpha, GAMMA: gamma}) == other.rate.subs({ALPHA: alpha, GAMMA: gamma})
            found = region.compile()([1.0, 0.8, -0.6], [1.0, -0.7, 0.5]).outputs
            if not region.is_trivial:  # the recursion's are scaled there
                assert found == pytest.approx(other.compile()([1.0, 0.8, -0.6], [1.0, -0.7, 0.5]).outputs, abs=2e-5)
            at_once, = tp.depth_limit(tp.kets(written(opt, tp.DepthScaling(alpha, gamma)))).regions
            assert at_once.compile()([1.0, 0.8, -0.6], [1.0, -0.7, 0.5]).outputs == pytest.approx(found, abs=1e-12)


@pytest.mark.parametrize("net", [tp.ResNet("tanh"), pytest.param(tp.ResNet(-sp.cos(sp.Symbol("h", real=True)), "mlp"),
                                                                 marks=pytest.mark.nightly)], ids=str)
def test_numbers_for_exponents_give_what_symbols_give(net: tp.ResNet) -> None:
    limit = tp.depth_limit(tp.kets(tp.program(net, tp.SGD(), SCALE)))
    for alpha, gamma in ((Q(1, 2), Q(1, 2)), (Q(3, 4), Q(1, 4)), (sp.Integer(1), sp.Integer(0)), (Q(3, 4), Q(3, 4)),
                         (Q(1, 4), Q(1, 2)), (Q(3, 4), sp.Integer(0)), (sp.Integer(1), -Q(1, 4))):
        region, = tp.depth_limit(tp.kets(tp.program(net, tp.SGD(), tp.DepthScaling(alpha, gamma)))).regions
        there = limit.at(alpha=alpha, gamma=gamma)
        assert (region.has_limit, region.is_trivial, region.inside) == (there.has_limit, there.is_trivial, there.inside)
        if region.has_limit:
            assert region.rate == there.rate.subs(dict(zip(limit.parameters, (alpha, gamma))))
            assert [str(e) for e in region.equations] == [str(e) for e in there.equations]
