"""Finite width in the ledger: its checks see every term of what a layer makes of overlaps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.proofs_module import proofs_module
from tpcalc.ledger import check_entry, entry


def module(name: str) -> Any:
    return proofs_module(f"tpcalc.{name}")


@pytest.mark.parametrize("location", [(0, 1), (1, 2), (3, 2)])
def test_a_kernel_with_a_wrong_term_is_found(location: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    proof = module("overlap_action")
    right = proof.layer_density

    def wrong(*arguments: Any) -> np.ndarray:
        made = right(*arguments)
        made[location] *= -1
        return made

    monkeypatch.setattr(proof, "layer_density", wrong)
    account = check_entry(entry("tpcalc/overlap_action"))
    assert any(failure.startswith("numbers differ") for failure in account.failures)


def test_a_wrong_sign_of_what_learning_does_to_partners_changes_the_closed_form() -> None:
    """47/60 needs overlaps that vanish without a tilt."""
    proof = module("two_steps_at_finite_width")
    eta, y, xi0, xi1 = (proof.SYMBOLS[name] for name in ("eta", "y_0", "xi_0", "xi_1"))
    leading = proof.value(1, 1, 1).coeff(y, 4)
    assert sp.simplify(leading - sp.Rational(47, 60) * eta**4 * xi0**4 * xi1**2 * sp.exp(3)) == 0
    right = proof.density

    def without(C: Any, noise: int, first: int) -> Any:
        made = right(C, noise, first)
        second = 2 - first
        for order, c in enumerate(C):
            for i, j in ((0, 1), (1, 0)):
                made[order][second + i][second + j] = noise * c[second + i][second + j]
        return made

    proof.density = without
    try:
        assert proof.Solution(1, 1).f[1][1] != proof.solution(1, 1).f[1][1]
    finally:
        proof.density = right


def test_a_flipped_sign_in_a_printed_equation_is_found() -> None:
    """In every equation that has a sum; the printed equations are what is read."""
    proof = module("finite_width")
    found = tp.train(proof.NET, proof.TASK, proof.OPT, tp.DepthScaling(), 2).fluctuations
    reading = proof.equations_about(found)
    assert reading.residual() < 1e-12
    for part in ("layer", "end"):
        right = getattr(reading, part)
        for location, one in enumerate(right):
            wrong = one.value.replace(lambda e: e.is_Add, lambda e: e.args[0] - sp.Add(*e.args[1:]))
            if wrong != one.value:
                setattr(reading, part, (*right[:location], replace(one, value=wrong), *right[location + 1:]))
                assert reading.residual() > 1e-4, one
        setattr(reading, part, right)


def test_the_determinant_of_the_printed_equations_gives_the_bias() -> None:
    """At two depths, of which the ledger has neither."""
    proof = module("finite_width")
    for depth in (1, 3):
        found = tp.train(proof.NET, proof.TASK, proof.OPT, tp.DepthScaling(), depth).fluctuations
        bias = proof.equations_about(found).at_zero(proof.BIAS.value, 1, 1)
        assert abs(bias - found.bias.ravel()[1]) < 1e-6 * max(1, abs(bias))
