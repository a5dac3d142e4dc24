"""Derivation steps on numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy as sp
from hypothesis import given, reject, settings

import tpcalc as tp
from support.nightly import few
from tpcalc.interpreters import UnhandledNode, steps
from tpcalc.testing import linear_programs
from tpcalc.testing.programs import ProgramExample

SCALE = tp.DepthScaling(*sp.symbols("alpha gamma", real=True))
SIZES = {"T": 3, "L": 2}
DATA = {"xi": [1.0, 0.8, -0.6], "y": [1.0, -0.7, 0.5], "alpha": 0.6, "gamma": 0.3}
RATIONAL = {"xi": [1, "4/5"], "y": [1, "-7/10"], "alpha": "1/2", "gamma": "1/2"}
OPTIMIZERS = {
    "plain": tp.SGD(0.7),
    "heavy ball": tp.SGD(0.7, momentum=0.5, dampening=0.25),
    "Nesterov": tp.SGD(0.7, momentum=0.5, nesterov=True, weight_decay=0.1),
    "decoupled decay": tp.SGD(0.7, weight_decay=0.1, decoupled=True),
}


def derived(opt: tp.SGD, **options) -> tp.theory.Recursion:
    return tp.recursion(tp.kets(tp.program(tp.ResNet(**options), opt, SCALE)))


def assert_all_hold(recursion: tp.theory.Recursion, checks: tuple[steps.StepCheck, ...]) -> None:
    assert [check.step for check in checks] == list(recursion.derivation.steps)
    for check in checks:
        assert check.cases >= 3 and check.difference < 1e-13, (str(check.step), check.problem)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_step_holds_on_numbers(name: str) -> None:
    """Those about trained matrices, coefficients and covariances too, whatever the optimizer remembers."""
    recursion = derived(OPTIMIZERS[name])
    assert_all_hold(recursion, tp.check_steps(recursion, SIZES, DATA))


@pytest.mark.parametrize("name", few(OPTIMIZERS, "Nesterov", "decoupled decay"))
def test_every_step_holds_exactly_in_rationals(name: str) -> None:
    checks = tp.check_steps(derived(OPTIMIZERS[name]), {"T": 2, "L": 4}, RATIONAL, exact=True)
    assert [check.difference for check in checks] == [0.0] * len(checks)


def test_a_step_that_holds_to_rounding_only_shows_in_rationals() -> None:
    equations = tp.kets(tp.program(tp.ResNet(), tp.SGD(0.7), SCALE))
    *good, last = equations.derivation.steps
    equations.derivation.steps = (*good, replace(last, after=last.after * (1 + sp.Rational(1, 10**18))))
    assert tp.check_steps(equations, {"T": 2, "L": 4}, RATIONAL)[-1].difference < 1e-15
    assert 0 < tp.check_steps(equations, {"T": 2, "L": 4}, RATIONAL, exact=True)[-1].difference < 1e-17


def test_two_matrices_and_trained_ends() -> None:
    recursion = derived(tp.SGD(0.7), block="mlp", train_embedding_readout=True)
    data = {**DATA, "xi": DATA["xi"][:2], "y": DATA["y"][:2]}
    checks = tp.check_steps(recursion, {"T": 2, "L": 2}, data)
    assert len(checks) > 60 and max(check.difference for check in checks) < 1e-13


def test_batches() -> None:
    recursion = tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(0.7), SCALE, batch=True)))
    data = {"xi": [[1.0, 0.8], [-0.6, 0.4]], "y": [[1.0, -0.7], [0.3, 0.2]], "alpha": 0.6, "gamma": 0.3}
    checks = tp.check_steps(recursion, {"T": 2, "L": 2, "B": 2}, data)
    assert len(checks) > 30 and max(check.difference for check in checks) < 1e-13


@settings(max_examples=20)
@given(example=linear_programs())
def test_random_programs(example: ProgramExample) -> None:
    try:
        recursion = tp.recursion(tp.kets(example.program))
    except ValueError as refused:
        assert "give the product a name" in str(refused)
        reject()
    for check in tp.check_steps(recursion, example.sizes, example.data):
        assert check.cases and check.difference < 1e-11, (str(check.step), check.problem)


@pytest.mark.parametrize("side", ["before", "after"])
def test_both_sides_of_every_step_count(side: str) -> None:
    recursion = derived(OPTIMIZERS["heavy ball"])
    recursion.derivation.steps = tuple(replace(step, **{side: -getattr(step, side)})
                                       for step in recursion.derivation.steps)
    assert all(check.difference > 1e-3 for check in tp.check_steps(recursion, SIZES, DATA))


def test_a_side_without_a_value_is_a_difference() -> None:
    """A sum that starts before the first training step."""
    equations = tp.kets(tp.program(tp.ResNet(), tp.SGD(0.7), SCALE))
    *good, last = equations.derivation.steps
    s = equations.setting.past
    wrong = last.after.replace(lambda e: isinstance(e, sp.Sum), lambda e: sp.Sum(e.function, (s, -1, e.limits[0][2])))
    equations.derivation.steps = (*good, replace(last, after=wrong))
    check = tp.check_steps(equations, SIZES, DATA)[-1]
    assert check.difference == float("inf") and "which is neither given nor assigned" in check.problem


def test_what_has_no_values_is_refused() -> None:
    with pytest.raises(ValueError, match="expected what tp.kets"):
        tp.check_steps(tp.program(tp.ResNet(), tp.SGD(0.7), SCALE), SIZES, DATA)
    with pytest.raises(UnhandledNode, match="not linear"):
        tp.check_steps(tp.kets(tp.program(tp.ResNet("tanh"), tp.SGD(0.7), SCALE)), SIZES, DATA)
