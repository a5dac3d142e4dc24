"""Planes of any two exponents: one region a point, with the verdict that ``tp.classify`` has for the scaling there."""

from fractions import Fraction
from functools import cache
from typing import Callable

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp
from tpcalc.training.by_parameter import exponents_of_powers
from tpcalc.verdicts.phases import PhaseDiagram

X, Y = sp.symbols("x y", real=True)
H = sp.Rational(1, 2)
BLOCK = tp.ResNet("linear", "mlp")
Made = Callable[[sp.Expr, sp.Expr], tp.Parametrization | tp.DepthScaling]


def raw(eps: object = None) -> Made:
    """The init of one matrix against its learning rate."""
    branch = tp.Powers(multiplier={"L": -H})
    return lambda x, y: tp.Parametrization(depth={"branch": branch, "W": tp.Powers(
        init={"L": x}, lr={"L": y}, eps=None if eps is None else {"L": eps})})


def by_matrix(**powers: Callable[[sp.Expr, sp.Expr], sp.Expr]) -> Made:
    return lambda x, y: tp.Parametrization(depth={name: power(x, y) for name, power in powers.items()})


PLANES: dict[str, tuple[tp.ResNet, Made]] = {
    "two matrices": (BLOCK, by_matrix(alpha=lambda x, y: H, W1=lambda x, y: x, W2=lambda x, y: y)),
    "two matrices, drift": (BLOCK, by_matrix(alpha=lambda x, y: 1, W1=lambda x, y: x, W2=lambda x, y: y)),
    "branch and one": (BLOCK, by_matrix(alpha=lambda x, y: y, W1=lambda x, y: x, W2=lambda x, y: 1 - x)),
    "affine": (tp.ResNet(), lambda x, y: tp.DepthScaling(x - y, 1 - 2 * x + y / 2)),
    "init and rate, gradients": (tp.ResNet(), raw()),
    "init and rate, Adam": (tp.ResNet(), raw(0)),
    "init and rate, Adam with small eps": (tp.ResNet(), raw(-1)),
    "init and rate, signs": (tp.ResNet(), raw()),
}
OPTIMIZERS = {"init and rate, Adam": "adam", "init and rate, Adam with small eps": "adam",
              "init and rate, signs": "signsgd"}
RELU = (tp.ResNet("relu", "mlp"), by_matrix(alpha=lambda x, y: H, W1=lambda x, y: x, W2=lambda x, y: y))
numbers = st.fractions(min_value=-1, max_value=2, max_denominator=4)
points = st.one_of(st.tuples(numbers, numbers), numbers.map(lambda a: (a, 1 - a)),
                   numbers.map(lambda a: (a, Fraction(1, 2))), numbers.map(lambda a: (Fraction(1, 2), a)),
                   numbers.map(lambda a: (a, a)), numbers.map(lambda a: (a, Fraction(0))))


@cache
def diagram_of(name: str) -> PhaseDiagram:
    net, made = {**PLANES, "relu": RELU}[name]
    return tp.phase_diagram(net, made(X, Y), OPTIMIZERS.get(name))


def as_gradient_descent(scale: tp.Parametrization | tp.DepthScaling, net: tp.ResNet, optimizer: str | None
                        ) -> tp.Parametrization | tp.DepthScaling:
    """Exponents, which planes judge at gradient descent with updates as large; eps is negligible."""
    if not isinstance(scale, tp.Parametrization) or scale.parameters is None:
        return scale
    return exponents_of_powers(scale, net, optimizer)


def assert_a_point_has_the_verdict_of_its_scaling(name: str, point: tuple[Fraction, Fraction]) -> None:
    net, made = {**PLANES, "relu": RELU}[name]
    diagram = diagram_of(name)
    x, y = (sp.Rational(c.numerator, c.denominator) for c in point)
    at = {X: x, Y: y}
    own, = [one for one in diagram.regions if sp.And(*one.conditions).subs(at) == True]  # noqa: E712 (sympy's)
    assert diagram.at(*(at[s] for s in diagram.symbols)) is own
    verdict = tp.classify(as_gradient_descent(made(x, y), net, OPTIMIZERS.get(name)), net)
    assert (own.name, own.verdict.diversity_exponent) == (verdict.name, verdict.diversity_exponent), (name, point)
    assert own.flags == {flag: getattr(verdict, flag) for flag in own.flags}


