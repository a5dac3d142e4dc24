"""The indices of builders: sizes T (steps), L (depth), B (batch), what runs over them, and over inputs and outputs."""

from __future__ import annotations

import sympy as sp

T, L, BATCH = sp.symbols("T L B", integer=True, positive=True)
t, l, i, j, o = sp.symbols("t l i j o", integer=True, nonnegative=True)
