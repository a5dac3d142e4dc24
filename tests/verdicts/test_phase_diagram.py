"""The plane divided by verdicts: one region a point, the flags of ``tp.classify``, the cells known by hand."""

from fractions import Fraction
from functools import cache

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp
from tpcalc.verdicts.counting import ALPHA, GAMMA
from tpcalc.verdicts.phases.regions import area, corners, dimension, faces, joined_faces, lines_of
from tpcalc.orders import Affine, Region

H = sp.Rational(1, 2)
KAPPA = 1 - ALPHA - GAMMA
BLOCK = tp.ResNet("linear", "mlp")

# Points of small denominators often lie on lines; a second coordinate is also drawn on kappa = 0 itself.
numbers = st.fractions(min_value=-2, max_value=3, max_denominator=6)
points = st.one_of(st.tuples(numbers, numbers), numbers.map(lambda a: (a, 1 - a)),
                   numbers.map(lambda g: (Fraction(1, 2), g)), numbers.map(lambda a: (a, Fraction(0))),
                   st.tuples(numbers, st.sampled_from([Fraction(-1, 6), Fraction(0), Fraction(1, 6)])).map(
                       lambda one: (1 - 2 * one[0] + one[1], one[0])))  # about where linearization errs by 1/L


@cache
def diagram_of(net: tp.ResNet) -> tp.verdicts.phases.PhaseDiagram:
    return tp.phase_diagram(net)


def assert_a_point_has_one_region_and_its_verdict(net: tp.ResNet, point: tuple[Fraction, Fraction]) -> None:
    diagram = diagram_of(net)
    own, = [one for one in diagram.regions if one.region.contains(point)]
    verdict = tp.classify(*map(sp.sympify, point), net)
    assert diagram.at(*point) is own
    assert (own.name, own.verdict.diversity_exponent) == (verdict.name, verdict.diversity_exponent)
    assert own.flags == {flag: getattr(verdict, flag) for flag in own.flags}
    written = sp.And(*own.conditions).subs({ALPHA: sp.sympify(point[0]), GAMMA: sp.sympify(point[1])})
    assert written == True  # noqa: E712 (sympy's)


@pytest.fixture(scope="module")
def linear() -> tp.verdicts.phases.PhaseDiagram:
    return diagram_of(tp.ResNet())


@settings(max_examples=60, deadline=None)
@given(points)
def test_of_the_linear_network(point) -> None:
    assert_a_point_has_one_region_and_its_verdict(tp.ResNet(), point)


@settings(max_examples=40, deadline=None)
@given(points)
def test_of_blocks_of_two_matrices(point) -> None:
    assert_a_point_has_one_region_and_its_verdict(BLOCK, point)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(points)
def test_of_a_nonlinear_network(point) -> None:
    """There ``tp.classify`` counts at the point alone."""
    assert_a_point_has_one_region_and_its_verdict(tp.ResNet("relu"), point)


# Where, then output stable, stable, nontrivial, faithful (both), feature learning, diversity exponent.
# Reference vectors: the cells of the half-plane alpha >= 1/2, worked out by hand from the linear network's equations.
EXPLODES = ([ALPHA < H], False, False, None, False, False, None)
CELLS = [
    ([sp.Eq(ALPHA, H), sp.Eq(GAMMA, H)], True, True, True, True, True, H),
    ([sp.Eq(KAPPA, 0), ALPHA > H, ALPHA <= 1], True, True, True, True, True, 0),
    ([sp.Eq(KAPPA, 0), ALPHA > 1], True, False, True, False, False, 0),
    ([KAPPA < 0, GAMMA > 0, sp.Eq(ALPHA, H)], True, True, False, True, False, H),
    ([KAPPA < 0, GAMMA > 0, ALPHA > H], True, True, False, True, False, None),
    ([sp.Eq(GAMMA, 0), ALPHA > 1], True, True, False, True, True, None),
    ([KAPPA < 0, GAMMA < 0, ALPHA >= H], True, False, False, False, False, None),
    ([KAPPA > 0, ALPHA >= H], False, False, True, False, False, None),
]


def region_of(conditions: list[sp.Expr]) -> Region:
    relations = {sp.Eq: "=", sp.Lt: "<", sp.Le: "<=", sp.Gt: ">", sp.Ge: ">="}
    region = Region(2)
    for one in conditions:
        region = region.where(Affine.of(one.lhs - one.rhs, (ALPHA, GAMMA)), relations[type(one)])
    return region


def test_cells_known_by_hand_are_unions_of_regions(linear) -> None:
    for conditions, outputs, stable, nontrivial, faithful, learning, diversity in [EXPLODES, *CELLS]:
        cell = region_of(conditions)
        met = [one for one in linear.regions
               if not Region(2, (*cell.conditions, *one.region.conditions)).is_empty]
        assert met
        for one in met:
            v = one.verdict
            assert (v.output_stable, v.stable_in_training, v.nontrivial) == (outputs, stable, nontrivial), conditions
            assert (v.faithful_at_init and v.faithful_in_training, v.feature_learning) == (faithful, learning)
            assert v.diversity_exponent == diversity


def test_exactly_one_point_is_depth_mup_and_it_is_a_region(linear) -> None:
    own, = [one for one in linear.regions if one.name == "Depth-muP"]
    assert own.dimension == 0 and own.vertices == ((H, H),) and linear.at(0.5, 0.5) is own
    assert set(own.conditions) == {sp.Eq(2 * ALPHA, 1), sp.Eq(ALPHA + GAMMA, 1)}


