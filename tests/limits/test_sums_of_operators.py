"""Operators add: sums of matrices, transposes and outer products act as what each does, in every reading."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc.interpreters import read_program_coefficients, run_program
from tpcalc.programs.indices import L, T, l, t
from tpcalc.programs.language import (Family, LossDerivative, Matrix, MatVec, Mean, Outer, Scalar, Transpose, Vector,
                                      kind)
from tpcalc.programs.program import Assign, Loop, Program

from support.interpreted import interpreted

HALF = sp.Rational(1, 2)
INPUTS, TARGETS = [1.0, 0.8, -0.6], [1.0, -0.7, 0.5]
DATA = {"xi": INPUTS, "y": TARGETS}
W, E = (Family(Matrix, name, layered=True) for name in "WE")
U, nV = (Family(Vector, name)() for name in ("U", "nV"))
A, B, u, v, z = Family(Matrix, "A")(), Family(Matrix, "B")(), *(Family(Vector, name)() for name in "uvz")


def operators() -> st.SearchStrategy[sp.Expr]:
    numbers = st.sampled_from([sp.Integer(2), -HALF, sp.Integer(-1)])
    leaves = st.sampled_from([A, B, Transpose(A), Outer(u, v), Outer(z, u)])
    return st.recursive(leaves, lambda inner: st.builds(lambda c, a, b: c * a + b, numbers, inner, inner)
                        | inner.map(Transpose), max_leaves=5)


@settings(max_examples=40, deadline=None)
@given(operators())
def test_an_operator_acts_as_its_matrix(operator: sp.Expr) -> None:
    if operator == 0:
        assert MatVec(operator, z) == 0
        return
    assert kind(operator) == "matrix"
    rng, n = np.random.default_rng(1), 5
    values = {one: rng.standard_normal((n, n) if isinstance(one, Matrix) else n) for one in (A, B, u, v, z)}

    def dense(e: sp.Expr) -> np.ndarray:
        if isinstance(e, Matrix):
            return values[e]
        if isinstance(e, Transpose):
            return dense(e.args[0]).T
        if isinstance(e, Outer):
            return np.outer(values[e.left], values[e.right]) / n
        parts = [float(a) if a.is_number else dense(a) for a in e.args]
        return sum(parts) if e.is_Add else np.prod([p for p in parts if np.ndim(p) == 0]) * next(
            p for p in parts if np.ndim(p))

    assert np.allclose(_vector(MatVec(operator, z), values, n), dense(operator) @ values[z])


def _vector(e: sp.Expr, values: dict, n: int) -> np.ndarray:
    """The value of a vector made of products with members alone."""
    total = np.zeros(n)
    for term in sp.Add.make_args(sp.expand(e)):
        value: object = 1.0
        for f in sp.Mul.make_args(term):
            if isinstance(f, MatVec):
                member = f.matrix.args[0] if isinstance(f.matrix, Transpose) else f.matrix
                assert isinstance(member, Matrix)
                matrix = values[member].T if isinstance(f.matrix, Transpose) else values[member]
                value = value * (matrix @ values[f.vector])
            elif isinstance(f, Mean):
                value = value * np.mean(np.prod([values[p] ** k for p, k in (
                    q.as_base_exp() for q in sp.Mul.make_args(f.args[0]))], axis=0))
            else:
                value = value * (float(f) if f.is_number else values[f])
        total = total + value
    return total


def network(operator: sp.Expr, gradient: sp.Expr, extra: tuple[Assign, ...] = ()) -> Program:
    """x + M x / sqrt(L) of a sum M of operators, trained by gradient descent on W; E starts at 0."""
    x, dx = (Family(Vector, name, layered=True) for name in ("x", "dx"))
    xi, f, chi = (Family(Scalar, name) for name in ("xi", "f", "chi"))
    start = (Loop(l, sp.Integer(1), L, (Assign(E[0, l], sp.Integer(0)),)),) if extra else ()
    forward = Assign(x[t, l], x[t, l - 1] + MatVec(operator, x[t, l - 1]) / sp.sqrt(L))
    backward = Assign(dx[t, l - 1], dx[t, l] + MatVec(Transpose(operator), dx[t, l]) / sp.sqrt(L))
    body = (Assign(x[t, 0], xi[t] * U), Loop(l, sp.Integer(1), L, (forward,)), Assign(f[t], Mean(nV * x[t, L])),
            Assign(chi[t], LossDerivative(f[t], t)), Assign(dx[t, L], chi[t] * nV),
            Loop(l, L, sp.Integer(1), (backward,), descending=True),
            Loop(l, sp.Integer(1), L, (Assign(W[t + 1, l], W[t, l] - gradient / (2 * sp.sqrt(L))), *extra)))
    return Program("operators", (U, nV), (W[0, l],), (xi[t],), (*start, Loop(t, sp.Integer(0), T - 1, body)), (T, L))


X, D = Family(Vector, "x", layered=True)[t, l - 1], Family(Vector, "dx", layered=True)[t, l]
GRADIENT = Outer(D, X)
NETWORKS = {
    "with a rank one part": network(W[t, l] + Outer(U, nV) / (2 * L), GRADIENT),
    "initial and moved": network(W[0, l] + E[t, l], GRADIENT, (
        Assign(E[t + 1, l], E[t, l] / 2 - GRADIENT / (2 * sp.sqrt(L))),)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_recursions_of_sums_of_operators_are_what_programs_compute(name: str) -> None:
    program, sizes = NETWORKS[name], {"T": 3, "L": 4}
    exact = read_program_coefficients(program, sizes, DATA).series("f")
    recursion = tp.recursion(tp.kets(program))
    assert np.allclose(interpreted(recursion)(4, INPUTS, TARGETS).outputs, exact, atol=1e-12)
    wide = run_program(program, sizes, DATA, width=600).series("f")
    assert np.abs(wide - exact).max() < 0.25 and abs(exact[1]) > 0.5
    region, = tp.depth_limit(recursion).regions
    assert np.all(np.isfinite(region.compile()(INPUTS, TARGETS).outputs))
