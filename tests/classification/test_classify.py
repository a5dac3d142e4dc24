"""Verdicts: derived exponents against the plane's known cells and against measured slopes."""

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp
from tpcalc.solvers.limit_cell import limit_cell

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
    (H, 0, False, False, None, False, False, None),
    (1, -H, False, False, None, False, False, None),
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


@settings(max_examples=60, deadline=None)
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
    assert e["linearisation error of a layer"] == -a - 2 * g


@pytest.mark.parametrize("alpha, gamma", [(0.5, 0.5), (0.8, 0.2), (1, 0), (1.5, -0.5), (0.5, 1), (1.5, 0), (0.5, 0),
                                          (0.25, 1), (1, 0.5)])
def test_measured_slopes_meet_derived_exponents(alpha, gamma) -> None:
    for measured in tp.measure_exponents(alpha, gamma):
        assert -measured.fitted.order == pytest.approx(float(measured.derived), abs=0.03), measured.name


def test_steps_beyond_the_second_change_no_exponent() -> None:
    """Where d <= 0 and kappa <= 0 exponents at t = 2 equal those at t = 1."""
    from tpcalc.classification.exponents import ALPHA, GAMMA, general_recursion
    from tpcalc.limits import orders

    for a, g in ((H, H), (sp.Rational(3, 4), H), (1, 0), (2, -H)):
        found = orders(general_recursion(tp.ResNet()), {ALPHA: sp.sympify(a), GAMMA: sp.sympify(g)}, steps=3)
        assert found.explosion is None
        for head, t, *rest in [key for key in found.exponents if key[0] == "Gamma" and key[1] == 1]:
            r, family, b = rest
            later = found.of(head, 2, r + 1 if r >= 0 else r, family, b)
            assert later == found.of(head, 1, r, family, b)


def test_bad_exponents_are_named() -> None:
    for bad in (float("nan"), float("inf"), "x y", None, True, 1j):
        with pytest.raises(ValueError, match="alpha"):
            tp.classify(bad, 0.5)
    with pytest.raises(ValueError, match="gamma: g given; allowed is a real number"):
        tp.classify(0.5, sp.Symbol("g", real=True))
    with pytest.raises(ValueError, match="net"):
        tp.classify(0.5, 0.5, net="linear")  # type: ignore[arg-type]


def test_floats_are_read_as_the_decimals_they_print_as() -> None:
    assert tp.classify(0.7, 0.3).nontrivial and tp.classify(0.6, 0.4).nontrivial


def test_a_verdict_prints() -> None:
    v = tp.classify(0.5, 0.5)
    assert "Depth-muP" in str(v) and r"L^{-1/2}" in v.latex().replace(r"- \frac{1}{2}", "-1/2")
