"""One row a step at infinite depth: a row of P and S is carried through the elements of layer time.

Triangles are packed, as in ``triangles.py``. Nodes of an element are counted from where the sweep enters, so that both
directions read the same integrals. Letters are those of the forward direction, D is the covariance of the opposite
signal; r and C stand for the rows of earlier steps. The row y = [p | s | S_tt] has the slope

    r_t = p + (p Q) r                                 its response, G P
    c_t = s + (p Q) C + (p R + s Q^T) r^T             its covariance with earlier rows, <x_t x>
    p' = on_r r_t + on_c c_t + (p B) P                on_r = noise rho_t rho, on_c = - drift w_t
    s' = on_r c_t + (p N + s B^T) P^T + (p B) S       N = noise rho rho o D
    S_tt' = on_own C_tt + p N p + 2 (s B^T) p         on_own = noise rho_t^2

in which every matrix is read once, and half of it: that is what a step costs.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .triangles import strict, symmetric

TINY = np.finfo(np.float64).tiny


@njit(cache=True, fastmath={"reassoc", "contract"})
def row_slope(m, noise, rho, on_r, on_c, on_own, y, P, S, C, r, Q, R, B, D, out, row_r, row_c, work):
    """y' at one node to ``out``, the rows r_t and c_t; returns C_tt - S_tt."""
    p, s, dp, ds = y[:m], y[m:2 * m], out[:m], out[m:2 * m]
    q, pq, pr, pb, pn, sq, sb, v, u = (work[0], work[1], work[2], work[3], work[4], work[5], work[6], work[7], work[8])
    for j in range(m):
        q[j] = p[j] * rho[j]
        pq[j] = pr[j] = pb[j] = pn[j] = dp[j] = ds[j] = 0.0
        row_r[j] = p[j]
        row_c[j] = s[j]
    strict(m, p, s, Q, pq, sq)      # p Q, s Q^T
    strict(m, p, s, B, pb, sb)      # p B, s B^T
    symmetric(m, p, R, pr)          # p R
    symmetric(m, q, D, pn)          # (rho p) D
    crossed, grown = 0.0, 0.0
    for j in range(m):
        pn[j] *= noise * rho[j]                 # p N
        grown += p[j] * (pn[j] + 2.0 * sb[j])
        pn[j] += sb[j]
        v[j] = pr[j] + sq[j]
    strict(m, pq, v, r, row_r, u)   # r_t = p + (p Q) r; (p R + s Q^T) r^T
    symmetric(m, pq, C, row_c)      # (p Q) C
    strict(m, pb, pn, P, dp, v)     # (p B) P; (p N + s B^T) P^T
    symmetric(m, pb, S, ds)         # (p B) S
    for j in range(m):
        row_c[j] += u[j]
        # C_tt - S_tt = (p Q) c_t + (p R) r_t + s (p e), with p e = p Q + (r_t - p) Q for e = (I - Q P)^-1 Q
        crossed += pq[j] * row_c[j] + pr[j] * row_r[j] + s[j] * pq[j] + (row_r[j] - p[j]) * sq[j]
        dp[j] += on_r[j] * row_r[j] + on_c[j] * row_c[j]
        ds[j] += on_r[j] * row_c[j] + v[j]
    if len(y) > 2 * m:
        out[2 * m] = on_own * (y[2 * m] + crossed) + grown
    return crossed


@njit(cache=True, fastmath={"reassoc", "contract"})
def integrate(half, integral, start, slopes, state):
    """state = start + the integrals of slopes, over an element of this half length."""
    for i in range(len(state)):
        for j in range(len(start)):
            state[i, j] = start[j]
        for k in range(len(slopes)):
            a = half * integral[i, k]
            for j in range(len(start)):
                state[i, j] += a * slopes[k, j]


@njit(cache=True)
def change(ends, new, old):
    """The largest change of p, s and S_tt, which begin and end at these columns, each relative to its largest value;
    infinite where it is not finite."""
    worst = 0.0
    for first, end in zip(ends[:-1], ends[1:]):
        size, most = 0.0, 0.0
        for i in range(new.shape[0]):
            for j in range(first, end):
                size = max(size, abs(new[i, j]))
                difference = abs(new[i, j] - old[i, j])
                if not difference < np.inf:
                    return np.inf
                most = max(most, difference)
        worst = max(worst, most / (size + TINY))
    return worst


@njit(cache=True)
def tail(ends, state, last):
    """The largest of the last Chebyshev coefficients of p, s and S_tt, each relative to its largest value."""
    worst = 0.0
    for first, end in zip(ends[:-1], ends[1:]):
        size, most = 0.0, 0.0
        for j in range(first, end):
            one, two = 0.0, 0.0
            for i in range(len(state)):
                size = max(size, abs(state[i, j]))
                one += last[0, i] * state[i, j]
                two += last[1, i] * state[i, j]
            most = max(most, abs(one), abs(two))
        worst = max(worst, most / (size + TINY))
    return worst


