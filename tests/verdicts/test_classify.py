"""Verdicts: derived exponents against the plane's known cells and against measured slopes."""

from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tpcalc as tp
from tpcalc.verdicts.counting import ALPHA, GAMMA
from tpcalc.propagators.limit_cell import limit_cell
from tpcalc.programs.language import MatVec

# alpha, gamma: output stable, stable, nontrivial, faithful (both), feature learning, diversity exponent.
# Reference vectors: the cells of the plane, worked out by hand from the first two steps of the linear network.
H = sp.Rational(1, 2)
CELLS = [
    (H, H, True, True, True, True, True, H),
    (sp.Rational(3, 4), sp.Rational(1, 4), True, True, True, True, True, 0),
    (1, 0, True, True, True, True, True, 0),
    (sp.Rational(3, 2), -H, True, False, True, False, False, 0),
    (H, 1, True, True, False, True, False, H),
    (sp.Rational(3, 4), 1, True, True, False, True, False, None),
    (sp.Rational(3, 2), 0, True, True, False, True, True, None),
    (2, -H, True, False, False, False, False, None),
    (H, 0, False, False, True, False, False, None),
    (1, -H, False, False, True, False, False, None),
]


@pytest.mark.parametrize("alpha, gamma, outputs, stable, nontrivial, faithful, learning, diversity", CELLS)
def test_cells(alpha, gamma, outputs, stable, nontrivial, faithful, learning, diversity) -> None:
    v = tp.classify(alpha, gamma)
    assert v.stable_at_init and v.faithful_at_init
    assert (v.output_stable, v.stable_in_training, v.nontrivial) == (outputs, stable, nontrivial)
    assert (v.faithful_at_init and v.faithful_in_training, v.feature_learning) == (faithful, learning)
    assert v.diversity_exponent == diversity
    assert v.redundant == (None if diversity is None else diversity == 0)


def test_below_one_half_the_network_explodes_and_the_rate_is_derived() -> None:
    v = tp.classify(sp.Rational(1, 4), 5)
    assert not v.stable_at_init and not v.output_stable and v.nontrivial is None
    assert "exp(L^(1/2))" in v.reasons[0]


rationals = st.fractions(min_value=-1, max_value=3, max_denominator=12)


@settings(max_examples=15, deadline=None)
@given(alpha=rationals, gamma=rationals)
def test_exactly_one_point_has_every_property(alpha, gamma) -> None:
    """Claim 5.5, and the agreement of derived stability with where a limit is said to exist."""
    a, g = sp.Rational(alpha.numerator, alpha.denominator), sp.Rational(gamma.numerator, gamma.denominator)
    v = tp.classify(a, g)
    every = (v.stable_at_init and v.stable_in_training and v.nontrivial and v.faithful_at_init
             and v.faithful_in_training and v.feature_learning and v.diversity_exponent == H)
    assert bool(every) == (a == g == H) == (v.name == "Depth-muP")
    scale = tp.DepthScaling(a, g)
    if v.output_stable:
        cell = limit_cell(scale)
        assert (cell.drift > 0) == v.nontrivial and (cell.noise > 0) == (v.exponents["noise of x over a piece"] == 0)
        assert bool([n for n in cell.notes if "h = W x does not" in n]) == (v.nontrivial and not v.stable_in_training)
    else:
        with pytest.raises(tp.Divergence, match="allowed|needs"):
            limit_cell(scale)


@settings(max_examples=60, deadline=None)
@given(alpha=st.fractions(min_value="1/2", max_value=3, max_denominator=12), gamma=rationals)
def test_exponents_are_affine_in_alpha_and_gamma(alpha, gamma) -> None:
    """Change of f and x: kappa; update of h: -gamma; change of h: the larger."""
    a, g = sp.Rational(alpha.numerator, alpha.denominator), sp.Rational(gamma.numerator, gamma.denominator)
    e = tp.classify(a, g).exponents
    kappa = 1 - a - g
    assert e["change of f"] == e["change of x"] == kappa and e["update of h"] == -g
    assert e["change of h"] == max(kappa, -g)
    assert e["noise of x over a piece"] == sp.Rational(1, 2) - a + max(kappa, 0)
    assert e["linearization error of a layer"] == -a - 2 * g


