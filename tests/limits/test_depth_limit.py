"""Regions, surviving terms and equations of the limit of infinite depth."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc.orders import Affine, Exponent, Quantity, Region, Sort
from tpcalc.orders.affine import Cell
from tpcalc.limits.functions import Coefficient, CovarianceFunction
from tpcalc.limits.depth_limit import Obstacle, obstacle
from tpcalc.limits.survival import Kind

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)
H = sp.Rational(1, 2)


def fractions(low: str, high: str) -> st.SearchStrategy[sp.Rational]:
    """Rationals with small denominators, the plane's boundaries often among them."""
    found = st.fractions(low, high, max_denominator=6)
    return found.map(lambda f: sp.Rational(f.numerator, f.denominator))


@st.composite
def points(draw: st.DrawFn) -> tuple[sp.Rational, sp.Rational]:
    alpha = draw(st.one_of(st.just(H), fractions("0", "2")))
    return alpha, draw(st.one_of(st.just(1 - alpha), st.just(sp.Integer(0)), fractions("-1", "2")))


def functions_of(equations: tuple) -> set[str]:
    return {str(f) for e in equations for f in e.value.atoms(Coefficient, CovarianceFunction)}


def test_the_plane_has_four_regions_with_a_limit_and_two_without(limit: tp.theory.DepthLimit) -> None:
    found = {str(region.conditions): region.has_limit for region in limit.regions}
    assert found == {
        "(2*alpha < 1,)": False, "(2*alpha >= 1, alpha + gamma < 1)": False,
        "(2*alpha > 1, alpha + gamma > 1)": True, "(Eq(alpha + gamma, 1), 2*alpha > 1)": True,
        "(Eq(2*alpha, 1), alpha + gamma > 1)": True, "(Eq(2*alpha, 1), Eq(alpha + gamma, 1))": True}


@settings(max_examples=80)
@given(point=points())
def test_every_point_lies_in_one_region(limit: tp.theory.DepthLimit, mlp: tp.theory.DepthLimit, point: tuple) -> None:
    values = dict(zip(("alpha", "gamma"), point))
    for one in (limit, mlp):
        holding = [r for r in one.regions if r.region.contains(point)]
        assert holding == [one.at(**values)]
        assert all(bool(c.subs({ALPHA: point[0], GAMMA: point[1]})) for c in holding[0].conditions)


@settings(max_examples=6)
@given(point=points())
def test_numbers_from_the_start_give_the_equations_of_the_region(limit: tp.theory.DepthLimit, point: tuple) -> None:
    alone = tp.depth_limit(tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling(*point)))))
    one, = alone.regions
    region = limit.at(alpha=point[0], gamma=point[1])
    numbers = {ALPHA: point[0], GAMMA: point[1]}
    assert one.conditions == () and one.has_limit == region.has_limit
    if region.has_limit:
        assert one.equations == region.equations
        assert one.rate == region.rate.subs(numbers)
        assert one.exponents == {kind: e.subs(numbers) for kind, e in region.exponents.items()}
    else:
        assert region.obstacle is not None and region.obstacle.words(numbers) == one.reason


def test_at_one_half_everything_of_proposition_c4_survives(limit: tp.theory.DepthLimit) -> None:
    """Noise, response and update: each generic in b and r, in one equation for each direction."""
    region = limit.at(alpha=H, gamma=H)
    sweeps = [e for e in region.equations if not e.boundary and isinstance(e.target, Coefficient)]
    assert len(sweeps) == 2 and all(e.where == () and len(e.kinds) == 4 for e in sweeps)
    assert all(e == 0 for e in region.exponents.values())
    for equation in sweeps:
        a = int(equation.target.args[0])
        inside = {str(f) for f in equation.value.atoms(sp.Integral).pop().atoms(Coefficient, CovarianceFunction)}
        side = "-" if a == 0 else "+"
        assert inside == {f"Gamma[t,s,{a},{1 - a}](p'{side}, p')", f"C[t,s,{a}](p')", f"Gamma[s,r,{1 - a},b](p', q)"}
    assert all(t.order.is_negative for t in region.dropped)
    assert {t.order for t in region.dropped} == {sp.Integer(-1)}  # what one layer adds of its own


