"""Exponents matrix by matrix as values: strict, and a depth scaling where they are one."""

import pickle

import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc.scaling.parametrization import ParametrizationAtWidth

POWERS = st.fractions(-2, 2, max_denominator=4)
BY_MATRIX = {"alpha": "1/2", "W1": 0, "W2": 1}
WIDTHS = ("muP", "sp", tp.meta_principled("1/2", 3), {"input": {}, "hidden": {"init": -0.5, "lr": -1}, "output": {}})


@pytest.mark.parametrize("width", WIDTHS, ids=str)
@pytest.mark.parametrize("depth", (tp.DepthScaling(1, 0), BY_MATRIX, {"W": tp.Powers(lr={"L": -1})}), ids=str)
def test_parametrizations_are_values(width, depth):
    one = tp.Parametrization(width, depth)
    again = pickle.loads(pickle.dumps(one))
    assert again == one and hash(again) == hash(one) and repr(again) == repr(one)
    assert one != tp.Parametrization("NTP", depth)


@given(POWERS, POWERS, st.floats(0.5, 2), st.sampled_from([1, 8]))
@settings(deadline=None, max_examples=20)
def test_one_exponent_for_all_is_a_depth_scaling(alpha, gamma, branch, base):
    scale = tp.DepthScaling(alpha, gamma, branch, base)
    named = {"alpha": alpha, "A": gamma, "B": gamma, "branch": branch, "base_depth": base}
    default = {"alpha": alpha, "gamma": gamma, "branch": branch, "base_depth": base}
    for depth, names in ((scale, ["W"]), (named, ["A", "B"]), (default, ["A", "B"])):
        assert tp.Parametrization(depth=depth).over(names) == scale
    moved = tp.Parametrization(depth={**named, "B": gamma + 1})
    assert moved.over(["A", "B"]) is moved
    assert moved.update_exponent("B") == sp.Rational(gamma) + 1 and moved.update_exponent("U") == 0


def test_named_widths_that_are_mup_and_are_not():
    for width in ("muP", "MFP", tp.meta_principled(1, 4), tp.meta_principled(1, 3).shifted("1/3")):
        assert tp.Parametrization(width).is_mup(), width
    for width in ("SP", "NTP", "SP, rate 1/n", tp.meta_principled("1/2", 3)):
        assert not tp.Parametrization(width).is_mup(), width
    for width in ("MFP", tp.meta_principled(1, 4)):  # rates are those of gradient descent
        assert not tp.Parametrization(width).is_mup(linear=False)
    raw = {"input": {"lr": 1}, "hidden": {"init": "-1/2"}, "output": {"init": -1, "lr": -1}}
    assert tp.Parametrization(raw).is_mup()
    assert not tp.Parametrization({**raw, "hidden": {"init": "-1/2", "lr": -1}}).is_mup()
    frozen = {**raw, "input": {}, "output": {"init": -1}}  # rates of ends that are not trained are nobody's
    assert tp.Parametrization(frozen).is_mup(ends=False) and not tp.Parametrization(frozen).is_mup()


def test_at_a_width_what_differs_from_mup_is_a_number():
    raw = {"input": {"lr": 1}, "hidden": {"init": "-1/4", "lr": "-1/2"}, "output": {"init": "-1/2", "lr": 1}}
    mup, other = (tp.Parametrization(width, tp.DepthScaling(1, 0)).at_width(16) for width in ("muP", raw))
    ratios = {name: other.step_size(name, sp.Integer(9)) / mup.step_size(name, sp.Integer(9)) for name in "UW"}
    assert ratios == {"U": 1, "W": sp.Rational(1, 4)} and other.step_size("nV", 9) == 16**2 * mup.step_size("nV", 9)
    assert [other.initial_factor(name) for name in ("U", "W", "nV")] == [1, 2, 4]
    assert [mup.initial_factor(name) for name in ("U", "W", "nV")] == [1, 1, 1]
    one = ParametrizationAtWidth(raw)
    assert one.initial_factor("W") == 1 and one.step_size("nV", 9) == tp.Parametrization().step_size("nV", 9)


def test_mfp_is_the_member_of_the_family_with_its_principles():
    for layers in (2, 3, 5):
        assert tp.width.width_recipe("MFP", layers) == tp.meta_principled(1, layers)


@pytest.mark.parametrize("width, depth, said", [
    ("magic", tp.DepthScaling(), "width: got 'magic'"), (3, tp.DepthScaling(), "width: got 3"),
    ({"input": {}}, tp.DepthScaling(), "input, hidden, output"), ("muP", {"W": 1}, '"alpha"'),
    ({"input": {}, "hidden": {"rate": 1}, "output": {}}, tp.DepthScaling(), "hidden"), ("muP", None, "depth: got None"),
    ("muP", {"alpha": 1, "W 1": 0}, "'W 1'"), ("muP", {"alpha": 1, 3: 0}, "got 3"),
    ("muP", {"alpha": 1, "W": float("nan")}, "depth\\['W'\\]"), ("muP", {"alpha": 1, "branch": 0}, "branch"),
    ("muP", {"W1": tp.Powers(lr={"n": -1})}, "beside powers of n as width="),
    ("muP", {"W1": tp.Powers(), "W2": 0}, "expected tp.Powers by names")], ids=str)
def test_what_is_wrong_is_named(width, depth, said):
    with pytest.raises(ValueError, match=said):
        tp.Parametrization(width, depth)


def test_names_are_those_of_the_network():
    with pytest.raises(ValueError, match="got 'W3'; expected names of the network's matrices, W1, W2, its ends U, V"):
        tp.Parametrization(depth={**BY_MATRIX, "W3": 0}).over(["W1", "W2"])
    with pytest.raises(ValueError, match="nothing for the matrix 'W3'"):
        tp.Parametrization(depth=BY_MATRIX).over(["W1", "W2", "W3"])
    gate = tp.Parametrization(depth={"alpha": 1, "W": 0, "V": 1})
    assert gate.over(["W", "V"], ends=False) is gate
    with pytest.raises(ValueError, match="'nV' for the read-out"):
        gate.over(["W", "V"])
    with pytest.raises(ValueError, match="all hidden ones alike"):
        tp.Parametrization(tp.WidthScaling([0, 0, 1, 0], [0, 0, 0, 0], 0)).width_scaling
    with pytest.raises(ValueError, match="powers by parameter, of which a network and its optimizer make exponents"):
        tp.Parametrization(depth={"W": tp.Powers(lr={"L": -1})}).scaling


def test_a_size_is_named_once_and_a_setting_is_one():
    with pytest.raises(ValueError, match="expected each size once, as a symbol or by its name"):
        tp.Powers(lr={"L": 1, sp.Symbol("L"): 2})
    with pytest.raises(ValueError, match="setting: got 'rate'; expected 'multiplier', 'init', 'lr', 'eps', 'decay'"):
        tp.Powers(lr={"L": 1}).of("rate", "L")
    assert tp.Powers(lr={sp.Symbol("L"): 2}).of("lr", "L") == 2
