"""The orthogonal factor of a sum of outer products, from overlaps of its vectors: no n x n array, no width's SVD.

Overlaps are averages over coordinates, so that real networks and particles at infinite width are one function.
"""

from __future__ import annotations

from typing import Sequence

from .._types import Array
from ..kernels.polar_factor import orthogonal_weights
from ..lowering.array_backends import Arrays

Outers = Sequence[tuple[float, Array, Array]]


def orthogonal_factor(arrays: Arrays, outers: Outers, steps: int) -> tuple[Array, Array]:
    """(u, v), each (rows, n), with sum_k u_k v_k^T / n the orthogonal factor of the sum of c u v^T / n over ``outers``.

    outers: (c, u, v), u and v one vector (n,) or blocks of them; steps: 0, or how many Newton-Schulz steps stand for
    it. Source: [tpcalc/muon_on_gram_matrices].
    """
    left = arrays.joined([c * _rows(arrays, u) for c, u, _ in outers], 0)
    right = arrays.joined([_rows(arrays, v) for _, _, v in outers], 0)
    n = left.shape[1]
    inputs, gradients = (arrays.numpy(rows @ rows.T).astype(float) / n for rows in (right, left))
    weights, _ = orthogonal_weights(inputs, gradients, steps, arrays.rounding)
    return arrays.asarray(weights.T) @ left, right


def _rows(arrays: Arrays, vectors: Array) -> Array:
    return vectors if vectors.ndim == 2 else arrays.reshaped(vectors, (1, -1))
