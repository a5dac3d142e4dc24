"""Regimes by counted powers of n: against programs read term by term, against Tensor Programs IV, and as planes."""

from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp
from tpcalc.verdicts.phases import PhaseDiagram
from tpcalc.width import counted_powers, feature_exponent, width_regime
from tpcalc.width.sizes import width_verdict

H = sp.Rational(1, 2)
S, R = sp.symbols("s r", real=True)
FAMILY = tp.WidthScaling([0, 0, S], [0, 0, S], R)
numbers = st.fractions(min_value=-2, max_value=2, max_denominator=4)


def rational(x: Fraction) -> sp.Rational:
    return sp.Rational(x.numerator, x.denominator)


@st.composite
def scalings(draw, layers: int, quarters: int = 4) -> tp.WidthScaling:
    """Critical hidden layers, and often a rate at which something is exactly of order one."""
    steps = st.integers(-quarters, 2 * quarters).map(lambda k: sp.Rational(k, quarters))
    q, p = [draw(steps) for _ in range(layers)], abs(draw(steps))
    r = draw(steps)
    if draw(st.integers(0, 3)):
        powers = counted_powers(tp.WidthScaling([0] * (layers - 1) + [p], q, 0))
        name = draw(st.sampled_from(["the output, by its own weights", "the output, by hidden layers"]))
        r = -powers[name]  # the features' power may have r twice, and then this is not the edge: as good as any other
    return tp.WidthScaling([0] * (layers - 1) + [p], q, r)


def agree(scaling: tp.WidthScaling, phi: str) -> None:
    """The name, and the powers that were read, are those of the count."""
    counted, read = width_regime(scaling), width_verdict(scaling, phi)
    assert counted.name == read.name, (scaling, str(read), counted.exponents)
    powers = {str(e): power for e, power in read.powers.items()}
    assert powers["f[0]"] == counted.exponents["output"]
    if "f[1] - f[0]" in powers and counted.name != "unstable":
        moved = max(counted.exponents[f"the output, by {what}"] for what in ("its own weights", "hidden layers"))
        assert powers["f[1] - f[0]"] <= moved


@settings(max_examples=12, deadline=None)
@given(scalings(2, 2))
def test_programs_say_the_same(scaling: tp.WidthScaling) -> None:
    agree(scaling, "relu")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(scalings(2), st.sampled_from(["relu", "tanh"]))
def test_many_programs_say_the_same(scaling: tp.WidthScaling, phi: str) -> None:
    agree(scaling, phi)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(scalings(3, 2))
def test_deeper_programs_say_the_same(scaling: tp.WidthScaling) -> None:
    agree(scaling, "relu")


def test_the_conditions_of_tensor_programs_iv_come_out() -> None:
    """Theorems 3.3, 3.4 and 3.8 as printed, the independent reference, on many networks that start at order one."""
    rng, names = np.random.default_rng(5), set()
    for _ in range(600):
        layers = int(rng.integers(2, 6))
        a = [sp.Rational(int(k), 4) for k in rng.integers(-2, 4, layers)]
        b = [-a[0], *(H - x for x in a[1:-1]), sp.Rational(int(rng.integers(2, 6)), 4) - a[-1]]
        readout = a[-1] + b[-1]
        least = min([2 * a[0] + 1, *(2 * x for x in a[1:-1])])
        c = [1 - 2 * a[-1], sp.Rational(int(rng.integers(-4, 7)), 4), 1 - least - readout][rng.integers(3)]
        learned = 2 * a[-1] + c
        r = min(readout, learned) + c - 1 + least
        stable = r >= 0 and learned >= 1 and readout + r >= 1
        trivial = readout + r != 1 and learned != 1
        expected = ("unstable" if not stable else "trivial" if trivial else
                    "feature learning" if r == 0 else "kernel regime")
        scaling = tp.WidthScaling.from_abc(a, b, c)
        found = width_regime(scaling)
        assert (found.name, found.exponents["hidden layers"]) == (expected, -r), (a, b, c)
        assert feature_exponent(scaling) == -r
        names.add(expected)
    assert len(names) == 4


@pytest.fixture(scope="module")
def plane() -> PhaseDiagram:
    return tp.phase_diagram(scale=FAMILY)


@settings(max_examples=40, deadline=None)
@given(s=numbers, r=st.one_of(numbers, st.none()), half=st.booleans())
def test_a_point_of_a_plane_has_the_regime_of_its_scaling(plane, s, r, half) -> None:
    """r: also on the two lines on which something is of order one."""
    s = rational(s)
    r = rational(r) if r is not None else (s + 1) / 2 if half else s
    own, = [one for one in plane.regions if sp.And(*one.conditions).subs({S: s, R: r}) == True]  # noqa: E712
    assert plane.at(s, r) is own
    found = width_regime(tp.WidthScaling([0, 0, s], [0, 0, s], r))
    assert (own.name, own.flags) == (found.name, found.said)