def test_above_one_half_the_noise_is_dropped_and_odes_remain(limit: tp.theory.DepthLimit) -> None:
    """Appendix H.3: the outputs depend on coefficients of the initial vectors alone, each a function of one time."""
    region = limit.at(alpha=0.75, gamma=0.25)
    assert all(term.rule != "base layers" for term in region.kept)
    assert not any("-, p'" in f or "+, p'" in f for f in functions_of(region.equations))  # no response
    covariances = [e for e in region.equations if isinstance(e.target, CovarianceFunction)]
    assert covariances and all(c.step == -1 for e in covariances for c in e.value.atoms(Coefficient))
    responses = {sp.simplify(t.order) for t in region.dropped if t.rule in ("layers", "base layers")}
    assert responses == {1 - 2 * ALPHA}


def test_scaled_functions_are_the_papers_at_one_half_only(limit: tp.theory.DepthLimit) -> None:
    kappa = 1 - ALPHA - GAMMA
    trivial = limit.at(alpha=1, gamma=1)
    assert sp.expand(trivial.exponents[("f",)] - kappa) == 0
    assert sp.expand(trivial.exponents[("Gamma", 0, 0, 1)] - kappa - H + ALPHA) == 0
    nontrivial = limit.at(alpha=1, gamma=0)
    assert nontrivial.exponents[("f",)] == 0 and nontrivial.exponents[("Gamma", 0, 0, 0)] == H - ALPHA
    assert "Gamma~[t,r,0,b](p, q)" in str(nontrivial) and "f[t] = " in str(nontrivial)


@pytest.mark.parametrize("alpha, gamma", [(1, 0), (1, 1), (0.5, 0.5)])
def test_equations_are_for_the_functions_that_are_defined(limit: tp.theory.DepthLimit, alpha: float,
                                                          gamma: float) -> None:
    """Coefficients are divided by powers of L in the equations where definitions say so, and nowhere else."""
    region = limit.at(alpha=alpha, gamma=gamma)
    defined = {f for _, functions, _ in region.scaled() for f in functions if isinstance(f, Coefficient)}
    solved = set().union(*(sp.Tuple(e.target, e.value).atoms(Coefficient) for e in region.equations))
    assert {f.args[-1] for f in solved} == ({f.args[-1] for f in defined} or {0})


def test_a_coefficient_of_an_initial_vector_has_one_layer_time() -> None:
    initial, hat = (Coefficient(0, 1, 2, r, *sp.symbols("p q"), 0, 0) for r in (-1, 0))
    assert sp.latex(initial) == r"\Gamma_{2,-1,0,1}\left(p\right)" and str(initial) == "Gamma[2,-1,0,1](p)"
    assert sp.latex(hat) == r"\Gamma_{2,0,0,1}\left(p,q\right)" and str(hat) == "Gamma[2,0,0,1](p, q)"


def test_small_outputs_leave_the_loss_at_zero(limit: tp.theory.DepthLimit) -> None:
    assert "chi[t] = loss'[t](0)" in str(limit.at(alpha=0.5, gamma=1))
    assert "chi[t] = loss'[t](f[t])" in str(limit.at(alpha=0.5, gamma=0.5))


def test_reasons(limit: tp.theory.DepthLimit, mlp: tp.theory.DepthLimit) -> None:
    assert limit.at(alpha=0.25, gamma=1).reason == "the network explodes at initialization like exp(L^(1 - 2*alpha))"
    assert limit.at(alpha=1, gamma=-1).reason == "the first update moves the output by L^(-alpha - gamma + 1)"
    assert limit.at(alpha=1, gamma=0.5).reason.startswith("trivial limit")
    assert limit.at(alpha=0.5, gamma=0.5).reason == ""
    assert "grows by -2*gamma from step 1 to step 2" in mlp.at(alpha=3, gamma=-0.5).reason
    assert mlp.at(alpha=2, gamma=-0.4).reason.startswith("update 2 moves the output by")
    assert not any(r.has_limit for r in mlp.regions if r.region.point()[1] < 0)  # type: ignore[index]


