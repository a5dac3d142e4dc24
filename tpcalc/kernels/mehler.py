"""Sums of Mehler's series over pairs: sum over k of a_k b_k r^k, as many terms as each pair needs."""

from __future__ import annotations

import numpy as np
from numba import njit

FEWEST = 8  # terms; the next numbers tried are twice as many


@njit(cache=True)
def tails(a, squares):
    """Norms of what 8, 16, 32, .. terms leave out, (rows, log2(terms / 8) + 1).

    a: (rows, terms); squares: (rows,), the squared norms of the whole functions.
    """
    rows, terms = a.shape
    counts = 1
    while FEWEST << counts <= terms:
        counts += 1
    result = np.empty((rows, counts))
    for i in range(rows):
        total = 0.0
        for k in range(terms):
            total += a[i, k] * a[i, k]
        rest, k = max(squares[i] - total, 0.0), terms
        for n in range(counts - 1, -1, -1):
            while k > FEWEST << n:  # from the small end, so that no digits are lost
                k -= 1
                rest += a[i, k] * a[i, k]
            result[i, n] = np.sqrt(rest)
    return result


@njit(cache=True)
def sums(a, b, left, right, r, left_tails, right_tails, allowed):
    """Values (pairs,), and whether the terms at hand leave out no more than ``allowed`` (pairs,), by Schwarz.

    a, b: (rows, terms); left, right, r: (pairs,), the rows of a and b that a pair takes, and its correlation.
    """
    counts = left_tails.shape[1]
    values, enough = np.empty(len(r)), np.empty(len(r), dtype=np.bool_)
    for i in range(len(r)):
        first, second = a[left[i]], b[right[i]]
        n, power = 0, abs(r[i]) ** FEWEST
        while left_tails[left[i], n] * right_tails[right[i], n] * power > allowed[i] and n + 1 < counts:
            n, power = n + 1, power * power
        enough[i] = not left_tails[left[i], n] * right_tails[right[i], n] * power > allowed[i]
        square, even, odd = r[i] * r[i], 0.0, 0.0
        for k in range((FEWEST << n) - 2, -1, -2):
            even = even * square + first[k] * second[k]
            odd = odd * square + first[k + 1] * second[k + 1]
        values[i] = even + odd * r[i]
    return values, enough
