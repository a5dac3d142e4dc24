"""Growth of sweeps whose loops do not stay bounded, against all simple cycles one by one, and where counts end."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from itertools import permutations, product
from operator import add

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc.verdicts.counting import ALPHA, GAMMA
from tpcalc.verdicts.exponents import counting_of
from tpcalc.orders.affine import Affine, Exponent, Region
from tpcalc.orders.cycles import _crossing, growth
from tpcalc.orders.quantities import Quantity, Sort

NODES = [Quantity(Sort.COEFFICIENT, 0, number) for number in range(4)]
Walks = list[dict[tuple[Quantity, Quantity], Fraction]]  # by layers that are passed


@st.composite
def sweeps(draw: st.DrawFn) -> Walks:
    """Terms between four vectors that pass no layer, one or two; what passes none comes round nowhere."""
    weights = st.integers(-3, 3).map(lambda number: Fraction(number, 2))
    found: Walks = [{}, {}, {}]
    for (i, u), (j, f) in product(enumerate(NODES), repeat=2):
        for layers in (0, 1, 2):
            if (layers or i > j) and draw(st.booleans()):
                found[layers][u, f] = draw(weights)
    return found


def largest_mean(walks: Walks) -> Fraction | None:
    """Over all simple cycles and all choices of terms: of squares, which are twice as heavy."""
    means = []
    for size in range(1, len(NODES) + 1):
        for order in permutations(NODES, size):
            pairs = list(zip((*order[1:], order[0]), order))
            for layers in product(range(3), repeat=size):
                if sum(layers) and all(pair in walks[n] for pair, n in zip(pairs, layers)):
                    means.append(sum(2 * walks[n][pair] for pair, n in zip(pairs, layers)) / sum(layers))
    return max(means, default=None)


@settings(max_examples=60, deadline=None)
@given(walks=sweeps())
def test_a_sweep_grows_by_its_heaviest_cycle(walks: Walks) -> None:
    by_layers = [{pair: Exponent.single(Affine((), weight)) for pair, weight in some.items()} for some in walks]
    found = growth(Region(0), by_layers)
    expected = largest_mean(walks)
    assert {form.constant for form in found.forms} == (set() if expected is None else {expected})


def test_where_cycles_change_places_all_their_forms_are_found() -> None:
    """Of two loops of one vector with itself, by one layer and by two, each is the larger one somewhere."""
    u, = NODES[:1]
    one, two = Affine((Fraction(1),), Fraction(0)), Affine((Fraction(-1),), Fraction(1))
    found = growth(Region(1), [{}, {(u, u): Exponent.single(one)}, {(u, u): Exponent.single(two)}])
    assert found.forms == {one * 2, two}


@pytest.mark.parametrize("phi, alpha, gamma, step", [("relu", 0, 1, 0), ("linear", 0, 1, 0), ("relu", 1, -1, 1)])
def test_nothing_is_counted_after_what_explodes(phi: str, alpha: int, gamma: int, step: int) -> None:
    at = ((ALPHA, sp.Integer(alpha)), (GAMMA, sp.Integer(gamma)))
    found = counting_of(tp.ResNet(phi), at).there(dict(at)).decided()
    assert {key.step for key, _ in found.explosions} == {step}
    assert max(key.step for key in found.table) == step


@pytest.mark.parametrize("size", [1, 2, 3])
def test_all_forms_vanish_where_they_cross(size: int) -> None:
    """And there is no such point where one is a sum of the others."""
    rng = np.random.default_rng(size)
    for _ in range(20):
        rows = rng.integers(-4, 5, (size, size + 1)).tolist()
        forms = [Affine(tuple(Fraction(k, 2) for k in slopes), Fraction(constant)) for *slopes, constant in rows]
        point = _crossing(forms)
        singular = abs(np.linalg.det([[float(slope) for slope in form.slopes] for form in forms])) < 1e-9
        assert (point is None) == singular
        assert point is None or all(form.at(point) == 0 for form in forms)
    if size > 1:
        assert _crossing([*forms[1:], reduce(add, forms[1:])]) is None