@pytest.mark.parametrize("alpha, gamma", [(0.5, 0.5), (0.8, 0.2), (1, 0), (1.5, -0.5), (0.5, 1), (1.5, 0), (0.5, 0),
                                          (0.25, 1), (1, 0.5)])
def test_measured_slopes_meet_derived_exponents(alpha, gamma) -> None:
    for measured in tp.theory.measure_exponents(alpha, gamma):
        assert -measured.fitted.order == pytest.approx(float(measured.derived), abs=0.03), measured.name


def test_exponents_at_a_point_are_those_of_its_region() -> None:
    """The whole plane at once, and one point: two readings of one count, for linear and other networks."""
    from tpcalc.verdicts.exponents import exponents_of

    points = ((H, H), (1, 0), (sp.Rational(3, 4), sp.Rational(1, 4)), (H, 1), (2, 3), (sp.Rational(1, 4), 1))
    for net, some in ((tp.ResNet(), points), (tp.ResNet("linear", "mlp"), points[:1]), (tp.ResNet("relu"), points[:1])):
        for a, g in some:
            (point, alone), = exponents_of(net, ((ALPHA, sp.sympify(a)), (GAMMA, sp.sympify(g))))
            where, found = next((r, e) for r, e in exponents_of(net) if r.contains((sp.sympify(a), sp.sympify(g))))
            assert point.size == 0 and where.size == 2
            assert alone.at(()) == found.at((sp.sympify(a), sp.sympify(g))), (net, a, g)
            assert bool(alone.explosions) == bool(found.explosions) and alone.grows == found.grows


@settings(max_examples=6, deadline=None)
@given(alpha=rationals, gamma=rationals)
def test_ket_equations_of_a_linear_network_say_what_its_recursion_says(alpha, gamma) -> None:
    """Two counts of one program, of random variables and of coefficients: outputs, and what explodes."""
    from tpcalc.verdicts.exponents import counting_of
    from tpcalc.orders import settled_orders

    at = ((ALPHA, sp.sympify(alpha)), (GAMMA, sp.sympify(gamma)))
    net = tp.ResNet()
    cell, = settled_orders(tp.recursion(tp.kets(tp.program(net, tp.SGD(), tp.DepthScaling(ALPHA, GAMMA)))), at=at).cells
    found = counting_of(net, at).there(dict(at)).decided()
    assert bool(found.explosions) == bool(cell.explosions) or cell.of("f", 1).at(()) > 0
    if not found.explosions:
        for step in (0, 1):
            for name in ("f", "chi"):
                assert found.size(name, step).exponent == cell.of(name, step).at(()), (name, step)
    elif found.explosions[0][0].step == 0:
        assert found.rate(found.explosions[0][1]) == cell.explosions[0][1].at(())


NONLINEAR = [tp.ResNet("tanh"), tp.ResNet("relu"), tp.ResNet("abs"), tp.ResNet("relu", "pre_nonlin"),
             tp.ResNet("tanh", "mlp")]


@pytest.mark.parametrize("net", NONLINEAR, ids=str)
@pytest.mark.parametrize("alpha, gamma", [(H, H), (1, 0), *(pytest.param(*point, marks=pytest.mark.slow) for point in (
    (sp.Rational(3, 4), sp.Rational(1, 4)), (H, 1), (H, 0), (sp.Rational(3, 2), 0), (sp.Rational(1, 4), 1)))])
def test_nonlinear_networks_share_the_linear_ones_verdict_where_h_does_not_grow(net, alpha, gamma) -> None:
    """Tensor Programs VI, section 5, states its claims for both, which share nothing else."""
    v, linear = tp.classify(alpha, gamma, net), tp.classify(alpha, gamma)
    for flag in ("stable_at_init", "output_stable", "stable_in_training", "nontrivial", "faithful_at_init",
                 "faithful_in_training", "feature_learning", "diversity_exponent"):
        assert getattr(v, flag) == getattr(linear, flag), (flag, str(v))