def test_the_end_of_the_kernel_regime_learns_features(plane) -> None:
    kernel, = [one for one in plane.regions if one.name == "kernel regime"]
    learning, = [one for one in plane.regions if one.name == "feature learning"]
    assert (kernel.dimension, learning.dimension) == (1, 0)
    muP = tp.width.width_recipe("muP", 3).canonical()
    assert learning.vertices == ((muP.p[-1], muP.r),)
    ntp = tp.width.width_recipe("NTP", 3).canonical()
    assert set(kernel.vertices) == {(ntp.p[-1], ntp.r), (muP.p[-1], muP.r)}
    for one in plane.regions:  # exponents of n are told where a pointer rests
        assert f"powers of n at {one.verdict.where}" in plane.html()


def test_names_of_symbols_and_the_gauge_change_nothing(plane) -> None:
    x, y = sp.symbols("x y", real=True)
    other = tp.phase_diagram(scale=tp.WidthScaling([0, 0, x], [H, H, x + H], y + H))
    named = {one.name + str(one.dimension) for one in plane.regions}
    assert {one.name + str(one.dimension) for one in other.regions} == named and other.symbols == (x, y)
    for one in plane.regions:
        point = tuple(map(rational, one.region.point()))
        assert other.at(*point).name == one.name


@pytest.mark.parametrize("assumed", [dict(positive=True), dict(nonnegative=True), dict(negative=True)], ids=str)
def test_a_plane_has_both_signs_of_its_symbols(assumed: dict) -> None:
    """What is supposed of a symbol would hide lines, and turn conditions into True."""
    s, r = sp.symbols("s r", **assumed)
    supposed, plain = (tp.phase_diagram(scale=tp.WidthScaling([0, 0, 1], [0, a, 1], b)) for a, b in ((s, r), (S, R)))
    assert str(supposed) == str(plain) and "True" not in str(plain) and supposed.symbols == (S, R)
    assert supposed.at(-1, 0).name == width_regime(tp.WidthScaling([0, 0, 1], [0, -1, 1], 0)).name
    a, g = sp.symbols("a g", **assumed)
    deep = [str(tp.phase_diagram(scale=tp.DepthScaling(x, y))) for x, y in ((a, g), sp.symbols("a g", real=True))]
    assert deep[0] == deep[1] and "False" not in deep[0]


@pytest.mark.parametrize("p", [-H, H, 1])
def test_layers_start_as_plain_products_do(p: sp.Expr) -> None:
    """Of n entries of order one with n by n entries of size n^(-(1 + p)/2), by their root mean squares."""
    counted = counted_powers(tp.WidthScaling([0, p, 1], [0, 0, 1], 0))
    sizes, rng = (32, 128, 512), np.random.default_rng(0)
    logs = [np.mean([np.log(np.mean((rng.normal(size=(n, n)) @ rng.normal(size=n))**2) * n**-(1 + float(p))) / 2
                     for _ in range(20)]) for n in sizes]
    assert abs(np.polyfit(np.log(sizes), logs, 1)[0] - float(counted["layer 2"])) < 0.05


def test_layers_that_do_not_start_at_order_one() -> None:
    """What grows at the start is unstable, whatever comes later; what vanishes is not judged further."""
    diagram = tp.phase_diagram(scale=tp.WidthScaling([0, S, 1], [0, 0, 1], R))
    assert {diagram.at(-1, r).name for r in (-3, 0, 3)} == {"unstable"}
    assert {diagram.at(1, r).name for r in (-3, 0, 3)} == {"vanishing at the start"}
    assert diagram.at(1, 0).flags == dict.fromkeys(("stable", "nontrivial", "feature_learning"))
    assert diagram.at(0, 1).name == "feature learning"
    assert width_verdict(tp.WidthScaling([0, 1, 1], [0, 0, 1], 0), "relu").name in ("trivial", "unstable")


@pytest.mark.parametrize("scale, said", [
    (tp.WidthScaling([0, 0], [0, S], 0), "with 1 symbols"), (tp.WidthScaling([0, 0], [0, 1], 0), "with 0 symbols"),
    (tp.WidthScaling([0, S], [0, R], sp.Symbol("g", real=True)), "with 3 symbols"),
    (tp.WidthScaling([0, S], [0, R], S * R), "affine forms in s, r"),
    (tp.WidthScaling([0, S], [0, sp.Symbol("s", positive=True)], 0), "two symbols of the name 's'")], ids=str)
def test_what_is_no_plane_is_refused(scale: tp.WidthScaling, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.phase_diagram(scale=scale)


def test_a_network_beside_powers_of_the_width_is_refused() -> None:
    with pytest.raises(ValueError, match="net: got .* with a tp.WidthScaling"):
        tp.phase_diagram(tp.ResNet(), FAMILY)
    with pytest.raises(ValueError, match="numbers are needed"):
        width_regime(FAMILY)
    with pytest.raises(ValueError, match="scaling: got 'muP'"):
        counted_powers("muP")  # type: ignore[arg-type]
