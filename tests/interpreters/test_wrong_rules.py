"""Rules with a deliberate error: the check of the steps on numbers must report every one of them."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import sympy as sp

import tpcalc as tp
from support.nightly import sampled
from tpcalc.calculus import coefficients, equations as rules
from tpcalc.interpreters import step_values

DATA = {"xi": [1.0, 0.8, -0.6], "y": [1.0, -0.7, 0.5], "alpha": 0.6, "gamma": 0.3}
PROGRAM = tp.program(tp.ResNet(), tp.SGD(0.7, momentum=0.5), tp.DepthScaling(*sp.symbols("alpha gamma", real=True)))
Change = Callable[[sp.Expr], sp.Expr]


def flip(expression: sp.Expr) -> sp.Expr:
    return -expression


def end_sums_early(expression: sp.Expr) -> sp.Expr:
    def shorter(total: sp.Sum) -> sp.Expr:
        *rest, (index, first, last) = total.limits
        return sp.Sum(total.function, *rest, (index, first, last - 1))
    return expression.replace(lambda e: isinstance(e, sp.Sum), shorter)


def drop_a_delta(expression: sp.Expr) -> sp.Expr:
    deltas = sorted(expression.atoms(sp.KroneckerDelta), key=str)
    return expression.subs(deltas[0], 1) if deltas else expression


def drop_a_term(expression: sp.Expr) -> sp.Expr:
    return expression - sorted(sp.Add.make_args(expression), key=str)[0]


CHANGES: dict[type, tuple[Change, ...]] = {
    rules.Unroll: (flip, end_sums_early, drop_a_term),
    rules.VectorsToKets: (flip, drop_a_term),
    rules.UpdateActs: (flip, end_sums_early, drop_a_term),
    rules.HatDot: (flip, drop_a_term),
    rules.DotSum: (flip, end_sums_early, drop_a_term),
    rules.Causality: (flip, end_sums_early, drop_a_term),
    rules.Collect: (flip, end_sums_early, drop_a_delta, drop_a_term),
    coefficients.Differentiate: (flip, end_sums_early, drop_a_delta, drop_a_term),
    coefficients.NameCoefficients: (flip, end_sums_early, drop_a_delta, drop_a_term),
    coefficients.NameCovariances: (flip, end_sums_early, drop_a_delta, drop_a_term),
    coefficients.Expand: (flip, drop_a_term),
    coefficients.IndependentKets: (flip, end_sums_early, drop_a_term),
}


def reported(layers: int = 2) -> list[tp.theory.StepCheck]:
    recursion = tp.recursion(tp.kets(PROGRAM))
    return [check for check in tp.check_steps(recursion, {"T": 3, "L": layers}, DATA) if not check.difference < 1e-3]


@pytest.mark.parametrize("rule, change", sampled(
    (f"{rule.__name__}-{change.__name__}", (rule, change))
    for rule, changes in CHANGES.items() for change in changes if change is not flip) + [
    pytest.param(rule, flip, id=f"{rule.__name__}-flip", marks=() if k % 2 == 0 else pytest.mark.nightly)
    for k, rule in enumerate(CHANGES)])
def test_a_wrong_rule_is_reported(monkeypatch: pytest.MonkeyPatch, rule: Any, change: Change) -> None:
    right = rule.apply

    def wrong(self: Any, expression: sp.Expr) -> sp.Expr:
        after = right(self, expression)
        return after if after == expression else change(after)

    monkeypatch.setattr(rule, "apply", wrong)
    assert rule.name in {check.step.rule for check in reported()}


def test_hats_of_different_matrices_do_not_correlate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Kronecker deltas of the layers, dropped where hats are paired; a ket of layer 2 has hats of two layers."""
    right = coefficients.IndependentKets.rewrite
    monkeypatch.setattr(coefficients.IndependentKets, "rewrite", lambda self, node: right(self, node).replace(
        lambda e: isinstance(e, sp.KroneckerDelta), lambda e: sp.Integer(1)))
    assert "independence" in {check.step.rule for check in reported(layers=3)}


def test_a_missing_scale_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gamma without sqrt(L)."""
    monkeypatch.setattr(coefficients.NameCoefficients, "_root", sp.Integer(1))
    assert "name the coefficients" in {check.step.rule for check in reported()}


def test_a_wrong_memory_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimizer forgets twice as fast: trained matrices are no longer what their updates make of them."""
    right = step_values.memory_equations
    monkeypatch.setattr(step_values, "memory_equations", lambda *at: [(left, value.subs(sp.Rational(1, 2), sp.Rational(
        1, 4)), location) for left, value, location in right(*at)])
    assert "unroll the updates" in {check.step.rule for check in reported()}


def test_the_right_rules_are_not_reported() -> None:
    assert reported() == []
