"""Chebyshev-Lobatto points, at which functions of layer time are known."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev


@lru_cache(maxsize=None)
def reference(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """On [-1, 1], n Chebyshev-Lobatto points: (points, values -> coefficients, values -> integrals from -1).

    Shapes (n,), (n, n), (n, n).
    """
    points = -np.cos(np.pi * np.arange(n) / (n - 1))
    coefficients = np.linalg.inv(chebyshev.chebvander(points, n - 1))
    integral = chebyshev.chebvander(points, n) @ chebyshev.chebint(np.eye(n), lbnd=-1) @ coefficients
    integral[0] = 0.0
    for array in (points, coefficients, integral):
        array.setflags(write=False)
    return points, coefficients, integral
