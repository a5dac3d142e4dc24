"""Products of a row with a packed triangle, of which half is stored: strictly lower ones with row k at k (k - 1) / 2,
symmetric matrices with row k at k (k + 1) / 2."""

from __future__ import annotations

from numba import njit


@njit(cache=True, fastmath={"reassoc", "contract"})
def strict(m, x, y, triangle, onto, back):
    """Adds x T to ``onto``; back = y T^T."""
    for k in range(m):
        row = triangle[k * (k - 1) // 2:k * (k + 1) // 2]  # a slice: indices that the compiler can vectorize
        a = x[k]
        total = 0.0
        for j in range(k):
            t = row[j]
            onto[j] += a * t
            total += y[j] * t
        back[k] = total


@njit(cache=True, fastmath={"reassoc", "contract"})
def onto_columns(m, x, triangle, onto):
    """Adds x T, of a strictly lower triangle, to ``onto``."""
    for k in range(m):
        row = triangle[k * (k - 1) // 2:k * (k + 1) // 2]
        a = x[k]
        for j in range(k):
            onto[j] += a * row[j]


@njit(cache=True, fastmath={"reassoc", "contract"})
def onto_rows(m, y, triangle, onto):
    """Adds y T^T, of a strictly lower triangle, to ``onto``."""
    for k in range(m):
        row = triangle[k * (k - 1) // 2:k * (k + 1) // 2]
        total = 0.0
        for j in range(k):
            total += y[j] * row[j]
        onto[k] += total


@njit(cache=True, fastmath={"reassoc", "contract"})
def symmetric(m, x, triangle, onto):
    """Adds x T to ``onto``."""
    for k in range(m):
        row = triangle[k * (k + 1) // 2:(k + 1) * (k + 2) // 2]
        a = x[k]
        total = a * row[k]
        for j in range(k):
            t = row[j]
            onto[j] += a * t
            total += x[j] * t
        onto[k] += total
