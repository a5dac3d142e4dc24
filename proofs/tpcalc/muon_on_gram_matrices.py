"""Muon's updates as outer products of a matrix's own inputs and gradients, weighed by functions of their overlaps."""

from __future__ import annotations

from functools import reduce
from typing import Mapping

import numpy as np
import sympy as sp
from scipy.linalg import fractional_matrix_power

import tpcalc as tp
from tpcalc.optimizers.polar import orthogonal_weights
from tpcalc.ledger import Entry, Equation, Equations, Evidence, MeasuredNumber, Rate

C0, C1, M = (sp.Symbol(name, commutative=False) for name in ("C_0", "C_1", "M"))
WIDTH, DRAWS, ROUND_OFF = 12, 40, 1e-8
DEPTHS = (64, 128, 256, 512)
TASK, OPT, SCALE = tp.Task((0.9, -0.5, 0.7), (1.0, 0.3, -0.8)), tp.Muon(0.3, momentum=0.5), tp.DepthScaling()


def statement() -> Equations:
    return Equations((Equation(M, (C0 * C1) ** sp.Rational(-1, 2)),))


def value(expression: sp.Expr, known: Mapping[sp.Symbol, np.ndarray]) -> np.ndarray:
    """A product, power or multiple of matrices, in the order in which it is written."""
    if expression in known:
        return known[expression]
    if expression.is_Pow:
        return np.asarray(fractional_matrix_power(value(expression.base, known), float(expression.exp)))
    number, factors = expression.as_coeff_mul()
    return float(number) * reduce(np.matmul, [value(factor, known) for factor in factors])


def from_singular_vectors(matrix: np.ndarray) -> np.ndarray:
    """U V^T of the singular values that are not 0."""
    u, s, v = np.linalg.svd(matrix)
    kept = s > ROUND_OFF * s[0]
    return u[:, kept] @ v[kept]


def largest_difference() -> float:
    """The two ways differ by this much, over inputs and gradients of all ranks."""
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(DRAWS):
        rows, *ranks = rng.integers(1, 6, 3)
        d, x = (rng.normal(size=(rows, min(r, rows))) @ rng.normal(size=(min(r, rows), WIDTH)) for r in ranks)
        weights, _ = orthogonal_weights(x @ x.T / WIDTH, d @ d.T / WIDTH)
        worst = max(worst, float(np.max(np.abs(d.T @ weights @ x / WIDTH - from_singular_vectors(d.T @ x)))))
    return worst


def stated_difference() -> float:
    """By the statement, of as many inputs and gradients as there are directions."""
    rng, worst = np.random.default_rng(1), 0.0
    for rows in (1, 2, 3, 4):
        d, x = rng.normal(size=(2, rows, WIDTH))
        weights = value(statement().equations[0].value, {C0: x @ x.T / WIDTH, C1: d @ d.T / WIDTH})
        worst = max(worst, float(np.max(np.abs(d.T @ weights @ x / WIDTH - from_singular_vectors(d.T @ x)))))
    return worst


def evidence() -> Evidence:
    """The identity on matrices, and that layers and layer time see the same optimizer."""
    limit = tp.train(tp.ResNet(), TASK, OPT, SCALE, tp.oo).outputs
    distances = tuple(float(np.max(np.abs(tp.train(tp.ResNet(), TASK, OPT, SCALE, depth).outputs - limit)))
                      for depth in DEPTHS)
    difference = MeasuredNumber("largest difference from U V^T of numpy's SVD", largest_difference(), ROUND_OFF, 0.0)
    stated = MeasuredNumber("the same of the weights that are stated, of independent rows", stated_difference(),
                            ROUND_OFF, 0.0)
    return Evidence((difference, stated), (Rate("outputs at finite depth and in the limit, with momentum", "L", 1.0,
                                                DEPTHS, distances, allowance=0.1),))


ENTRY = Entry(
    key="tpcalc/muon_on_gram_matrices",
    kind="proposition",
    title="Muon closes on Gram matrices",
    source="tpcalc (new)",
    says="The orthogonal factor $U V^\\top$ of $G = \\sum_a \\delta_a x_a^\\top / n$, its singular values set to 1 and "
         "those that are 0 left, is $\\sum_{ab} M_{ab}\\, \\delta_a x_b^\\top / n$ with $C_0 = \\langle x_a | x_b "
         "\\rangle$, $C_1 = \\langle \\delta_a | \\delta_b \\rangle$: with $X = \\sqrt{n}\\, Q U_0$, $D = \\sqrt{n}\\, "
         "Q' U_1$ the factor of $G$ is that of $U_1 U_0^\\top$ between orthonormal bases, and $M$ solves $U_1 M "
         "U_0^\\top = u v^\\top$ of that small matrix. So updates are sums of outer products whose weights, a matrix "
         "for every layer and step, have limits at infinite width and depth. The inverse is that of the support.",
    statement=statement,
    assumptions=("singular values of the limit are 0 only where they are 0 at every width",),
    uses=("tensor_programs_vi/outer_product", "tpcalc/reflection_form"),
    evidence=evidence,
)
