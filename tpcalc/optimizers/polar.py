"""The orthogonal factor of a matrix, in the language, and that of a sum of outer products, from Gram matrices.

G = sum_a d_a x_a^T / n has the orthogonal factor msign(G) = sum_ab M_ab d_a x_b^T / n (its singular values set to 1,
what is 0 left 0), with M = (C0 C1)^(-1/2) of C0 = <x_a x_b> and C1 = <d_a d_b>, of whatever rank.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np
import sympy as sp
from sympy.printing.printer import Printer

from ..programs.backprop import ROWS
from .spectral import Spectral


class Polar(Spectral):
    """U V^T of the singular vectors of a sum of outer products: its singular values set to 1, what is 0 left 0.

    steps: 0 for the factor itself, k for k Newton-Schulz steps towards it. Only the sign of a number in front of the
    body counts.
    """

    steps = property(lambda self: int(self.more[0]))

    def whole(self, now: np.ndarray, past: Sequence[np.ndarray], rounding: float) -> tuple[np.ndarray, np.ndarray]:
        return orthogonal_factor_of(now, self.steps, rounding)

    @property
    def _name(self) -> str:
        return "polar"

    @property
    def _how(self) -> str:
        return f", {self.steps} steps" if self.steps else ""

    def _of_whole(self, inside: str, printer: Printer) -> str:
        name = r"\operatorname{polar}" + (f"_{{{self.steps}}}" if self.steps else "")
        return rf"{name}\left({inside}\right)"


def polar(body: sp.Expr, steps: int = 0) -> sp.Expr:
    """The orthogonal factor of a sum of numbers times outer products, or Newton-Schulz steps towards it; ``TypeError``
    for other bodies.

    >>> from tpcalc.programs.language import Family, Outer, Vector
    >>> u, v = Family(Vector, "u")(), Family(Vector, "v")()
    >>> polar(2 * Outer(u, v), 3)
    polar(2*outer(u, v)/n, 3 steps)
    """
    return Polar((body,), (), 0, ROWS, steps)


CUT = 1e-12         # eigenvalues of correlations below: rows that depend on the others
VANISHES = 1e-10    # singular values relative to the largest below: they are 0
QUINTIC = (3.4445, -4.7750, 2.0315)  # the coefficients that Muon was published with (Jordan et al. 2024)


def orthogonal_weights(inputs: np.ndarray, gradients: np.ndarray, steps: int = 0) -> tuple[np.ndarray, float]:
    """M (N, N) from C0 and C1 (N, N), and the smallest singular value of G over its largest (1 where G is 0).

    steps: 0 for the factor itself, else so many Newton-Schulz steps towards it.
    """
    if not (np.all(np.isfinite(inputs)) and np.all(np.isfinite(gradients))):
        return np.full(inputs.shape, np.nan), np.nan
    (u0, back0), (u1, back1) = _root(inputs), _root(gradients)
    left, s, right = np.linalg.svd(u1 @ u0.T, full_matrices=False)
    kept = s > VANISHES * np.max(s, initial=0.0)
    spread = float(s[kept][-1] / s[0]) if np.any(kept) else 1.0
    if steps:
        return _newton_schulz(np.eye(len(inputs)), inputs, gradients, steps), spread
    return back1 @ (left[:, kept] @ right[kept]) @ back0.T, spread


def orthogonal_factor_of(matrix: np.ndarray, steps: int, rounding: float) -> tuple[np.ndarray, np.ndarray]:
    """The orthogonal factor of a small matrix, what is 0 within rounding left 0, or Newton-Schulz steps to it; and
    the singular values that are not 0, falling.

    rounding: of the matrix, which where terms cancel is that of these.
    """
    left, s, right, kept = singular(matrix, rounding)
    if steps:
        inputs, gradients = np.eye(matrix.shape[1]), np.eye(len(matrix))
        return _newton_schulz(matrix if np.any(kept) else 0 * matrix, inputs, gradients, steps), s[kept]
    return np.asarray(left[:, kept] @ right[kept]), s[kept]


def singular(matrix: np.ndarray, rounding: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """U, s, V^T of a matrix, and which singular values are not 0 within rounding."""
    left, s, right = np.linalg.svd(matrix, full_matrices=False)
    return left, s, right, s > max(rounding, VANISHES * np.max(s, initial=0.0))


def _root(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """U (k, N) with U^T U the Gram matrix, its k rows independent, and a right inverse (N, k)."""
    sizes = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    scale = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    values, vectors = np.linalg.eigh(gram * np.outer(scale, scale))
    kept = values > CUT
    roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
    return (vectors * roots).T * sizes, scale[:, None] * vectors / roots


def _newton_schulz(found: np.ndarray, inputs: np.ndarray, gradients: np.ndarray, steps: int) -> np.ndarray:
    """The weights of a X + b (X X^T) X + c (X X^T)^2 X, step by step, from X = d^T M x over its Frobenius norm.

    found: M; inputs, gradients: the Gram matrices of the x and of the d.
    """
    a, b, c = QUINTIC
    square = float(np.sum((gradients @ found @ inputs) * found))
    found = found / np.sqrt(square) if square > 0 else np.zeros(found.shape)
    for _ in range(steps):
        turned = found @ inputs @ found.T @ gradients
        found = a * found + (b * turned + c * turned @ turned) @ found
    return found
