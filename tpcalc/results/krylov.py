"""Linear integral equations in a Krylov space: few dimensions, because the spectrum of an integral gathers at 0."""

from __future__ import annotations

from typing import Callable

import numpy as np

SETTLED = 2e-14  # what is left of an equation, relatively, that counts as solved


def krylov(operator: Callable[[np.ndarray], np.ndarray], known: np.ndarray, most: int) -> np.ndarray | None:
    """x of ``operator(x)`` = known, flat, by GMRES in at most ``most`` dimensions; None where these are too few.

    Every direction is made orthogonal to all before it in two matrix products, and that twice, which keeps the digits;
    SciPy's goes through them one by one in Python, and takes four times as long at a few thousand unknowns.
    """
    size = float(np.linalg.norm(known))
    if size == 0.0:
        return np.zeros_like(known)
    if not np.isfinite(size):
        return None
    basis = np.empty((most + 1, len(known)))
    triangle, turns = np.zeros((most, most)), np.zeros((most, 2))
    left = np.zeros(most + 1)  # of the equation, in the basis
    basis[0], left[0] = known / size, size
    for k in range(most):
        here, new = basis[:k + 1], operator(basis[k])
        column = here @ new
        new = new - column @ here
        again = here @ new
        new, column = new - again @ here, column + again
        length = float(np.linalg.norm(new))
        for i in range(k):  # Givens rotations, as before
            c, s = turns[i]
            column[i], column[i + 1] = c * column[i] + s * column[i + 1], c * column[i + 1] - s * column[i]
        radius = float(np.hypot(column[k], length))
        if not np.isfinite(radius) or radius == 0.0:
            return None
        turns[k] = column[k] / radius, length / radius
        column[k] = radius
        triangle[:k + 1, k] = column
        left[k], left[k + 1] = turns[k, 0] * left[k], -turns[k, 1] * left[k]
        if abs(left[k + 1]) <= SETTLED / 10 * size or length == 0.0:
            break
        basis[k + 1] = new / length
    found: np.ndarray = np.linalg.solve(triangle[:k + 1, :k + 1], left[:k + 1]) @ basis[:k + 1]
    return found if np.linalg.norm(known - operator(found)) <= SETTLED * size else None