@njit(cache=True)
def sweep(forward, m, passed, halves, points, integral, last, rules, noise, rho, on_r, on_c, on_own, row,
          P, S, A, C, r, Q, R, B, D, between, near_P, near_S):
    """Carry a row through the elements of a mesh, from where it has passed ``passed`` of them; returns how many it
    has passed in the end, fewer than all where the next one is too long for the iteration.

    The collocation equations y = y_0 + J y' are solved by deferred corrections: a sweep integrates the slopes of the
    sweep before exactly, and what has changed of them by Euler's steps. Each gains a digit or more.

    halves: half lengths of the elements; points, integral, last: (n,), (n, n) and (2, n), on [-1, 1] points, J, and
    what gives the last Chebyshev coefficients; rules: (most iterations, iterations before divergence is looked for,
    a change that settles, one that may stagnate, tails that are unresolved). on_r, on_c: (m,); row: (2 m + 1,), or
    (2 m,) for a passenger, which leaves no trace; overwritten. P, A, r, Q, B: (nodes, N (N - 1) / 2); S, C, R, D:
    (nodes, N (N + 1) / 2). between: (n, k), near_P, near_S: the same on a mesh of k nodes an element, which has the
    row already, to start from; (n, 0) for none.
    """
    n, k, width = integral.shape[0], between.shape[1], len(row)
    most, unchecked, settled, stagnant, unresolved = rules
    state, new, slopes, before = np.empty((n, width)), np.empty((n, width)), np.empty((n, width)), np.empty((n, width))
    row_r, row_c, crossed = np.empty((n, m)), np.empty((n, m)), np.empty(n)
    work, carried = np.empty((9, m)), np.empty(width)
    strict_row, full_row, ends = m * (m - 1) // 2, m * (m + 1) // 2, (0, m, 2 * m, width)
    direction = 1 if forward else -1
    while passed < len(halves):
        element = passed if forward else len(halves) - 1 - passed
        half = halves[element]
        first = element * (n - 1) if forward else (element + 1) * (n - 1)
        slopes[:] = 0.0
        state[:] = 0.0
        now = np.inf
        if k > 0:
            start = element * (k - 1) if forward else (element + 1) * (k - 1)
            for l in range(k):
                known_p, known_s = near_P[start + direction * l], near_S[start + direction * l]
                for i in range(n):
                    a = between[i, l]
                    for j in range(m):
                        state[i, j] += a * known_p[strict_row + j]
                    for j in range(width - m):
                        state[i, m + j] += a * known_s[full_row + j]
            for i in range(n):
                a = first + direction * i
                crossed[i] = row_slope(m, noise, rho, on_r, on_c, on_own, state[i], P[a], S[a], C[a], r[a], Q[a], R[a],
                                       B[a], D[a], slopes[i], row_r[i], row_c[i], work)
            integrate(half, integral, row, slopes, new)
            now = change(ends, new, state)
            state, new = new, state
        iteration = 0
        while not now <= settled and iteration < most:
            slopes, before, earlier = before, slopes, now
            integrate(half, integral, row, before, new)
            carried[:] = 0.0
            for i in range(n):
                a = first + direction * i
                for j in range(width):
                    new[i, j] += carried[j]
                crossed[i] = row_slope(m, noise, rho, on_r, on_c, on_own, new[i], P[a], S[a], C[a], r[a], Q[a], R[a],
                                       B[a], D[a], slopes[i], row_r[i], row_c[i], work)
                if i + 1 < n:
                    ahead = half * (points[i + 1] - points[i])
                    for j in range(width):
                        carried[j] += ahead * (slopes[i, j] - before[i, j])
            now = change(ends, new, state)
            state, new = new, state
            iteration += 1
            if now == np.inf or (iteration > unchecked and now > earlier and earlier > stagnant):
                return passed
            if now <= stagnant and (now > earlier / 2 or now * now < settled * earlier / 10):
                break  # round-off, or the next change will be
        else:
            if not now <= settled:
                return passed
        if tail(ends, state, last) > unresolved:
            return passed
        if width > 2 * m:
            for i in range(n):
                a = first + direction * i
                for j in range(m):
                    P[a, strict_row + j] = state[i, j]
                    S[a, full_row + j] = state[i, m + j]
                    r[a, strict_row + j] = row_r[i, j]
                    C[a, full_row + j] = row_c[i, j]
                    A[a, strict_row + j] = on_r[j] * row_r[i, j] + on_c[j] * row_c[i, j]
                S[a, full_row + m] = state[i, 2 * m]
                C[a, full_row + m] = state[i, 2 * m] + crossed[i]
        for j in range(len(row)):  # a slice would compile the text of numba's errors
            row[j] = state[n - 1, j]
        passed += 1
    return passed
