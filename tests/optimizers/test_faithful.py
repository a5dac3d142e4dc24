"""Sizes of updates: derived powers against limits, against numbers, and against what the builder writes."""

from __future__ import annotations

import math
from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp
from hypothesis import assume, given, settings, strategies as st

import tpcalc as tp
from tpcalc.optimizers.faithful import (EPS, GRADIENTS, decay_fate, decay_power, direction, direction_power,
                                        eps_dominates, faithful_rate, leading_power, update_power)
from tpcalc.optimizers.updates import OPTIMIZERS, optimizer_name
from tpcalc.programs.language import Family, Scalar
from tpcalc.testing import rationals

a, c, e, g, w, b = sp.symbols("a c e g w b", real=True)
POWERS = rationals(-1, 2)
WITH_EPS = ("adam", "adamw", "shampoo", "soap")


@pytest.mark.parametrize("name, eps, expected", [
    ("sgd", e, c + a), ("momentum", e, c + a), ("signsgd", e, c), ("lion", e, c),
    ("adam", e, c + sp.Max(0, a - e)), ("adam", None, c), ("adamw", e, c + sp.Max(0, a - e)),
    ("shampoo", e, c + sp.Max(0, a - e)), ("shampoo", None, c), ("soap", e, c + sp.Max(0, a - e))])
def test_sizes_of_updates_are_exact_for_symbols(name: str, eps: Any, expected: sp.Expr) -> None:
    """Reference forms: the leading terms worked out by hand."""
    assert sp.simplify(update_power(name, a, c, eps) - expected) == 0


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(OPTIMIZERS), POWERS, POWERS, rationals("1/2", 2), rationals("-3/2", "-1/2"))
def test_the_leading_power_is_the_limit(name: str, gradient: sp.Rational, eps: sp.Rational, first: sp.Rational,
                                        second: sp.Rational) -> None:
    """The slope of the logarithm between L = 10^4000 and 10^8000, in exact powers and 30 digits."""
    assume(first * sp.Rational(9, 10) + second != 0)  # of gradients that cancel in the average nothing is said

    def size(digits: int) -> sp.Expr:
        values = {GRADIENTS[0]: first, GRADIENTS[1]: second, EPS: sp.Integer(3)}
        scaled = {symbol: value * sp.Integer(10) ** -(digits * (eps if symbol == EPS else gradient))
                  for symbol, value in values.items()}
        betas = {sp.Symbol("beta1", positive=True): sp.Rational(9, 10),
                 sp.Symbol("beta2", positive=True): sp.Rational(1, 2)}
        return sp.log(sp.Abs(direction(name).subs({**betas, **scaled})).evalf(30))

    slope = (size(8000) - size(4000)) / (4000 * sp.log(10))
    assert float(slope) == pytest.approx(-float(direction_power(name, gradient, eps)), abs=1e-3)


def _numbers(name: str) -> Callable[..., np.ndarray]:
    betas = {sp.Symbol("beta1", positive=True): sp.Rational(9, 10),
             sp.Symbol("beta2", positive=True): sp.Rational(99, 100)}
    function: Callable[..., np.ndarray] = sp.lambdify((*GRADIENTS, EPS), direction(name).subs(betas), "numpy")
    return function


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("gradient, eps", [(1, 0), (0.5, 0.5), (0, 1), (1, -0.25), (0, 0), (-0.5, -2)])
def test_measured_slopes_of_updates(name: str, gradient: float, eps: float) -> None:
    """Root mean squares of the optimizer's steps on synthetic gradients L^-a G, L = 2^6..2^14."""
    depths = 2.0 ** np.arange(6, 15)
    G = np.random.default_rng(0).normal(size=(2, 4000))
    rate = 0.25
    sizes = [np.sqrt(np.mean((depth**-rate * _numbers(name)(*(depth**-gradient * G), depth**-eps)) ** 2))
             for depth in depths]
    slope = np.polyfit(np.log(depths), np.log(sizes), 1)[0]
    derived = update_power(name, sp.Rational(gradient), sp.Rational(rate), sp.Rational(eps))
    assert -slope == pytest.approx(float(derived), abs=0.02)  # a and e are equal or one apart: crossovers are slow


def test_gradients_of_a_real_network_carry_the_branch_multiplier() -> None:
    """A width-64 residual network, its raw gradients at initialization, and what each optimizer makes of them."""
    depths, n, gradient = 2 ** np.arange(4, 9), 64, {}
    for depth in depths:
        rng = np.random.default_rng(1)
        x, eps = [rng.normal(size=n)], depth**-0.5
        W = rng.normal(size=(depth, n, n)) / np.sqrt(n)
        for matrix in W:
            x.append(x[-1] + eps * matrix @ x[-1])
        delta = rng.normal(size=n)
        for matrix in W[::-1][:depth // 2]:
            delta = delta + eps * matrix.T @ delta
        gradient[depth] = eps * np.outer(delta, x[depth // 2])
    for name in OPTIMIZERS:
        sizes = [np.sqrt(np.mean(_numbers(name)(grad, grad, 1e-12) ** 2)) for grad in gradient.values()]
        slope = np.polyfit(np.log(depths), np.log(sizes), 1)[0]
        assert -slope == pytest.approx(float(update_power(name, sp.Rational(1, 2), sp.Integer(0))), abs=0.1), name


def test_adams_direction_is_pytorchs() -> None:
    """Against the loop of PyTorch's documentation, written out."""
    rng = np.random.default_rng(3)
    gradients = rng.normal(size=4)
    m = v = 0.0
    for step, grad in enumerate(gradients, start=1):
        m, v = 0.9 * m + 0.1 * grad, 0.99 * v + 0.01 * grad**2
        expected = m / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.99**step)) + 1e-2)
        history = Family(Scalar, "g")
        found = tp.Adam(1, 0.9, 0.99, 1e-2).direction(lambda k: history[k], sp.Symbol("t")).subs("t", step - 1).doit()
        found = found.subs({history[k]: g for k, g in enumerate(gradients)})
        assert float(found) == pytest.approx(expected, rel=1e-12)