def test_linearizing_a_layer_errs_by_less_than_its_share_above_a_line(linear) -> None:
    """Definition G.1: L^(-alpha - 2 gamma) against 1/L; on the line itself the error stays."""
    for a, g in ((2, -H), (3, -1), (sp.Rational(9, 5), -sp.Rational(2, 5))):
        assert linear.at(a, g).verdict.layerwise_linear is False
        assert linear.at(a + sp.Rational(1, 9), g).verdict.layerwise_linear is True


def test_larger_regions_come_first_and_fill_the_box(linear) -> None:
    sizes = [(one.dimension, area(one.vertices)) for one in linear.regions]
    assert sizes == sorted(sizes, reverse=True)
    (a0, g0), (a1, g1) = linear.box
    assert sum(size for dim, size in sizes if dim == 2) == (a1 - a0) * (g1 - g0)
    for one in linear.regions:
        assert len(one.vertices) == one.dimension + 1 if one.dimension < 2 else len(one.vertices) > 2


def test_rates_are_those_of_the_depth_limit(linear) -> None:
    """Exact along kappa = 0: min(1, 2 alpha - 1), but 1 at alpha = 1/2."""
    for a, r in ((H, 1), (sp.Rational(5, 8), sp.Rational(1, 4)), (sp.Rational(3, 4), H), (1, 1), (2, 1)):
        assert linear.rate(a, 1 - a) == r
    assert linear.rate(0.25, 1) is None and linear.rate(0.5, 0) is None
    assert linear.rates(linear.at(0.75, 0.25))[0][1] == sp.Min(1, 2 * ALPHA - 1)
    assert diagram_of(BLOCK).rate(0.9, 0.1) == sp.Rational(1, 5)  # the inner matrix learns like L^(-2 gamma)


def test_it_prints_and_writes_latex(linear) -> None:
    lines = str(linear).splitlines()
    assert len(lines) == len(linear.regions) + 1 and lines[0].startswith("name")
    tex = linear.latex()
    assert tex.count(r"\\") == len(linear.regions) and r"2 \alpha = 1" in tex
    assert len({line.count("&") for line in tex.splitlines()[1:-1]}) == 1


def test_bad_input_is_named(linear) -> None:
    with pytest.raises(ValueError, match="net"):
        tp.phase_diagram("linear")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="alpha"):
        linear.at(float("nan"), 0)
    with pytest.raises(ValueError, match="gamma: got g; expected a real number"):
        linear.at(0, sp.Symbol("g", real=True))
    with pytest.raises(ValueError, match="grows faster than every power"):
        tp.phase_diagram(tp.ResNet(sp.exp(sp.Symbol("h"))))


# The arrangement itself, for any lines and any kinds of faces.
forms = st.builds(lambda a, g, c: Affine((Fraction(a), Fraction(g)), Fraction(c)), *[st.integers(-2, 2)] * 3)


def test_a_line_has_one_form() -> None:
    form = Affine((Fraction(1), Fraction(-2)), Fraction(3))
    assert len(lines_of([form, form * -1, form * Fraction(5, 2)])) == 1
    assert lines_of([Affine.number(1, 2), Affine.number(0, 2)]) == ()


@settings(max_examples=60, deadline=None)
@given(st.lists(forms, max_size=4), st.integers(1, 3), st.randoms(use_true_random=False),
       st.tuples(numbers, numbers))
def test_any_lines_divide_the_plane_and_joining_keeps_what_is_joined(some, kinds_there_are, random, point) -> None:
    lines = lines_of(some)
    assert len(set(lines)) == len(lines) and all(line * -1 not in lines for line in lines)
    parts = faces(lines)
    assert sum(part.contains(point) for part in parts.values()) == 1
    assert sum((-1)**dimension(part) for part in parts.values()) == 1  # Euler's relation of an arrangement
    kinds = {signs: random.randrange(kinds_there_are) for signs in parts}
    whole = joined_faces(lines, kinds)
    (region, members), = [(r, m) for r, m in whole if r.contains(point)]
    assert {kinds[signs] for signs in members} == {kinds[next(s for s, p in parts.items() if p.contains(point))]}
    assert sorted(signs for _, m in whole for signs in m) == sorted(parts)
    for signs in parts:
        assert sum(r.contains(parts[signs].point()) for r, _ in whole) == 1
    if kinds_there_are == 1:
        assert len(whole) == 1 and not whole[0][0].conditions


@given(st.integers(0, 3), st.integers(0, 3))
def test_corners_of_a_triangle_in_a_box(shift_a, shift_g) -> None:
    region = region_of([ALPHA > shift_a, GAMMA > shift_g, ALPHA + GAMMA < 2 + shift_a + shift_g])
    box = ((Fraction(-9), Fraction(-9)), (Fraction(9), Fraction(9)))
    found = corners(region, box)
    assert set(found) == {(shift_a, shift_g), (shift_a + 2, shift_g), (shift_a, shift_g + 2)} and area(found) == 2
    clipped = corners(region, (box[0], (Fraction(shift_a + 1), Fraction(9))))
    assert area(clipped) == Fraction(3, 2) and len(clipped) == 4
