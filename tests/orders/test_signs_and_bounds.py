"""Small rules of counting: signs of functions and of loops, what is bounded, which terms are means of others."""

from __future__ import annotations

import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.calculus.kets import Expectation, Ket
from tpcalc.asymptotics import DERIVATIVE, KET, Counted, Unknown
from tpcalc.asymptotics.functions import centered_pairs
from tpcalc.orders import EXPLODES, Affine, BaseQuantity, Exponent, Quantity, Region
from tpcalc.orders.affine import Cell, Contribution
from tpcalc.orders.elimination import Forgetting, _sign
from tpcalc.orders.quantities import LAYER_TIME, _require_bounded, sign_on_layers
from tpcalc.programs.language import Family, Vector

p = LAYER_TIME
X, Y = (Ket(Family(Vector, name)[0, 1]) for name in "xy")


@pytest.mark.parametrize("function, sign", [
    (1 + p, 1), (-1 - p, -1), (p - sp.Rational(1, 2), 0), (1 - 2 * p, 0), (sp.Rational(17, 16) - p, 1),
    (p + sp.Rational(1, 16), 1), (p - sp.Rational(17, 16), -1)])
def test_a_function_has_a_sign_where_it_keeps_it(function: sp.Expr, sign: int) -> None:
    assert sign_on_layers(function) == sign


@pytest.mark.parametrize("exponents, bounded", [
    ((-1, 0), True), ((0, 0), True), ((-1, 1), False), ((0, EXPLODES), False), ((EXPLODES,), False)])
def test_what_grows_or_explodes_is_not_bounded(exponents: tuple, bounded: bool) -> None:
    known = {Quantity.scalar("f", step): one if isinstance(one, Exponent) else Exponent.single(Affine.of(one, ()))
             for step, one in enumerate(exponents)}
    assert Cell(Region(0), known).is_bounded(list(known)) is bounded


def test_derivatives_that_explode_are_no_parts_of_kets() -> None:
    solution = Counted(tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling()))).at({}, 1)
    derivative, ket = Unknown(DERIVATIVE, 1, 0, BaseQuantity(0, 1)), Unknown(KET, 1, 0)
    solution.explosions = [(derivative, None)]
    assert solution.derivatives_alone
    for keys in ((), (ket,), (derivative, ket), (ket, derivative)):
        solution.explosions = [(key, None) for key in keys]
        assert not solution.derivatives_alone


def test_loops_through_variances_keep_their_sign_and_others_have_none() -> None:
    target, form = Quantity.coefficient(0, 1, BaseQuantity(0, 0)), Affine.of(0, ())

    def loop(*others: Quantity) -> Contribution:
        return Contribution(target, form, (target, *others), 0, sp.S.One, False, "layers", sign=-1)

    variance, covariance = Quantity.covariance(0, 1, 0, 1), Quantity.covariance(0, 1, 1, 1)
    assert _sign(loop()) == _sign(loop(variance)) == -1
    assert _sign(loop(covariance)) == _sign(loop(variance, covariance)) == _sign(loop(Quantity.scalar("f", 0))) == 0


@pytest.mark.parametrize("rule, factors, sign, forgets", [
    ("layers", "tf", -1, True), ("layers", "f", -1, False), ("own layer", "tf", -1, False),
    ("layers", "ttf", -1, False), ("layers", "tf", 1, False)])
def test_what_forgets_is_fed_with_itself_once_from_layer_to_layer(rule: str, factors: str, sign: int, forgets: bool
                                                                  ) -> None:
    target, variance = Quantity.coefficient(0, 1, BaseQuantity(0, 0)), Quantity.covariance(0, 1, 0, 1)
    known, half = {variance: Exponent.single(Affine.number(0, 0))}, Affine.number(sp.Rational(1, 2), 0)
    made = tuple({"t": target, "f": variance}[letter] for letter in factors)
    one = Contribution(target, half, made, 0, sp.S.One, False, rule, sign=sign)
    found = Forgetting.of(Region(0), known, [one])
    assert isinstance(found, Forgetting)
    assert found.rates == ({target: Exponent.single(half)} if forgets else {}) and (one in found.loops) is forgets


@pytest.mark.parametrize("under, bounded", [
    (p, False), (1 - p, False), (2 * p - 1, False), (2 - p, True), (1 + p, True), (sp.exp(p) - 1, False),
    (sp.exp(p) - sp.E, False), (sp.exp(p), True)])
def test_sums_over_layers_are_of_what_is_bounded_at_both_ends(under: sp.Expr, bounded: bool) -> None:
    if bounded:
        _require_bounded(sp.Symbol("c"), 1 / under)
        return
    with pytest.raises(ValueError, match="which is not bounded on"):
        _require_bounded(sp.Symbol("c"), 1 / under)


def test_means_are_taken_from_the_terms_that_they_are_of() -> None:
    two = 2 * X
    assert list(centered_pairs([two, -2 * Expectation(X), Y])) == [(two, True), (Y, False)]
    assert list(centered_pairs([two, 2 * Expectation(X)])) == [(two, False), (2 * Expectation(X), False)]
    assert list(centered_pairs([X * Expectation(Y), Y])) == [(X * Expectation(Y), False), (Y, False)]


def test_derivatives_in_initial_vectors_are_those_of_step_minus_one() -> None:
    counted = Counted(tp.kets(tp.program(tp.ResNet("tanh"), tp.SGD(), tp.DepthScaling())))
    counted.at({}, 2)
    initial = [key.base for key in counted.entries.of if key.base is not None and key.base.is_initial]
    assert initial and {base.step for base in initial} == {-1}
