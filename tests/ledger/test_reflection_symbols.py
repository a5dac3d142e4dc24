"""The reflection form of small trainings with a symbol for every number; and that a wrong one is another polynomial."""

from __future__ import annotations

from typing import Any

import pytest
import sympy as sp

from tpcalc.proofs.tpcalc import _symbols
from tpcalc.proofs.tpcalc._symbols import Symbols, same_polynomials


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_kets_and_reflections_are_the_same_polynomials(steps: int) -> None:
    assert same_polynomials(steps, 3)


def test_the_polynomials_are_not_empty() -> None:
    """f_2 holds what W_0 remembers and what both updates left."""
    x, _ = Symbols(3, 2).kets()
    names = {str(symbol) for symbol in x[-1][2, :].free_symbols}
    assert {"xi2", "xi0", "A1_20", "A2_21", "B2_10", "rho0", "epsilon", "chi1"} <= names


@pytest.mark.parametrize("wrong", ["sign", "noise", "transposed"])
def test_wrong_recursions_are_other_polynomials(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Symbols._through

    def through(self: Symbols, layers: Any, A: Any, B: Any, C: Any, D: Any, features: Any) -> Any:
        if wrong == "sign":
            B = [None, *(-b for b in B[1:])]
        if wrong == "noise":
            D = [None, *(sp.zeros(self.steps) for _ in D[1:])]
        if wrong == "transposed":
            C = [None, *(c + a - a.T for c, a in zip(C[1:], A[1:]))]
        return right(self, layers, A, B, C, D, features)

    monkeypatch.setattr(_symbols.Symbols, "_through", through)
    assert not same_polynomials(3, 2)