def test_kinks_cost_a_quarter_power() -> None:
    """Linearizing relu in an update of size g errs by g^(3/2), a smooth activation by g^2: both in the mean square."""
    errors = {phi: tp.classify(H, H, tp.ResNet(phi)).exponents["linearization error of a layer"]
              for phi in ("tanh", "relu", "abs")}
    assert errors == {"tanh": -sp.Rational(3, 2), "relu": -sp.Rational(5, 4), "abs": -sp.Rational(5, 4)}


def test_where_h_grows_a_bounded_activation_holds_the_stream_back() -> None:
    v = tp.classify(sp.Rational(3, 2), -H, tp.ResNet("tanh"))
    assert v.output_stable and v.stable_in_training is False and v.nontrivial is False
    two = tp.classify(sp.Rational(3, 2), -H, tp.ResNet("linear", "mlp"))  # exact, and worse from step to step
    assert two.output_stable is False and tp.classify(sp.Rational(3, 2), -H).output_stable


def test_what_no_rule_covers_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="grows faster than every power"):
        tp.classify(H, H, tp.ResNet(sp.exp(sp.Symbol("h"))))
    with pytest.raises(ValueError, match="frozen embedding and readout"):
        tp.classify(H, H, tp.ResNet("tanh", train_embedding_readout=True))


def test_bad_exponents_are_named() -> None:
    for bad in (float("nan"), float("inf"), "x y", None, True, 1j):
        with pytest.raises(ValueError, match="alpha"):
            tp.classify(bad, 0.5)
    with pytest.raises(ValueError, match="gamma: got g; expected a real number"):
        tp.classify(0.5, sp.Symbol("g", real=True))
    with pytest.raises(ValueError, match="net"):
        tp.classify(0.5, 0.5, net="linear")  # type: ignore[arg-type]


def test_floats_are_read_as_the_decimals_they_print_as() -> None:
    assert tp.classify(0.7, 0.3).nontrivial and tp.classify(0.6, 0.4).nontrivial


def test_a_verdict_prints() -> None:
    v = tp.classify(0.5, 0.5)
    assert "Depth-muP" in str(v) and r"L^{-1/2}" in v.latex().replace(r"- \frac{1}{2}", "-1/2")


def _away(alpha: sp.Rational, gamma: sp.Rational) -> bool:
    """A quarter from the lines where another term takes over, so that depths to 2^13 show the leading power."""
    lines = (1 - 2 * alpha, 1 - alpha - gamma, gamma, 1 - alpha)
    return all(line == 0 or abs(line) >= sp.Rational(1, 4) for line in lines)


@settings(max_examples=12, deadline=None)
@given(alpha=st.fractions(min_value="1/2", max_value=2, max_denominator=4),
       gamma=st.fractions(min_value=-1, max_value=1, max_denominator=4))
def test_fitted_exponents_are_the_derived_ones_anywhere(alpha, gamma) -> None:
    """Random rational points, boundaries included, away from crossovers; changes above the rounding of a covariance."""
    a, g = sp.sympify(alpha), sp.sympify(gamma)
    assume(_away(a, g) and 1 - a - g >= -sp.Rational(3, 2))
    for measured in tp.theory.measure_exponents(a, g):
        assert -measured.fitted.order == pytest.approx(float(measured.derived), abs=0.03), measured.name