def test_where_there_is_no_limit_equations_are_refused(limit: tp.theory.DepthLimit) -> None:
    region = limit.at(alpha=0.5, gamma=0.25)
    for ask in (lambda: region.equations, lambda: region.rate, lambda: region.kept, lambda: region.compile()):
        with pytest.raises(tp.Divergence, match="first update moves the output"):
            ask()
    assert "no limit" in str(region) and "no limit" in region.latex()


@pytest.mark.parametrize("values, what", [
    ({"alpha": 0.5}, "no value for gamma"), ({"alpha": 0.5, "gamma": 0.5, "beta": 1}, "got beta"),
    ({"alpha": float("nan"), "gamma": 0}, "alpha"), ({"alpha": 1j, "gamma": 0}, "alpha"),
    ({"alpha": sp.Symbol("x"), "gamma": 0}, "alpha: got x"), ({"alpha": True, "gamma": 0}, "alpha")])
def test_bad_points_are_named(limit: tp.theory.DepthLimit, values: dict, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        limit.at(**values)


def test_bad_programs_are_named() -> None:
    with pytest.raises(ValueError, match="recursion: got 3"):
        tp.depth_limit(3)  # type: ignore[arg-type]
    ends = tp.recursion(tp.kets(tp.program(tp.ResNet(train_embedding_readout=True), tp.SGD(), tp.DepthScaling())))
    with pytest.raises(ValueError, match="vector outside the layers"):
        tp.depth_limit(ends)


def test_irrational_points_have_a_region(limit: tp.theory.DepthLimit) -> None:
    assert limit.at(alpha=sp.sqrt(2) / 2, gamma=1 - sp.sqrt(2) / 2) is limit.at(alpha=0.75, gamma=0.25)


def test_one_symbol_is_enough() -> None:
    """Along alpha + gamma = 1 two regions have a limit, and their equations are those of the plane."""
    line = tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling(ALPHA, 1 - ALPHA))))
    limit = tp.depth_limit(line)
    assert [str(r.conditions) for r in limit.regions if r.has_limit] == ["(2*alpha > 1,)", "(Eq(2*alpha, 1),)"]
    assert limit.at(alpha=0.75).rate == sp.Min(1, 2 * ALPHA - 1)


def test_latex_names_every_region(limit: tp.theory.DepthLimit) -> None:
    text = limit.latex()
    assert text.count(r"\textbf{where }") == 6 and text.count("no limit") == 2
    assert limit._repr_latex_().startswith("$") and limit.regions[-1].latex() in text


def test_texts_say_the_rate_and_the_exponents(limit: tp.theory.DepthLimit) -> None:
    """What is printed of a region, read again."""
    names = {"alpha": ALPHA, "gamma": GAMMA}
    for region in (r for r in limit.regions if r.has_limit):
        said = re.search(r"rate: L\^\(-r\), r = (.*)$", str(region))
        assert said is not None and sp.sympify(said[1], names) == region.rate
        scaled = re.findall(r"divided by L\^\((.*)\)", str(region))
        assert [sp.sympify(one, names) for one in scaled] == [exponent for *_, exponent in region.scaled()]


def test_kinds_without_one_scale_are_refused(limit: tp.theory.DepthLimit) -> None:
    part = limit.at(alpha=0.5, gamma=0.5).part
    assert part is not None
    covariance = Kind(Sort.COVARIANCE, 0, base=0)
    larger = {**part.exponents, covariance: part.exponents[covariance] + Affine.number(1, 2)}
    with pytest.raises(ValueError, match="one power of L for each kind"):
        replace(part, exponents=larger).require_one_scale()


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_growth_that_no_output_shows_is_told_of_the_last_step(steps: int) -> None:
    outputs = {Quantity.scalar("f", step): Exponent.single(Affine.number(0, 0)) for step in range(steps)}
    found = obstacle(Cell(Region(0), outputs, grows=True), ["f"], ())
    assert found == Obstacle("accelerates", "", max(steps - 1, 0), None)
