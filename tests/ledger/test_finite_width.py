"""Finite width in the ledger: its checks see every term of what a layer makes of overlaps."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import sympy as sp

from tpcalc.ledger import check_entry, entry
from tpcalc.ledger.catalogue import package as _package


def module(name: str) -> Any:
    return importlib.import_module(f"{_package().__name__}.tpcalc.{name}")


@pytest.mark.parametrize("place", [(0, 1), (1, 2), (3, 2)])
def test_a_kernel_with_a_wrong_term_is_found(place: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    proof = module("overlap_action")
    right = proof.layer_density

    def wrong(*arguments: Any) -> np.ndarray:
        made = right(*arguments)
        made[place] *= -1
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