@pytest.mark.slow
@pytest.mark.parametrize("alpha, gamma", [(H, H), (1, 0), (1, 1), (1, H)])
def test_two_matrix_blocks_change_their_output_as_derived(alpha, gamma) -> None:
    """The compiled recursion of the block, over doubling depths."""
    scale = tp.DepthScaling(ALPHA, GAMMA)
    kernel = tp.recursion(tp.kets(tp.program(tp.ResNet("linear", "mlp"), tp.SGD(), scale))).compile()
    depths = 2 ** np.arange(4, 8)
    outputs = [abs(kernel.evaluate(T=2, L=int(depth), xi=[1.0, 1.0], y=[-1.0, -1.0], alpha=float(alpha),
                                   gamma=float(gamma))["f"][1]) for depth in depths]
    slope = np.polyfit(np.log(depths[1:]), np.log(outputs[1:]), 1)[0]
    derived = tp.classify(alpha, gamma, tp.ResNet("linear", "mlp")).exponents["change of f"]
    assert slope == pytest.approx(float(derived), abs=0.06)


def uncentered(branch):
    """A user's own block: phi(W x) with its mean left in."""
    return branch.let("z", branch.phi(branch.let("h", MatVec(branch.weights(), branch.x))))


def test_a_mean_that_stays_adds_up_coherently() -> None:
    """relu without mean subtraction needs alpha >= 1; an odd activation has no mean, by symmetry, at any step."""
    relu, tanh = (tp.ResNet(phi, block=uncentered) for phi in ("relu", "tanh"))
    half, line = tp.classify(H, H, relu), tp.classify(sp.Rational(3, 4), sp.Rational(1, 4), relu)
    assert not half.stable_at_init and "exp(L^(1/2))" in half.reasons[0]
    assert not line.stable_at_init and "exp(L^(1/4))" in line.reasons[0]
    assert tp.classify(1, 0, relu).name == tp.classify(1, 0).name
    assert tp.classify(H, H, tanh).name == tp.classify(sp.Rational(1, 2), H, tp.ResNet("tanh")).name == "Depth-muP"


@pytest.mark.parametrize("alpha, gamma", [("1/4", "1/4"), ("1/4", "3/4"), ("3/4", "1/2"), ("2/3", "1/3"),
                                          ("1/2", "1/2"), (1, 0)])
def test_how_far_away_a_verdict_is_is_said_as_an_audit_says_it(alpha: object, gamma: object) -> None:
    scale = tp.DepthScaling(alpha, gamma)
    verdict = tp.classify(scale)
    audited = tp.audit(-scale.alpha, -scale.gamma, "adam", eps=None)
    assert (audited.alpha, audited.gamma) == (scale.alpha, scale.gamma)
    assert verdict.far_away == audited.far_away and (verdict.far_away in str(verdict).splitlines()[1:]) == bool(
        verdict.far_away)
    assert bool(verdict.far_away) == (scale.alpha != sp.Rational(1, 2) or scale.gamma != 1 - scale.alpha)


def test_nothing_is_said_of_how_far_symbols_are() -> None:
    assert all(one.verdict.far_away == "" for one in tp.phase_diagram().regions if one.verdict.alpha.free_symbols)


@pytest.mark.parametrize("net, opt", [(tp.ResNet("tanh"), None), (tp.ResNet(), tp.Adam()), (None, tp.SGD(1.0))])
def test_two_numbers_and_a_scaling_are_one_question(net: tp.ResNet | None, opt: Any) -> None:
    """Positions are those of the form that is called: no argument moves because of the class of another."""
    scale = tp.DepthScaling("3/4", "1/4")
    forms = [tp.classify("3/4", "1/4", net, opt), tp.classify(alpha="3/4", gamma="1/4", net=net, opt=opt),
             tp.classify(scale, net, opt), tp.classify(scale=scale, net=net, opt=opt), tp.classify(scale, net, opt=opt)]
    assert len({str(found) for found in forms}) == 1


@pytest.mark.parametrize("given", [
    (tp.DepthScaling(), 0), (tp.DepthScaling(), None, tp.ResNet()), (1, tp.ResNet()), (1, 0, tp.SGD()), (1,),
    (tp.DepthScaling(), tp.SGD(), tp.ResNet()), (tp.DepthScaling(), tp.ResNet(), None, tp.SGD())], ids=repr)
def test_arguments_of_the_other_form_are_refused(given: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"^(gamma|net|opt|optimizer|from_zero): "):
        tp.classify(*given)