@settings(max_examples=3, deadline=None)
@given(st.sampled_from(["two matrices", "init and rate, gradients", "init and rate, Adam with small eps"]), points)
def test_points_have_the_verdicts_of_their_scalings(name, point) -> None:
    assert_a_point_has_the_verdict_of_its_scaling(name, point)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PLANES, "relu"])
@settings(max_examples=25, deadline=None)
@given(points)
def test_many_points_have_the_verdicts_of_their_scalings(name, point) -> None:
    assert_a_point_has_the_verdict_of_its_scaling(name, point)


def test_one_matrix_that_drifts_is_enough() -> None:
    """At alpha = 1/2 updates may be L^(-1/2), of either matrix: the corner and the two half-lines from it."""
    best = [one for one in diagram_of("two matrices").regions if one.name == "Depth-muP"]
    for point, inside in (((H, H), True), ((H, 2), True), ((2, H), True), ((1, 1), False), ((H, 0), False)):
        assert any(one.region.contains(point) for one in best) == inside
    assert all(one.dimension == 1 for one in best)


def test_rates_and_matrices_are_those_of_the_scaling() -> None:
    diagram = diagram_of("branch and one")
    assert diagram.symbols == (Y, X)
    own = diagram.at(0.75, 0.75)
    assert diagram.rate(0.75, 0.75) == H and own.verdict.matrices["W2"].gamma == sp.Rational(1, 4)
    assert diagram.rates(own) and all(e.free_symbols <= {X, Y} for _, e in diagram.rates(own))


def test_it_is_drawn_and_written_in_its_own_symbols() -> None:
    diagram = diagram_of("two matrices")
    assert "2*x >= 1" in str(diagram) and "2 x" in diagram.latex() and "alpha" not in diagram.latex()
    assert diagram.picture.axes == ("x", "y") and ">x</text>" in diagram.html() and ">y</text>" in diagram.html()
    assert diagram.plot().get_xlabel() == "$x$"


@pytest.mark.parametrize("scale, said", [
    (tp.Parametrization(depth={"alpha": X, "W": X}), "with 1 symbols"),
    (tp.Parametrization(depth={"alpha": X, "W": Y, "W2": 0}), "got 'W2'"),
    (tp.Parametrization(depth={"alpha": 1, "W": X, "U": Y}), "frozen embedding and readout"),
    (tp.Parametrization(depth={"alpha": X, "W": X * Y}), "affine forms in x, y"),
    (tp.Parametrization("SP", {"alpha": X, "W": Y}), "got 'SP', which is not muP in width"),
    (tp.DepthScaling(1, 0), "with 0 symbols"),
    ("1/sqrt(L)", "scale: got '1/sqrt")], ids=str)
def test_what_is_no_plane_is_refused_by_name(scale, said) -> None:
    with pytest.raises(ValueError, match=said):
        tp.phase_diagram(tp.ResNet(), scale)


def test_raw_powers_with_symbols_are_refused_where_numbers_are_needed() -> None:
    scale = raw()(X, Y)
    for call, name in ((lambda: tp.classify(scale), "alpha"), (lambda: tp.theory.audit_matrices(scale), "init"),
                       (lambda: tp.audit(branch=X, lr=0), "branch")):
        with pytest.raises(ValueError, match=f"{name}: got .*; expected a real number"):
            call()


@pytest.mark.nightly
def test_a_gate_behind_a_norm_has_a_plane() -> None:
    """Where only upper bounds of updates are known it is undecided, and divided no further."""
    net = tp.ResNet("silu", "glu", norm="rms")
    diagram = tp.phase_diagram(net)
    for point in ((H, H), (1, 0), (1, H), (1, -H), (2, -1), (H, 0), (0, 1)):
        assert diagram.at(*point).name == tp.classify(*point, net).name
    assert diagram.at(1, -H).name == "unstable in training" and diagram.at(2, -1).name == "undecided"
