"""Products of a few rows with a leading square of a matrix: loops for few rows, BLAS for blocks."""

from __future__ import annotations

import numpy as np
from numba import njit

# Blocks are copied by loops: numba's assignment of a slice compiles the text of its own errors, for seconds.

FEW = 6  # up to here a BLAS call costs more than it saves


@njit(cache=True)
def put(block, out, row, column):
    """out[row:, column:] = block, as far as it reaches; block: (a, b), out: two axes as well."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            out[row + i, column + j] = block[i, j]


@njit(cache=True)
def times(a, matrix, m, out):
    """out = a matrix[:m, :m]; a, out: (b, m)."""
    if a.shape[0] > FEW:
        put(np.dot(a, np.ascontiguousarray(matrix[:m, :m])), out, 0, 0)
        return
    for i in range(a.shape[0]):
        for j in range(m):
            out[i, j] = 0.0
        for k in range(m):
            x = a[i, k]
            for j in range(m):
                out[i, j] += x * matrix[k, j]


@njit(cache=True)
def times_transposed(a, matrix, m, out):
    """out = a matrix[:m, :m]^T; a, out: (b, m)."""
    if a.shape[0] > FEW:
        put(np.dot(a, np.ascontiguousarray(matrix[:m, :m]).T), out, 0, 0)
        return
    for i in range(a.shape[0]):
        for j in range(m):
            total = 0.0
            for k in range(m):
                total += a[i, k] * matrix[j, k]
            out[i, j] = total


@njit(cache=True)
def gram(a, c, out):
    """out += a c^T; a, c: (b, m), out: (b, b)."""
    if a.shape[0] > FEW:
        product = np.dot(a, c.T)
        for i in range(a.shape[0]):
            for j in range(a.shape[0]):
                out[i, j] += product[i, j]
        return
    for i in range(a.shape[0]):
        for j in range(a.shape[0]):
            total = 0.0
            for k in range(a.shape[1]):
                total += a[i, k] * c[j, k]
            out[i, j] += total
