"""The recorded steps: each is what its rule makes of what stood before, and Taylor's leave out second order."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.calculus.kets import Bracket, Hat, Ket, Response, random_parts
from tpcalc.gaussian import Expectation
from tpcalc.gaussian.scalar_functions import DerivativeAt
from tpcalc.limits.kets.nodes import Answer, LeadingBracket
from tpcalc.limits.kets.sums import regrouped

SINE = sp.sin(sp.Symbol("h", real=True) + sp.Rational(1, 2))
NETS = [tp.ResNet("tanh"), tp.ResNet(SINE, "mlp", norm="rms")]


def limit_of(net: tp.ResNet) -> tp.theory.KetLimitRegion:
    region, = tp.depth_limit(tp.kets(tp.program(net, tp.SGD(), tp.DepthScaling()))).regions
    return region


@pytest.mark.parametrize("net", NETS, ids=str)
def test_steps_are_what_their_rules_say(net: tp.ResNet) -> None:
    steps = limit_of(net).derivation.steps
    assert {step.rule for step in steps} >= {"numbers to first order", "leave one layer out"}
    assert all(step.before != step.after and step.check() for step in steps)


@pytest.mark.parametrize("net", NETS, ids=str)
def test_what_taylor_leaves_out_is_of_second_order(net: tp.ResNet) -> None:
    """At drawn kets and numbers, of three earlier steps: four times the depth leaves a quarter of the difference."""
    region = limit_of(net)
    found = [step for step in region.derivation.steps if step.rule == "leave one layer out"]
    assert len(found) > 4
    for step in found:
        whole = region.streams.expansion.inserted(step.before)
        differences = [abs(value(whole, depth) - value(step.after, depth)) for depth in (1e4, 4e4)]
        assert differences[1] <= 0.27 * differences[0] + 1e-13, step


@pytest.mark.parametrize("net", NETS, ids=str)
def test_steps_are_written_shorter_and_are_the_same(net: tp.ResNet) -> None:
    """One sum for each random variable and power of L."""
    region = limit_of(net)
    depth = region.kets.setting.depth
    assert depth is not None
    for step in region.derivation.steps:
        short = regrouped(step.after, depth)
        assert value(short, 16) == pytest.approx(value(step.after, 16), rel=1e-12)
        sums = [(term / one, sp.Mul(*(f for f in sp.Mul.make_args(one.function) if random_parts(f))))
                for term in sp.Add.make_args(short) for one in sp.Mul.make_args(term) if isinstance(one, sp.Sum)]
        assert len(sums) == len(set(sums))


def value(expression: sp.Expr, depth: float) -> float:
    """The expression where every ket and number is drawn, the same ones for all depths."""
    t = sp.Symbol("t", integer=True, nonnegative=True)
    several = expression.replace(lambda e: isinstance(e, sp.Sum), lambda e: e.subs(t, 3).doit())
    several = several.xreplace({t: sp.Integer(3)})
    leaves = several.atoms(Ket, Hat, Bracket, LeadingBracket, Answer, Expectation, Response)
    names = {leaf: np.random.default_rng(sum(map(ord, str(leaf)))).uniform(.2, 1.2) for leaf in leaves}
    numbers = several.xreplace({leaf: sp.Float(number, 30) for leaf, number in names.items()})
    numbers = numbers.replace(lambda e: isinstance(e, DerivativeAt), lambda e: e.doit())
    return float(numbers.xreplace({sp.Symbol("L", integer=True, positive=True): sp.Float(depth, 30)}).evalf(25))


def test_steps_are_written_with_letters_and_names() -> None:
    """Functions are named, means are of the letters that hats have, a sum within a sum has an index of its own."""
    steps = limit_of(tp.ResNet("silu", "glu")).derivation.steps
    written = [step.latex() for step in steps]
    assert not any("tanh" in line or r"\hat" in line.partition("=")[2] for line in written)
    assert any(r"\mathbb{E}\left[\phi'\left(u_{s}\right) \phi'\left(u_{t}\right)\right]" in line for line in written)
    nested = [line for line in written if r"\sum_{k=0}^{t - 1}" in line]
    assert nested and all(r"r_{t,k}\left(l\right)" in line for line in nested)
    assert all(step.check() for step in steps)