@given(st.sampled_from(OPTIMIZERS), POWERS, POWERS, POWERS)
def test_faithful_rates_give_the_size_asked_for(name: str, moved: sp.Rational, gradient: sp.Rational,
                                                eps: sp.Rational) -> None:
    if eps_dominates(name, gradient, eps):
        with pytest.raises(ValueError, match="no faithful learning rate"):
            faithful_rate(name, moved, gradient, eps)
    else:
        assert update_power(name, gradient, faithful_rate(name, moved, gradient, eps), eps) == moved


def test_faithful_rates_for_symbols() -> None:
    assert faithful_rate("sgd", g, a) == g - a and faithful_rate("signsgd", g, a) == g
    assert faithful_rate("adam", g, a) == g


@given(st.sampled_from(OPTIMIZERS), POWERS, POWERS)
def test_eps_dominates_where_there_is_one_and_above_gradients(name: str, gradient: sp.Rational, eps: sp.Rational
                                                              ) -> None:
    assert eps_dominates(name, gradient, eps) == (name in WITH_EPS and eps < gradient)


@pytest.mark.parametrize("name, kind, expected", [
    ("sgd", "coupled", c + w), ("momentum", "coupled", c + w), ("sgd", "decoupled", c + w), ("sgd", "independent", w),
    ("adam", "decoupled", c + w), ("adam", "independent", w), ("signsgd", "decoupled", c + w)])
def test_shares_taken_by_decay(name: str, kind: str, expected: sp.Expr) -> None:
    assert sp.expand(decay_power(name, c, w, a, e, b, kind) - expected) == 0


@pytest.mark.parametrize("gradient, eps, decay", [(1, 2, 1.5), (1, 0, 1.5), (0.5, 0.25, 1), (1, 2, 0.5)])
def test_measured_shares_of_coupled_decay_in_adam(gradient: float, eps: float, decay: float) -> None:
    """The regressions of Adam's step on weights and on gradients, with decay W added to the gradients."""
    depths = 2.0 ** np.arange(8, 20, 2)
    rng = np.random.default_rng(5)
    G, W, step = rng.normal(size=1_000_000), rng.normal(size=1_000_000), _numbers("adam")
    shares = []
    for depth in depths:
        entering = depth**-gradient * G + depth**-decay * W
        taken = step(entering, entering, depth**-eps)
        shares.append([np.mean(taken * W), np.mean(taken * G)])
    slopes = np.polyfit(np.log(depths), np.log(np.abs(shares)), 1)[0]
    zero, w_, a_, e_ = (sp.Rational(x) for x in (0, decay, gradient, eps))
    assert -slopes[0] == pytest.approx(float(decay_power("adam", zero, w_, a_, e_, kind="coupled")), abs=0.1)
    assert -slopes[1] == pytest.approx(float(update_power("adam", a_, zero, e_, beside=w_)), abs=0.1)


@pytest.mark.parametrize("power, fate", [(-1, "explodes"), (0, "visible"), (sp.Rational(1, 3), "dies out")])
def test_what_becomes_of_decay(power: Any, fate: str) -> None:
    """rho_3 = (1 - L^-power / 2)^3 at a large L, and the word for it."""
    assert decay_fate(sp.sympify(power)) == fate
    rho = (1 - 1e40 ** -float(power) / 2) ** 3
    assert {"explodes": abs(rho) > 1e9, "visible": rho == 0.125, "dies out": abs(rho - 1) < 1e-9}[fate]


def test_names_of_optimizers() -> None:
    class Adam:
        """Stands for an optimizer of that name."""

    assert [optimizer_name(one) for one in ("AdamW", tp.SGD(), tp.SGD(momentum=0.5), tp.SignSGD(), Adam())] == [
        "adamw", "sgd", "momentum", "signsgd", "adam"]
    for bad in ("adagrad", "", None, 3, tp.ResNet()):
        with pytest.raises(ValueError, match="expected 'sgd', 'momentum'"):
            optimizer_name(bad)


@pytest.mark.parametrize("function", [sp.tanh, sp.erf, sp.atan])
@pytest.mark.parametrize(("size", "power"), [(2, 2), (0, 0), (-3, 0)])
def test_bounded_functions_follow_what_is_small(function: Any, size: int, power: int) -> None:
    g = sp.Symbol("g", real=True)
    assert leading_power(function(3 * g), {g: sp.Integer(size)}) == power
    near, far = (float(function(3 * depth**-size)) for depth in (1e4, 1e5))
    assert math.log10(near / far) == pytest.approx(power, abs=1e-3)


@pytest.mark.parametrize("function", [sp.sin, sp.exp, sp.log])
def test_functions_without_a_power_of_L_are_named(function: Any) -> None:
    with pytest.raises(ValueError, match=f"of {function.__name__} no power of L is known"):
        leading_power(function(a) + 1, {a: sp.Integer(1)})


def test_zero_is_smaller_than_any_power() -> None:
    x, y = sp.symbols("x y", real=True)
    assert leading_power(sp.Integer(0), {x: sp.Integer(1)}) == sp.oo
    assert leading_power(x + y, {x: sp.Integer(1), y: sp.Integer(0)}) == 0
    assert leading_power(sp.Abs(x) * y / 7, {x: sp.Integer(1), y: sp.Rational(1, 2)}) == sp.Rational(3, 2)
