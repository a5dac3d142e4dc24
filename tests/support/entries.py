"""Entries made up for tests of the ledger's engine: a sum of two squares, right or wrong on demand."""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from tpcalc.ledger import Entry, Equation, Equations, Erratum, Evidence, Identity, MeasuredNumber, Proof, Slip, Witness

A, B = sp.symbols("a b")
LEFT = sp.Symbol("S")
RIGHT = A**2 + 2 * A * B + B**2


def proof(after: sp.Expr = RIGHT, difference: float = 0.0) -> Proof:
    step = Identity(1, LEFT, (A + B)**2, after)
    return Proof((step,), lambda rng: difference, "nothing but what it is told")


def measured(value: float = 1.0, expected: float = 1.0) -> Evidence:
    return Evidence((MeasuredNumber("something", value, 0.01, expected),))


def erratum(printed: float | None = 2.0, corrected: float = 1.0, slip: Slip = Slip.FALSE) -> Erratum:
    return Erratum(slip, "the first line", "S &= a^2 + b^2", lambda: "S &= (a + b)^2",
                   lambda: Witness("S at (1, 0)", 1.0, 1e-12, printed, corrected))


def entry(key: str = "paper/square", value: sp.Expr = RIGHT, **options: Any) -> Entry:
    kind = options.pop("kind", "lemma")
    return Entry(key=key, kind=kind, title="a square", source="a paper, (1)", says="A square with $a$ and 100% of $b$.",
                 statement=lambda: Equations((Equation(LEFT, value),)), **options)


def random_square(rng: np.random.Generator) -> float:
    a, b = rng.uniform(-1, 1, 2)
    return float(abs((a + b)**2 - RIGHT.subs({A: a, B: b})))
