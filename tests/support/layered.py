"""A linear residual network written out in the language, with any statements for its updates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Sequence

import numpy as np
import sympy as sp
from hypothesis import strategies as st

import tpcalc as tp
from tpcalc.interpreters import read_program_coefficients
from tpcalc.programs.language import Family, LossDerivative, Matrix, MatVec, Mean, Outer, Scalar, Transpose, Vector
from tpcalc.programs.program import Assign, Loop, Program, Statement

T, L = sp.symbols("T L", integer=True, positive=True)
t, l = sp.symbols("t l", integer=True, nonnegative=True)
ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)
ZERO, ONE, TWO = map(sp.Integer, range(3))
HALF, THIRD = sp.Rational(1, 2), sp.Rational(1, 3)
XI, Y = np.array([1.0, 0.8, -0.6]), np.array([1.0, -0.7, 0.5])
x, dx = (Family(Vector, name, layered=True) for name in ("x", "dx"))
W, m = (Family(Matrix, name, layered=True) for name in ("W", "m"))
U, nV = Family(Vector, "U")(), Family(Vector, "nV")()
xi, f, chi = (Family(Scalar, name) for name in ("xi", "f", "chi"))
G = L**-GAMMA * Outer(dx[t, l], x[t, l - 1])
FORWARD = Assign(x[t, l], x[t, l - 1] + L**-ALPHA * MatVec(W[t, l], x[t, l - 1]))
BACKWARD = Assign(dx[t, l - 1], dx[t, l] + L**-ALPHA * MatVec(Transpose(W[t, l]), dx[t, l]))


def layers(*body: Assign, first: sp.Expr = ONE, last: sp.Expr = L) -> Loop:
    return Loop(l, first, last, body)


def at(layer: sp.Expr, statement: Assign) -> Assign:
    """The statement of one layer."""
    return Assign(statement.target.subs(l, layer), statement.value.subs(l, layer))


def trained(updates: Sequence[Statement], before: Sequence[Statement] = (),
            forward: Sequence[Statement] = (), **more: Any) -> Program:
    """One input a step; updates, before: statements at the end of a step, and before the first."""
    body = (Assign(x[t, 0], xi[t] * U), *(forward or (layers(FORWARD),)), Assign(f[t], Mean(nV * x[t, L])),
            Assign(chi[t], LossDerivative(f[t], t)), Assign(dx[t, L], chi[t] * nV),
            Loop(l, L, ONE, (BACKWARD,), descending=True), *updates)
    return Program("layered", (U, nV), (W[0, l], *more.pop("matrices", ())), (xi[t],),
                   (*before, Loop(t, ZERO, T - 1, body)), (T, L), **more)


def derive(program: Program) -> tp.theory.Recursion:
    recursion = tp.recursion(tp.kets(program))
    assert all(step.check() for step in recursion.derivation.steps)
    return recursion


def compiled_outputs(recursion: tp.theory.Recursion, depth: int, numba: bool = False) -> np.ndarray:
    """Of the derived recursion's source, at (1/2, 1/2), as plain Python unless ``numba``."""
    compiled = recursion.compile()
    if not numba:
        compiled = replace(compiled, kernel=compiled.kernel.py_func)  # type: ignore[attr-defined]
    return compiled(depth, XI, Y, alpha=0.5, gamma=0.5).outputs


def exact_outputs(program: Program, depth: int) -> np.ndarray:
    """Of the reading that knows definition C.1 only."""
    data = {"xi": XI, "y": Y, "alpha": 0.5, "gamma": 0.5}
    return read_program_coefficients(program, {"T": len(XI), "L": depth}, data).series("f")


@st.composite
def layered_programs(draw: st.DrawFn) -> Program:
    """Updates with and without a buffer, whose coefficients depend on layer and step, in one part of the layers or in
    two."""
    several = draw(st.booleans())
    cut = draw(st.sampled_from((sp.floor(L / 2), L - 1))) if several else L
    ranges = [(ONE, cut), (cut + 1, L)] if several else [(ONE, L)]
    ranges.reverse() if draw(st.booleans()) else None
    coefficient = st.sampled_from((ONE, HALF, l / L, 1 - l / (2 * L), 1 / (t + 2), l * (t + 1) / (3 * L),
                                   sp.Piecewise((HALF, l < 2), (ONE, True)), (2 * l - 1) / (2 * L)))
    updates, before = [], []
    for first, last in ranges:
        a, b, c = (draw(coefficient) for _ in range(3))
        if draw(st.booleans()):
            nesterov = int(draw(st.booleans())) * c
            updates.append(layers(Assign(m[t + 1, l], a * m[t, l] + G),
                                  Assign(W[t + 1, l], b * W[t, l] - c * m[t + 1, l] - nesterov * G),
                                  first=first, last=last))
            before.append(layers(Assign(m[0, l], draw(st.sampled_from((ZERO, W[0, l] / 2)))), first=first, last=last))
        else:
            updates.append(layers(Assign(W[t + 1, l], b * W[t, l] - c * G), first=first, last=last))
    return trained(updates, before)
