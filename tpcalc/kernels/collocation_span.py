"""One row at infinite depth against a few kept rows: carried through an element of layer time by composed operators.

In y = [p | s] a row of a linear block is a linear initial-value problem, y' = y W, whose matrices change only when a
row is kept; updates, which change at every step, enter by p' += c K, with c the covariance with the kept rows. So a
step costs two products of a vector with a matrix at every node.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .collocation_row import change, integrate


@njit(cache=True, fastmath={"reassoc", "contract"})
def span_slope(y, m, on_p, on_s, updates, out, c):
    """y' at one node to ``out``, and the covariance with kept rows to ``c``; m: columns of p."""
    k = len(y) - m
    for j in range(len(out)):
        out[j] = 0.0
    for j in range(k):
        c[j] = 0.0
    for i in range(m):
        a, row = y[i], on_p[i]
        for j in range(m + k):
            out[j] += a * row[j]
        for j in range(k):
            c[j] += a * row[m + k + j]
    for i in range(k):
        a, row = y[m + i], on_s[i]
        for j in range(k):
            out[m + j] += a * row[j]
        for j in range(k):
            c[j] += a * row[k + j]
    for i in range(k):
        a, row = c[i], updates[i]
        for j in range(m):
            out[j] += a * row[j]


@njit(cache=True, fastmath={"reassoc", "contract"})
def element(start, y, m, on_p, on_s, updates, points, integral, half, most, settled, stagnant, c):
    """Solve y = start + the integral of y' on an element, in place, by deferred corrections; whether they settled.

    start: (m + k,); y: (nodes, m + k), where to start from; on_p: (nodes, m, m + 2 k); on_s: (nodes, k, 2 k); updates:
    (k, m); nodes counted from where the row enters; c: (nodes, k), overwritten.
    """
    n, width = y.shape
    slopes, before, new = np.empty((n, width)), np.empty((n, width)), np.empty((n, width))
    carried = np.empty(width)
    for i in range(n):
        span_slope(y[i], m, on_p[i], on_s[i], updates, slopes[i], c[i])
    earlier = np.inf
    for iteration in range(most):
        slopes, before = before, slopes
        integrate(half, integral, start, before, new)
        carried[:] = 0.0
        for i in range(n):
            for j in range(width):
                new[i, j] += carried[j]
            span_slope(new[i], m, on_p[i], on_s[i], updates, slopes[i], c[i])
            if i + 1 < n:
                ahead = half * (points[i + 1] - points[i])
                for j in range(width):
                    carried[j] += ahead * (slopes[i, j] - before[i, j])
        now = change((0, m, width), new, y)
        for i in range(n):
            for j in range(width):
                y[i, j] = new[i, j]
        if now <= settled or (now <= stagnant and now > earlier / 2):
            return True
        if now == np.inf or (iteration > 10 and now > earlier):
            return False
        earlier = now
    return False
