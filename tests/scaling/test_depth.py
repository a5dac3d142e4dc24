"""Depth scalings: exact exponents, multipliers, constants, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, strategies as st

import tpcalc as tp
from support.closeness import assert_close
from tpcalc.scaling.parametrization import as_power
from tpcalc.testing import rationals, scalings

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)


@pytest.mark.parametrize("value, exponent", [(0.5, sp.Rational(1, 2)), (0.1, sp.Rational(1, 10)), (1, sp.Integer(1)),
                                             (np.float64(0.75), sp.Rational(3, 4)), ("2/3", sp.Rational(2, 3)),
                                             (sp.Float("0.3"), sp.Rational(3, 10)), (ALPHA, ALPHA)])
def test_exponents_are_read_exactly(value: Any, exponent: sp.Expr) -> None:
    scale = tp.DepthScaling(value, value)
    assert scale.alpha == exponent and scale.gamma == exponent


@given(rationals(0, 2), rationals(-1, 2), st.integers(1, 1000), st.sampled_from([1, 3, 12]), st.floats(0.5, 2))
def test_multipliers_are_powers_of_the_depth(alpha: sp.Rational, gamma: sp.Rational, depth: int, base: int,
                                             branch: float) -> None:
    scale = tp.DepthScaling(alpha, gamma, branch, base)
    assert_close(scale.multiplier(depth), branch * (base / depth) ** (alpha.p / alpha.q), 1e-14)
    assert_close(scale.update_size(depth), (base / depth) ** (gamma.p / gamma.q), 1e-14)


@given(scalings(), st.integers(1, 10**6))
def test_noise_and_drift_are_constants_times_powers_of_the_depth(scale: tp.DepthScaling, depth: int) -> None:
    """L eps^2 and L eps g, which every limit is made of."""
    scale = tp.DepthScaling(scale.alpha, scale.gamma, branch=1.5, base_depth=4)
    eps, g = scale.multiplier(depth), scale.update_size(depth)
    assert_close(depth * eps**2, scale.noise_constant * depth ** float(scale.noise_exponent), 1e-12)
    assert_close(depth * eps * g, scale.drift_constant * depth ** float(scale.drift_exponent), 1e-12)


def test_symbols_stay_symbols_until_numbers_are_needed() -> None:
    scale = tp.DepthScaling(ALPHA, GAMMA)
    assert not scale.is_numeric
    assert scale.drift_exponent == 1 - ALPHA - GAMMA and scale.noise_exponent == 1 - 2 * ALPHA
    with pytest.raises(ValueError, match="alpha, gamma: got alpha, gamma; expected numbers"):
        scale.multiplier(4)


@given(scalings(with_limit=True))
def test_the_strategy_keeps_its_promise(scale: tp.DepthScaling) -> None:
    assert sp.Rational(1, 2) <= scale.alpha <= 1 and 0 <= scale.gamma <= 1 and scale.alpha + scale.gamma >= 1


@pytest.mark.parametrize("name", ["alpha", "gamma"])
@pytest.mark.parametrize("value, said", [(float("nan"), "nan"), (float("inf"), "inf"), (None, "None"), (True, "True"),
                                         (sp.oo, "oo"), (sp.I, "I"), ("half of(", "'half of('"), ([1], "[1]"),
                                         (1j, "1j")])
def test_exponents_that_are_not_real_numbers_are_refused(name: str, value: Any, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        tp.DepthScaling(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"{name}: got {said}; expected a ")


@pytest.mark.parametrize("given, said", [({"branch": float("nan")}, "branch: got nan; expected a finite number"),
                                         ({"branch": float("inf")}, "branch: got inf; expected a finite number"),
                                         ({"base_depth": float("inf")}, "base_depth: got inf; expected a finite"),
                                         ({"base_depth": 0}, "base_depth: got 0; expected a positive number"),
                                         ({"base_depth": -2}, "base_depth: got -2; expected a positive number")])
def test_constants_that_make_no_sense_are_refused(given: dict, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        tp.DepthScaling(**given)
    assert said in str(caught.value)


@given(rationals(-2, 2))
def test_a_written_power_is_that_power(exponent: sp.Rational) -> None:
    """Read again by sympy; a number stands for the power 0, and the size for the power 1."""
    written, n = as_power(exponent, "n"), sp.Symbol("n", positive=True)
    assert sp.sympify(written.replace("^", "**"), {"n": n}) == n**exponent
    assert (written == "1") == (exponent == 0) and (written == "n") == (exponent == 1)
    assert (as_power(sp.Integer(0)), as_power(sp.Integer(1))) == ("1", "L")


@pytest.mark.parametrize("branch, base", [(1e-200, 1), (1e200, 1), (1, 10**200)])
def test_constants_that_no_float_holds_are_refused(branch: float, base: int) -> None:
    """Too small, which a float rounds to 0, and too large."""
    with pytest.raises(ValueError, match="expected numbers with which .* is what floats hold"):
        tp.DepthScaling(1, 0, branch, base).noise_constant
