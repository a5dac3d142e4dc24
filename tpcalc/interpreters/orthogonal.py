"""The orthogonal factor of a sum of outer products, from triangles of its vectors: no n x n array, no width's SVD.

Both sides are written as orthonormal vectors times triangles, whose product has the singular values of the sum;
overlaps would know small ones half as well. Real networks and particles at infinite width are one function.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np

from .._types import Array
from ..kernels.polar_factor import orthogonal_factor_of
from ..lowering.array_backends import Arrays

Outers = Sequence[tuple[float, Array, Array]]


def orthogonal_factor(arrays: Arrays, outers: Outers, steps: int) -> tuple[Array, Array, np.ndarray]:
    """(u, v, s), u and v each (rows, n), with sum_k u_k v_k^T / n the orthogonal factor of the sum of c u v^T / n over
    ``outers``, and s the singular values of that sum that are not 0, falling.

    outers: (c, u, v), u and v one vector (n,) or blocks of them; steps: 0, or how many Newton-Schulz steps stand for
    it. Source: [tpcalc/muon_on_gram_matrices].
    """
    (one, left), (other, right) = (arrays.qr(arrays.joined(rows, 0).T) for rows in (
        [c * _rows(arrays, u) for c, u, _ in outers], [_rows(arrays, v) for _, _, v in outers]))
    triangles = [arrays.numpy(triangle).astype(float) for triangle in (left, right)]
    lengths = [np.linalg.norm(triangle, axis=0) for triangle in triangles]
    factor, values = orthogonal_factor_of(triangles[0] @ triangles[1].T, steps, arrays.rounding,
                                          float(lengths[0] @ lengths[1]))
    width = one.shape[0]
    root = float(np.sqrt(width))
    return root * (one @ arrays.asarray(factor)).T, root * other.T, values / width


def _rows(arrays: Arrays, vectors: Array) -> Array:
    return vectors if vectors.ndim == 2 else arrays.reshaped(vectors, (1, -1))
