"""The indices of builders: sizes T (steps), L (depth), B (batch), P (positions of a sequence), N (visits of a layer),
what runs over them, and over inputs and outputs."""

from __future__ import annotations

import sympy as sp

T, L, BATCH, POSITIONS, VISITS = sp.symbols("T L B P N", integer=True, positive=True)
t, l, i, j, o = sp.symbols("t l i j o", integer=True, nonnegative=True)
p, m = sp.symbols("p m", integer=True, nonnegative=True)  # a position, and one that it looks at
c = sp.Symbol("c", integer=True, nonnegative=True)  # a visit: layers are visited in cycles, or one by one


def at_other(expression: sp.Expr) -> sp.Expr:
    """The expression with the two positions in each other's place."""
    return expression.xreplace({p: m, m: p})
