"""Initial-value problems on an element of layer time, y = start + J f(y), J the integrals from where y enters.

Picard's iteration is tried first; where it takes too long, linear equations are solved as they stand, by a
factorization or in a Krylov space, so that elements are as long as the solution allows and not as the iteration does.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
from scipy.linalg import lu_factor

from .mesh import Mesh

LARGEST = 2400       # unknowns up to which a factorization costs less than a Krylov space, or shorter elements
LEFT = 2e-14         # of an equation, relatively, that counts as solved
PICARD, UNCHECKED = 40, 6
SETTLED = 2e-15      # a change this small, relatively: the next would be round-off
STAGNANT = 1e-12     # changes that stop falling below this are round-off


class TooLong(ArithmeticError):
    """An element is too long for Picard's iteration. Attributes: ``element``; ``elements``, those that are as stiff."""

    def __init__(self, element: int, elements: np.ndarray | None = None) -> None:
        super().__init__(f"element {element} of layer time is too long")
        self.element, self.elements = element, elements


def integrated(integral: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """J times rates (nodes, ...)."""
    return np.asarray((integral @ rates.reshape(len(rates), -1)).reshape(rates.shape))


def factorized(integral: np.ndarray, operator: np.ndarray) -> Any:
    """The factors of y - J (operator y), operator (nodes, s, s), all nodes at once."""
    nodes, size = operator.shape[:2]
    matrix = -np.einsum("ij,jkl->ikjl", integral, operator).reshape(2 * (nodes * size,))
    matrix[np.diag_indices(len(matrix))] += 1.0
    return lu_factor(matrix, overwrite_a=True, check_finite=False)


def settled(step: Callable[[np.ndarray], np.ndarray], begun: np.ndarray, most: int = PICARD) -> np.ndarray | None:
    """Where y <- step(y) stays, from ``begun`` on, to rounding; None where it does not in ``most`` steps."""
    last, found = np.inf, begun
    with np.errstate(over="ignore", invalid="ignore"):
        for iteration in range(most):
            found, before = step(found), found
            change = float(np.max(np.abs(found - before), initial=0.0))
            if not np.isfinite(change):
                return None
            size = float(np.max(np.abs(found), initial=0.0))
            if change <= SETTLED * size or iteration > UNCHECKED and last <= change <= STAGNANT * size:
                return found
            last = change
    return None


def picard(mesh: Mesh, forward: bool, e: int, law: np.ndarray, rates: Callable[[np.ndarray], np.ndarray]) -> None:
    """Solve law' = rates(law), or -law' = rates(law), on an element by Picard's iteration, in place, from where the law
    enters; ends with ``rates`` of the result. Raises ``TooLong`` where the iteration does not settle."""
    integral, entering = mesh.integral(e, forward), law[0 if forward else -1].copy()
    found = settled(lambda y: entering + integrated(integral, rates(y)), law)
    if found is None:
        raise TooLong(e)
    law[...] = found
    rates(law)


def krylov(operator: Callable[[np.ndarray], np.ndarray], known: np.ndarray, most: int) -> np.ndarray | None:
    """x of ``operator(x)`` = known, flat, by GMRES in at most ``most`` dimensions, which are few where the operator is
    an integral, whose spectrum gathers at 0; None where these are too few.

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
        if abs(left[k + 1]) <= LEFT / 10 * size or length == 0.0:
            break
        basis[k + 1] = new / length
    found: np.ndarray = np.linalg.solve(triangle[:k + 1, :k + 1], left[:k + 1]) @ basis[:k + 1]
    return found if np.linalg.norm(known - operator(found)) <= LEFT * size else None
