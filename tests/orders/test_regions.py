"""Exact polyhedra and exponents on them: laws, at random rational points."""

from fractions import Fraction

import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from tpcalc.orders import Affine, Exponent, Region

A, G = sp.symbols("alpha gamma", real=True)
numbers = st.fractions(min_value=-2, max_value=2, max_denominator=4)
forms = st.builds(lambda a, b, c: Affine((a, b), c), numbers, numbers, numbers)
points = st.tuples(numbers, numbers)
relations = st.sampled_from(["<", "<=", "=", ">=", ">"])
regions = st.lists(st.tuples(forms, relations), max_size=4).map(
    lambda conditions: _region(conditions))


def _region(conditions: list) -> Region:
    region = Region(2)
    for form, relation in conditions:
        region = region.where(form, relation)
    return region


@given(regions, points)
def test_a_region_has_a_point_if_any_does(region: Region, point: tuple) -> None:
    found = region.point()
    assert region.is_empty == (found is None)
    assert found is None or region.contains(found)
    assert not (region.is_empty and region.contains(point))


@given(regions, points)
def test_reduced_regions_are_the_same(region: Region, point: tuple) -> None:
    if not region.is_empty:
        assert region.reduced().contains(point) == region.contains(point)
        assert len(region.reduced().conditions) <= len(region.conditions)


@given(regions, points)
def test_conditions_for_people_say_the_same(region: Region, point: tuple) -> None:
    if not region.is_empty:
        values = dict(zip((A, G), map(sp.sympify, point)))
        assert all(bool(c.subs(values)) for c in region.expressions((A, G))) == region.contains(point)


@given(regions, regions, st.lists(points, min_size=1, max_size=5))
def test_joined_regions_have_the_points_of_both_and_no_others(one: Region, other: Region, some: list) -> None:
    if not one.is_empty and not other.is_empty:
        both = one.joined(other)
        assert both is None or all(both.contains(point) == (one.contains(point) or other.contains(point))
                                   for point in some)


@given(regions, forms)
def test_the_parts_of_a_region_join_again(region: Region, form: Affine) -> None:
    """The boundary with each side, and both with each other; the sides alone leave the boundary out."""
    parts = dict(region.split(form))
    if len(parts) == 3:
        assert parts["<"].joined(parts[">"]) is None
        for first, last in "<>", "><":
            half = parts["="].joined(parts[first])
            assert half is not None
            whole = half.joined(parts[last])
            assert whole is not None and all(whole.never(c.form, "<" if not c.strict else "<=")
                                             for c in region.conditions)


@given(regions, forms, points)
def test_a_form_divides_a_region_in_three(region: Region, form: Affine, point: tuple) -> None:
    parts = dict(region.split(form))
    holding = [sign for sign, part in parts.items() if part.contains(point)]
    assert len(holding) == region.contains(point)
    if holding:
        value = form.at(point)
        assert holding == ["<" if value < 0 else ">" if value > 0 else "="]
    assert region.sign(form) == {("<",): "<", ("=",): "=", (">",): ">", ("<", "="): "<=", ("=", ">"): ">="}.get(
        tuple(parts))


@given(regions, st.lists(forms, min_size=1, max_size=4), st.lists(forms, min_size=1, max_size=3), points)
def test_exponents_are_maxima(region: Region, first: list, second: list, point: tuple) -> None:
    if not region.contains(point):
        point = region.point()  # type: ignore[assignment]
    if point is None:
        return
    a, b = (Exponent(frozenset(some)) for some in (first, second))
    largest = max(form.at(point) for form in first)
    assert a.at(point) == largest == a.pruned(region).at(point)
    assert a.times(b).at(point) == a.at(point) + b.at(point)
    assert a.plus(b).pruned(region).at(point) == max(a.at(point), b.at(point))
    assert a.expression((A, G)).subs(dict(zip((A, G), map(sp.sympify, point)))) == largest


def test_pruning_drops_what_is_never_the_largest() -> None:
    half = Region(1).where(Affine((Fraction(1),), Fraction(-1, 2)), ">=")
    both = Exponent(frozenset((Affine((Fraction(-2),), Fraction(1)), Affine((Fraction(0),), Fraction(0)))))
    assert both.pruned(half).expression((A,)) == 0 and both.expression((A,)) == sp.Max(0, 1 - 2 * A)


def test_conditions_that_leave_a_line_are_an_equation() -> None:
    region = Region(2).where(Affine.of(A + G - 1, (A, G)), "<=").where(Affine.of(A + G - 1, (A, G)), ">=")
    region = region.where(Affine.of(A - sp.Rational(1, 2), (A, G)), ">")
    assert region.expressions((A, G)) == (sp.Eq(A + G, 1), 2 * A > 1)
