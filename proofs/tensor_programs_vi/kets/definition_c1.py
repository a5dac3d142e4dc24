"""Hat and dot: what a product with an initial matrix becomes."""

from __future__ import annotations

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Rate
from tpcalc.programs.language import Family, Matrix, MatVec, Scalar, Transpose, Vector
from tpcalc.programs.program import Assign, Loop, Program

from ..._line import worst_equation

WIDTHS, SEEDS = (64, 128, 256, 512), 40


def _twice() -> Program:
    """z = xi u, y = W^T z, x = W y at every step: the shortest program in which a dot is not 0."""
    t, T = sp.Symbol("t", integer=True, nonnegative=True), sp.Symbol("T", integer=True, positive=True)
    l, L = sp.Symbol("l", integer=True, nonnegative=True), sp.Symbol("L", integer=True, positive=True)
    u, W, xi = Family(Vector, "u")(), Family(Matrix, "W", layered=True), Family(Scalar, "xi", r"\xi")
    z, y, x = (Family(Vector, name, layered=True) for name in "zyx")
    body = (Assign(z[t, l], xi[t] * u), Assign(y[t, l], MatVec(Transpose(W[0, l]), z[t, l])),
            Assign(x[t, l], MatVec(W[0, l], y[t, l])))
    return Program("twice", (u,), (W[0, l],), (xi[t],), (
        Loop(t, sp.Integer(0), T - 1, (Loop(l, sp.Integer(1), L, body),)),), (T, L))


def statement() -> Equations:
    return Equations(tuple(Equation(e.target, e.value) for e in tp.kets(_twice()).equations))


def read() -> MeasuredNumber:
    """The equations, where every step has a vector of another size."""
    worst = worst_equation(tp.kets(_twice()), statement().equations, {"T": 3, "L": 2}, {"xi": [0.7, -0.4, 1.3]})
    return MeasuredNumber("largest difference of both sides, as coefficients over base kets", worst, 1e-12, 0.0)


def evidence() -> Evidence:
    """x = W W^T z of real matrices: z times x averages to 1, what is left has variance <y|y> = 1 and ignores z."""
    overlaps = []
    for n in WIDTHS:
        for seed in range(SEEDS):
            rng = np.random.default_rng([n, seed])
            z, W = rng.standard_normal(n), rng.standard_normal((n, n)) / np.sqrt(n)
            x = W @ (W.T @ z)
            hat = x - z
            overlaps.append((np.mean(z * x), np.mean(hat**2), np.mean(z * hat)))
    found = np.array(overlaps).reshape(len(WIDTHS), SEEDS, 3)
    mean, error = found[-1].mean(0), found[-1].std(0, ddof=1) / np.sqrt(SEEDS)
    spread = np.sqrt(np.mean((found - [1.0, 1.0, 0.0]) ** 2, axis=1))
    names = ("<z|x> of x = W W^T z", "variance of the hat part, <y|y>", "covariance of z with the hat part")
    numbers = tuple(MeasuredNumber(f"{name}, n = {WIDTHS[-1]}", float(m), float(e), target)
                    for name, m, e, target in zip(names, mean, error, (1.0, 1.0, 0.0)))
    rate = Rate("deviation of <z|x> from 1", "n", 0.5, tuple(map(float, WIDTHS)), tuple(map(float, spread[:, 0])), 0.1)
    return Evidence((read(), *numbers), (rate,))


ENTRY = Entry(
    key="tensor_programs_vi/definition_c1",
    kind="definition",
    title="hat and dot",
    source="Tensor Programs VI, definition C.1; appendix F, (5) and (6)",
    says="A product with an initial matrix or its transpose is a hat plus a dot. Hats are Gaussian with mean zero; "
         "those of one matrix have the covariance of the vectors it multiplies, those of different matrices, and of a "
         "matrix and its transpose, are independent of each other and of the initial vectors. The dot is the sum over "
         "the vectors that the transposed matrix has met, each times the derivative of what is multiplied in that "
         "product's hat. Here for $y = W^\\top z$, $x = W y$.",
    statement=statement,
    evidence=evidence,
)
