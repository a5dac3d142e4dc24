"""Names of counted quantities, and the order in which they are counted."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import combinations

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.orders import BaseQuantity, Quantity, Sort, Terms
from tpcalc.limits.survival import Kind, kind_of
from tpcalc.calculus.kets import Gamma
from tpcalc.orders.quantities import Index, Named, additive_terms, counted_scalar
from tpcalc.orders.terms import is_carried
from tpcalc.programs.language import Family, Scalar

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)
EVERY = [Quantity.scalar("f", 1), Quantity.scalar("chi", 1), Quantity.covariance(0, 1, 0, 2),
         Quantity.coefficient(0, 1, BaseQuantity(-1, 0)), Quantity.coefficient(0, 1, BaseQuantity(0, 0)),
         Quantity.coefficient(0, 1, BaseQuantity(0, 0, True))]


def test_quantities_are_in_a_total_order_that_equality_and_hashes_follow() -> None:
    for a, b in combinations(EVERY, 2):
        assert a != b and hash(a) != hash(b) and (a < b) != (b < a) and str(a) != str(b)
    assert sorted(EVERY) == sorted(reversed(EVERY)) and len({*EVERY, *map(replace, EVERY)}) == len(EVERY)
    assert pickle.loads(pickle.dumps(EVERY)) == EVERY
    assert EVERY[2] == Quantity.covariance(0, 2, 0, 1)


def test_kinds_forget_steps_and_are_written_as_documented() -> None:
    written = [("f",), ("chi",), ("C", 0), ("Gamma", -1, 0, 0), ("Gamma", 0, 0, 0), ("Gamma", 0, 0, 0, "own layer")]
    assert [kind_of(q).written for q in EVERY[:6]] == written
    assert [kind_of(replace(q, step=5)) for q in EVERY[:6]] == [kind_of(q) for q in EVERY[:6]]
    assert kind_of(Quantity.covariance(0, 1, 1, 1)).written == ("C", 0, 1)
    assert kind_of(Quantity.coefficient(1, 3, BaseQuantity(2, 4))) == Kind(Sort.COEFFICIENT, 1, 0, 4)


def test_base_kets_of_all_steps_but_initial_ones_are_of_a_layer() -> None:
    """Initial vectors, at step -1, have none."""
    for step in (-1, 0, 1):
        named = Named(Gamma, "", tuple(Index.of(sp.Integer(number)) for number in (0, 1, 2, step)), own=True)
        base = named.at({}).base
        assert base is not None and base.own == (step >= 0)


def test_a_layer_known_to_differ_takes_away_what_compares_it_alone() -> None:
    """Only a delta of the base layer itself vanishes, what has the base layer in it, and other deltas, stay."""
    terms = Terms(tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling()))))
    equation = next(e for e in terms.recursion.equations if e.kind == "Gamma" and e.location.loops[1:])
    (layer,), (base,) = equation.target.args[4:]
    t, r = sp.symbols("t r", integer=True)
    value = equation.target + sp.KroneckerDelta(t, r) + sp.KroneckerDelta(layer, base)
    assert terms._placed(value, equation, False) == equation.target + sp.KroneckerDelta(t, r)
    assert terms._placed(value, equation, True).has(base) is False and terms._placed(value, equation, None) == value


def test_scalars_with_other_indices_are_refused() -> None:
    with pytest.raises(ValueError, match="one index, the training step"):
        counted_scalar(Family(Scalar, "f")[sp.Integer(1), sp.Integer(0)])


def test_what_the_layer_before_handed_on_is_told_in_both_directions_and_inside_of_samples() -> None:
    """Of a batch, loops are those of steps, samples and layers; backwards the layer before is the one above."""
    recursion = tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling(), batch=True)))
    sweeps = [e for e in recursion.equations if e.kind == "Gamma" and len(e.location.loops) == 3]
    assert [e.location.loops[-1].descending for e in sweeps] == [False, True]
    for e in sweeps:
        (carried,) = [term for term in additive_terms(e.value) if is_carried(e, term)]
        (layer,), (before,) = e.target.args[4], carried.args[4]
        assert before - layer == (1 if e.location.loops[-1].descending else -1)
