"""Functions of whole matrices that are sums of outer products, from triangles of their vectors: no n x n array.

Both sides are written as orthonormal vectors times triangles, whose products are the sums in these vectors; overlaps
would know small singular values half as well. Real networks and particles at infinite width are one function.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np

from .._types import Array
from ..lowering.array_backends import Arrays
from ..optimizers.spectral import Spectral

Outers = Sequence[tuple[float, Array, Array]]
MARGIN = 64  # times the rounding of a number: that of what many of them make


def spectral_part(arrays: Arrays, node: Spectral, now: Sequence[Outers], past: Sequence[Sequence[Outers]]
                  ) -> tuple[Array, Array, np.ndarray]:
    """(u, v, s), u and v each (rows, n), with sum_k u_k v_k^T / n the node's part of a function of the matrices that
    sums of c u v^T / n over outer products are; s: what is divided by in it, falling.

    now: by part of the matrix, (c, u, v) with u and v one vector (n,) or blocks of them; past: by step, and there by
    part. Source: [tpcalc/muon_on_gram_matrices].
    """
    matrices = [now, *past]
    common, own = (2, 1) if node.in_rows else (1, 2)  # parts above each other share the right vectors
    lefts = [[_joined(arrays, one[part], own) for one in matrices] for part in range(len(now))]
    rights = [[_joined(arrays, one[part], common) for one in matrices] for part in range(len(now))]
    other, right = _orthonormal(arrays, [rows for part in rights for rows in part])
    triangles = iter(right)
    of_parts, ones = [], []
    for part in lefts:
        one, left = _orthonormal(arrays, part)
        ones.append(one)
        of_parts.append([(a, next(triangles)) for a in left])
    width = other.shape[0]
    extent = max((sum(float(np.linalg.norm(a, axis=0) @ np.linalg.norm(b, axis=0)) for a, b in products)
                  for products in zip(*of_parts)), default=0.0) / width
    first, *later = (np.concatenate([a @ b.T for a, b in products]) / width for products in zip(*of_parts))
    if not all(np.all(np.isfinite(matrix)) for matrix in (first, *later)):
        factor, values = np.full(first.shape, np.nan), np.zeros(0)
    elif node.in_rows:
        factor, values = node.whole(first, later, MARGIN * arrays.rounding * extent)
    else:
        turned, values = node.whole(first.T, [matrix.T for matrix in later], MARGIN * arrays.rounding * extent)
        factor = turned.T
    sizes = np.cumsum([0, *(one.shape[1] for one in ones)])
    here = factor[sizes[node.part]:sizes[node.part + 1]]
    root = float(np.sqrt(width))
    u, v = root * (ones[node.part] @ arrays.asarray(here)).T, root * other.T
    return (u, v, values) if node.in_rows else (v, u, values)


def _joined(arrays: Arrays, outers: Outers, side: int) -> Array:
    """The vectors of one side as rows, numbers with those of the left."""
    rows: list[Array] = [one[side] for one in outers]
    rows = [row if row.ndim == 2 else arrays.reshaped(row, (1, -1)) for row in rows]
    return arrays.joined([c * row if side == 1 else row for (c, *_), row in zip(outers, rows)], 0)


def _orthonormal(arrays: Arrays, groups: Sequence[Array]) -> tuple[Array, list[np.ndarray]]:
    """Orthonormal vectors (n, k), and of every group of rows what these are made of, (k, rows of the group)."""
    vectors, triangle = arrays.qr(arrays.joined(list(groups), 0).T)
    cuts = np.cumsum([len(rows) for rows in groups])[:-1]
    return vectors, np.split(arrays.numpy(triangle).astype(float), cuts, axis=1)
