"""Derivation steps on numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters.steps import check_steps

SCALE = tp.DepthScaling(*sp.symbols("alpha gamma", real=True))
DATA = {"xi": [1.0, 0.8, -0.6], "y": [1.0, -0.7, 0.5], "alpha": 0.6, "gamma": 0.3}
PROGRAMS = {
    "plain": tp.program(tp.ResNet(), tp.SGD(0.7), SCALE),
    "two matrices": tp.program(tp.ResNet(block="mlp"), tp.SGD(0.7), SCALE),
    "trained ends": tp.program(tp.ResNet(train_ends=True), tp.SGD(0.7), SCALE),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_step_holds_on_numbers(name: str) -> None:
    equations = tp.kets(PROGRAMS[name])
    checks = check_steps(equations, {"T": 3, "L": 3}, DATA)
    steps = [step for step in equations.derivation.steps if step.rule != "unroll the updates"]
    assert [check.step for check in checks] == steps
    assert all(check.cases >= 3 and check.difference < 1e-13 for check in checks)


@pytest.mark.parametrize("change", [lambda e: -e, lambda e: 2 * e, lambda e: e.subs(sp.Symbol("gamma", real=True), 0)])
def test_a_wrong_step_shows(change) -> None:
    """A flipped sign, a factor, a lost power of L in the last step."""
    equations = tp.kets(PROGRAMS["plain"])
    *good, last = equations.derivation.steps
    wrong = replace(last, after=change(last.after))
    equations.derivation.steps = (*good, wrong)
    assert check_steps(equations, {"T": 3, "L": 3}, DATA)[-1].difference > 1e-3
    assert np.isfinite(check_steps(equations, {"T": 3, "L": 3}, DATA)[-1].difference)
