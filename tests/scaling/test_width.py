"""Width scalings: gauge, translation to abc, named recipes, sizes on real widths, and what is refused."""

from __future__ import annotations

import math
import pickle
from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, strategies as st

import tpcalc as tp
from tpcalc.scaling.width_recipes import NAMED_WIDTHS
from tpcalc.testing import rationals

S = sp.Symbol("s", real=True)


@st.composite
def width_scalings(draw: Any) -> tp.WidthScaling:
    layers = draw(st.integers(2, 6))
    row = st.lists(rationals(-2, 2), min_size=layers, max_size=layers)
    return tp.WidthScaling(draw(row), draw(row), draw(rationals(-2, 2)))


@given(width_scalings())
def test_abc_and_back(scaling: tp.WidthScaling) -> None:
    assert tp.WidthScaling.from_abc(*scaling.abc()) == scaling


@given(width_scalings(), rationals(-2, 2))
def test_a_gauge_changes_no_size(scaling: tp.WidthScaling, g: sp.Rational) -> None:
    shifted, widths = scaling.shifted(g), [3, *range(17, 16 + scaling.layers), 2]
    assert (shifted == scaling) == (g == 0)
    assert shifted.canonical() == scaling.canonical() and scaling.canonical().q[0] == 0
    ours, theirs = scaling.sizes(widths), shifted.sizes(widths)
    for name in ("weight_std", "bias_std", "weight_rate", "bias_rate"):
        assert np.allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-12, atol=0)


@given(width_scalings(), rationals(-2, 2))
def test_the_gauge_of_abc(scaling: tp.WidthScaling, theta: sp.Rational) -> None:
    """(a + theta, b - theta, c - 2 theta) of Tensor Programs IV is g = 2 theta."""
    a, b, c = scaling.abc()
    shifted = tp.WidthScaling.from_abc([x + theta for x in a], [x - theta for x in b], c - 2 * theta)
    assert shifted == scaling.shifted(2 * theta)


def test_a_step_in_abc_is_a_step_in_pqr() -> None:
    """Gradient descent on w in W = n^-a w moves W by n^-2a n^-c times the gradient in W; so for biases."""
    scaling, n = tp.WidthScaling(["1/3", "-1/2"], ["1/4", "3/4"], "1/5"), 64
    sizes = scaling.sizes([1, n, 1])
    for (a, b, c), stds, rates in ((scaling.abc(), sizes.weight_std, sizes.weight_rate),
                                   (scaling.bias_abc(), sizes.bias_std, sizes.bias_rate)):
        for layer in range(2):
            assert math.isclose(stds[layer], n**-float(a[layer] + b[layer]), rel_tol=1e-12)
            assert math.isclose(rates[layer], n**-float(2 * a[layer] + c), rel_tol=1e-12)


@pytest.mark.parametrize("name, s", [("NTP", 0), ("muP", 1)])
@pytest.mark.parametrize("layers", [2, 3, 7])
def test_named_recipes_are_members(name: str, s: int, layers: int) -> None:
    assert tp.width.width_recipe(name, layers).canonical() == tp.meta_principled(s, layers)


def test_the_mean_field_is_maximal_updates_of_one_hidden_layer() -> None:
    one = tp.width.width_recipe("mean field", 2)
    assert one.canonical() == tp.width.width_recipe("muP", 2).canonical()
    assert one.abc() == ((0, 1), (0, 0), -1)  # Tensor Programs IV, table 1


@pytest.mark.parametrize("name", [recipe.name for recipe in NAMED_WIDTHS])
@pytest.mark.parametrize("said", [str, str.upper, str.lower], ids=("as it is", "upper", "lower"))
def test_parametrizations_know_the_names_of_width_recipes(name: str, said: Callable[[str], str]) -> None:
    assert tp.Parametrization(said(name)).width_scaling == tp.width.width_recipe(said(name), 3)


def test_the_mean_field_of_deep_networks_is_maximal_updates() -> None:
    assert tp.width.width_recipe("mean field", 5).canonical() == tp.width.width_recipe("muP", 5).canonical()
    assert tp.Parametrization("mean field").is_mup()


def test_sizes_take_each_layer_by_its_own_fan_in() -> None:
    sizes = tp.width.width_recipe("SP", 3).sizes([784, 100, 400, 10])
    assert np.allclose(sizes.weight_std, [784**-0.5, 100**-0.5, 400**-0.5])
    assert np.allclose(sizes.weight_rate, [1 / 784, 400 / 100, 1])  # SP: one rate, but for fan-ins that differ from n
    assert np.allclose(tp.meta_principled(1, 3).sizes([784, 100, 400, 10]).weight_std[-1], 1 / 400)


def test_a_base_width_is_where_powers_are_one() -> None:
    at_base = tp.meta_principled(1, 3).sizes([784, 256, 256, 10], base_width=256)
    ntp = tp.meta_principled(0, 3).sizes([784, 256, 256, 10])
    assert at_base == ntp


def test_symbols_stay() -> None:
    scaling = tp.WidthScaling([0, S], [0, S], S)
    assert scaling.abc() == ((0, (1 + S) / 2), (0, 0), -S)
    with pytest.raises(ValueError, match="got .*; expected a number"):
        scaling.sizes([1, 2, 1])


def test_scalings_are_values() -> None:
    one = tp.WidthScaling([0, 0.5], np.array([0, 1]), 1)
    assert pickle.loads(pickle.dumps(one)) == one == tp.WidthScaling(("0", "1/2"), (0, 1), 1)
    assert hash(one) == hash(tp.WidthScaling((0, sp.Rational(1, 2)), (0, 1), 1))


@pytest.mark.parametrize("make, match", [
    (lambda: tp.WidthScaling([0, 1], [0], 0), "p, q: got .*, 2 and 1 exponents"),
    (lambda: tp.WidthScaling([0], [0], 0), "got 1 layers; expected at least 2"),
    (lambda: tp.WidthScaling([], [], 0), "got 0 layers; expected at least 2"),
    (lambda: tp.WidthScaling("01", [0, 1], 0), "p: got '01'; expected a sequence"),
    (lambda: tp.WidthScaling(0, [0, 1], 0), "p: got 0; expected a sequence"),
    (lambda: tp.WidthScaling([0, 1j], [0, 1], 0), r"p\[1\]: "),
    (lambda: tp.WidthScaling([0, 1], [0, float("nan")], 0), r"q\[1\]: "),
    (lambda: tp.WidthScaling([0, 1], [0, 1], float("inf")), "r: got inf"),
    (lambda: tp.WidthScaling.from_abc([0, 1], [0], 0), "a, b: got .*, 2 and 1 exponents"),
    (lambda: tp.WidthScaling([0, 0], [0, 0], 0).sizes([1, 2]), r"widths: got .*; expected 3"),
    (lambda: tp.WidthScaling([0, 0], [0, 0], 0).sizes([1, 0, 1]), "widths: got 0"),
    (lambda: tp.WidthScaling([0, 0], [0, 0], 0).sizes([1, 2, 1], base_width=0), "base_width: got 0"),
    (lambda: tp.WidthScaling([0, 900], [0, 0], 0).sizes([1, 2**10, 1]), "is what floats hold"),
    (lambda: tp.width.width_recipe("mu-p", 3), "name: got 'mu-p'; expected 'SP'"),
    (lambda: tp.width.width_recipe("SP", 1), "layers: got 1"),
])
def test_bad_input_is_refused(make: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        make()
