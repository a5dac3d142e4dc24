"""The indices of builders: sizes T (steps), L (depth), B (batch), P (positions of a sequence), what runs over them, and
over inputs and outputs."""

from __future__ import annotations

import sympy as sp

T, L, BATCH, POSITIONS = sp.symbols("T L B P", integer=True, positive=True)
t, l, i, j, o = sp.symbols("t l i j o", integer=True, nonnegative=True)
p, m = sp.symbols("p m", integer=True, nonnegative=True)  # a position, and one that it looks at


def at_other(expression: sp.Expr) -> sp.Expr:
    """The expression with the two positions in each other's place."""
    return expression.xreplace({p: m, m: p})
