"""Programs run with real vectors and matrices: against plain numpy, entrywise nonlinearities included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings

import tpcalc as tp
from support.closeness import assert_close
from tpcalc.interpreters.vectors import ProgramRun, run_program
from tpcalc.training.builders import L, T
from tpcalc.programs.language import Family, Matrix, MatVec, Mean, Outer, Scalar, Transpose, Vector
from tpcalc.programs.program import Assign, Program
from tpcalc.testing.programs import ProgramExample, linear_programs

A, B, X, Y, Z = (Family(Vector, name)() for name in "abxyz")
W, F = Family(Matrix, "W"), Family(Scalar, "f")


def drawn(name: str, seed: int, *shape: int) -> np.ndarray:
    """What a run draws for a member: by its name."""
    return np.random.default_rng([seed, *name.encode()]).standard_normal(shape)


def test_training_is_gradient_descent() -> None:
    """The built-in program at n = 20 does what plain loops over dense matrices do."""
    n, depth, eta, seed = 20, 3, 0.3, 5
    xi, y = np.random.default_rng(0).normal(size=(2, 4))
    program = tp.program(tp.ResNet(), tp.SGD(eta), tp.DepthScaling(sp.Rational(3, 4), sp.Rational(1, 4)))
    run = run_program(program, {T: 4, L: depth}, dict(xi=xi, y=y), width=n, seed=seed)
    U, nV = drawn("U", seed, n), drawn("nV", seed, n)
    matrices = [drawn(f"W[0, {l}]", seed, n, n) / np.sqrt(n) for l in range(1, depth + 1)]
    eps, g = depth**-0.75, depth**-0.25
    for t in range(4):
        x = [xi[t] * U]
        for M in matrices:
            x.append(x[-1] + eps * M @ x[-1])
        f = nV @ x[-1] / n
        delta = [(f - y[t]) * nV]
        for M in reversed(matrices):
            delta.insert(0, delta[0] + eps * M.T @ delta[0])
        assert_close(run.series("f")[t], f, 1e-12, 1.0)
        for name, vectors in (("x", x), ("dx", delta)):
            ours = [run.vectors[Family(Vector, name, r"\delta x" if name == "dx" else None, layered=True)[t, l]]
                    for l in range(depth + 1)]
            assert_close(ours, vectors, 1e-12)
        for M, d, v in zip(matrices, delta[1:], x):
            M -= eta * g * np.outer(d, v) / n


def test_entrywise_functions_products_and_means() -> None:
    k = sp.Symbol("k", integer=True)
    G = Family(Scalar, "g")
    program = Program("nonlinear", (A, B), (W[0],), (G[k],), (
        Assign(F[0], Mean(A**2 * B + sp.exp(A))),
        Assign(X, sp.tanh(MatVec(W[0], A) + F[0]) * B / 2 + 1),
        Assign(Y, sp.Piecewise((X, X > A), (G[1] * A, True)) + sp.Max(X, B, 0) ** 2 + sp.erf(A) + sp.sqrt(sp.Abs(B))),
        Assign(W[1], W[0] / 2 - G[0] * Outer(sp.sign(X), Y) + 3 * Transpose(W[0])), Assign(W[2], W[1] + W[0]),
        Assign(Z, MatVec(Transpose(W[2]), Y) + sp.Sum(G[k] * X * A, (k, 0, 1)) - Mean(Y)),
        Assign(F[1], Mean(sp.Integer(3)) * Mean(Z)), Assign(Family(Vector, "zero")(), sp.Integer(0))), ())
    run = run_program(program, {}, {"g": [2.0, -1.0]}, width=7, seed=1)
    a, b, matrix = drawn("a", 1, 7), drawn("b", 1, 7), drawn("W[0]", 1, 7, 7) / np.sqrt(7)
    f = np.mean(a**2 * b + np.exp(a))
    x = np.tanh(matrix @ a + f) * b / 2 + 1
    erf = np.array([float(sp.erf(v)) for v in a])
    y = np.where(x > a, x, -a) + np.maximum(np.maximum(x, b), 0) ** 2 + erf + np.sqrt(np.abs(b))
    later = matrix * 3 / 2 - 2 * np.outer(np.sign(x), y) / 7 + 3 * matrix.T
    z = later.T @ y + (2 - 1) * x * a - y.mean()
    for member, value in ((X, x), (Y, y), (Z, z)):
        assert_close(run.vectors[member], value, 1e-14)
    assert_close(run.series("f"), [f, 3 * z.mean()], 1e-13)
    assert_close(run.bracket(X, MatVec(W[2], 2 * Z)), np.mean(x * (later @ (2 * z))), 1e-13)
    assert_close(run.vector(sp.Sum(k * G[k] * X, (k, 0, 1))), -x, 1e-15)
    assert np.array_equal(run.vectors[Family(Vector, "zero")()], np.zeros(7))


@settings(max_examples=40)
@given(linear_programs())
def test_adjoints_at_any_width(example: ProgramExample) -> None:
    """<u|W v> = <W^T u|v> for every matrix, updated ones too; (u v^T / n) y = u <v|y>."""
    run = run_program(example.program, example.sizes, example.data, width=9)
    vectors = list(run.vectors) + list(example.program.vectors)
    u, v = vectors[-1], vectors[0]
    for matrix in [m for m in run.execution.assigned if isinstance(m, Matrix)] + [W[0] for _ in range(1)]:
        one, two = run.bracket(u, MatVec(matrix, v)), run.bracket(MatVec(Transpose(matrix), u), v)
        assert_close(one, two, 1e-12, 1.0, run.vector(MatVec(matrix, v)), run.vector(MatVec(Transpose(matrix), u)))
    assert_close(run.vector(MatVec(Outer(u, v), u + v)), run.bracket(v, u + v) * run.vector(u), 1e-13, 1.0)


def test_draws_are_those_of_the_seed_and_the_name() -> None:
    def run(value: Any, seed: int = 3) -> ProgramRun:
        return run_program(Program("p", (A, B), (W[0],), (), (Assign(X, value),), ()), {}, width=50, seed=seed)

    one, two = run(MatVec(W[0], A)), run(MatVec(Transpose(W[0]), B) + MatVec(W[0], A))
    assert np.array_equal(one.vectors[X], two.vector(MatVec(W[0], A)))
    assert not np.any(np.isclose(one.vectors[X], run(MatVec(W[0], A), seed=4).vectors[X]))
    assert not np.any(np.isclose(one.vector(A), one.vector(B)))


def test_normalization() -> None:
    """|W a|^2 / n = <a|a> (1 + O(n^-1/2)), entries of a of variance 1."""
    program = Program("p", (A,), (W[0],), (), (Assign(X, MatVec(W[0], A)),), ())
    run = run_program(program, {}, width=2000)
    assert abs(run.bracket(A, A) - 1) < 5 * np.sqrt(2 / 2000)
    assert abs(run.bracket(X, X) / run.bracket(A, A) - 1) < 5 * np.sqrt(2 / 2000)


def test_bad_calls_are_refused_before_the_work() -> None:
    program = Program("p", (A,), (W[0],), (), (Assign(X, MatVec(W[0], A)),), ())
    with pytest.raises(ValueError, match="width: got 0"):
        run_program(program, {}, width=0)
    with pytest.raises(MemoryError, match="program p with 1 matrices of width 100000000 needs .* GiB"):
        run_program(program, {}, width=10**8)
    with pytest.raises(tp.Divergence, match="program q diverges: x is not finite"):
        run_program(Program("q", (A,), (), (), (Assign(X, sp.exp(10**6 * A**2)),), ()), {}, width=8)
    with pytest.raises(ValueError, match="program: got 3"):
        run_program(3, {})  # type: ignore[arg-type]
