"""Functions of whole matrices that are sums of outer products, from triangles of their vectors: no n x n array.

Both sides are written as orthonormal vectors times triangles, whose products are the sums in these vectors; overlaps
would know small singular values half as well. Real networks and particles at infinite width are one function.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from .._types import Array
from ..lowering.array_backends import Arrays
from ..optimizers.spectral import Spectral

Outers = Sequence[tuple[float, Array, Array]]
MARGIN = 64  # times the rounding of a number: that of what many of them make


def spectral_part(arrays: Arrays, node: Spectral, now: Sequence[Outers], past: Sequence[Sequence[Outers]],
                  known: list[Any] | None = None) -> tuple[Array, Array, np.ndarray]:
    """(u, v, s), u and v each (rows, n), with sum_k u_k v_k^T / n the node's part of a function of the matrices that
    sums of c u v^T / n over outer products are; s: what is divided by in it, falling.

    now: by part of the matrix, (c, u, v) with u and v one vector (n,) or blocks of them; past: by step, and there by
    part; known: what a run knows of earlier steps of the matrix, which is added to.
    Source: [tpcalc/muon_on_gram_matrices].
    """
    matrices = [now, *past]
    common, own = (2, 1) if node.in_rows else (1, 2)  # parts above each other share the right vectors
    other, right = _orthonormal(arrays, [one[part] for part in range(len(now)) for one in matrices], common)
    triangles = iter(right)
    of_parts, ones = [], []
    for part in range(len(now)):
        one, left = _orthonormal(arrays, [matrix[part] for matrix in matrices], own)
        ones.append(one)
        of_parts.append([(a, next(triangles)) for a in left])
    width = other.shape[0]
    extent = max((sum(float(np.linalg.norm(a, axis=0) @ np.linalg.norm(b, axis=0)) for a, b in products)
                  for products in zip(*of_parts)), default=0.0) / width
    first, *later = (np.concatenate([a @ b.T for a, b in products]) / width for products in zip(*of_parts))
    if not all(np.all(np.isfinite(matrix)) for matrix in (first, *later)):
        factor, values = np.full(first.shape, np.nan), np.zeros(0)
    else:
        first, *later = (matrix if node.in_rows else matrix.T for matrix in (first, *later))
        factor, values = node.whole_after([] if known is None else known, first, later,
                                          MARGIN * arrays.rounding * extent)
        factor = factor if node.in_rows else factor.T
    sizes = np.cumsum([0, *(one.shape[1] for one in ones)])
    here = factor[sizes[node.part]:sizes[node.part + 1]]
    root = float(np.sqrt(width))
    u, v = root * (ones[node.part] @ arrays.asarray(here)).T, root * other.T
    return (u, v, values) if node.in_rows else (v, u, values)


def _orthonormal(arrays: Arrays, sums: Sequence[Outers], side: int) -> tuple[Array, list[np.ndarray]]:
    """Orthonormal vectors (n, k) of one side of sums of outer products, and of every sum what its vectors are made of,
    (k, vectors), numbers with those of the left. What several sums share is made orthonormal once."""
    shared: dict[int, Array] = {id(one[side]): one[side] for outers in sums for one in outers}
    rows = [row if row.ndim == 2 else arrays.reshaped(row, (1, -1)) for row in shared.values()]
    vectors, triangle = arrays.qr(arrays.joined(rows, 0).T)
    cuts = np.cumsum([len(row) for row in rows])[:-1]
    made = dict(zip(shared, np.split(arrays.numpy(triangle).astype(float), cuts, axis=1)))
    return vectors, [np.concatenate([made[id(one[side])] * (float(one[0]) if side == 1 else 1.0) for one in outers],
                                    axis=1) for outers in sums]
