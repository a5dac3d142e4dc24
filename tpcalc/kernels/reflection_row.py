"""The reflection recursion for one row a step: the same sweep as ``reflection.py``, with packed triangles.

Triangles are packed, as in ``triangles.py``. C and D are stored with their weight, eps^2 rho rho C. A matrix that two
rows are multiplied with, one from each side, is read once for both.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .triangles import onto_columns, onto_rows, strict, symmetric


@njit(cache=True, fastmath={"reassoc", "contract"})
def sweep(forward, m, eps, g, rho, rho_row, w, p, s, diagonal, keep, P, S, G, A, C, Q, R, B, D):
    """Carry one row through all layers; p, s: (m,), overwritten; the rest as in ``reflection.sweep``.

    P, G, Q: (L + 1, N (N - 1) / 2); A, B: (L, N (N - 1) / 2); S, R: (L + 1, N (N + 1) / 2); C, D: (L, N (N + 1) / 2).
    """
    layers = A.shape[0]
    z, u, d, y, gs, c, v, zb, one = (np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m),
                                     np.empty(m), np.empty(m), np.empty(m))
    row = m * (m - 1) // 2
    full = m * (m + 1) // 2
    hp, hmh = np.empty(row), np.empty(full)
    noise = eps * eps * rho_row
    node = 0 if forward else layers
    if keep:
        store(P[node], S[node], row, full, m, p, s, diagonal)
    for step in range(layers):
        layer = step if forward else layers - 1 - step
        old = step if forward else layers - step
        new = old + 1 if forward else old - 1
        for j in range(m):
            v[j] = u[j] = d[j] = c[j] = 0.0
            y[j] = p[j]
            gs[j] = s[j]
        onto_columns(m, p, Q[old], v)           # p Q
        symmetric(m, p, D[layer], d)            # p (eps^2 rho rho D)
        for j in range(m):
            z[j] = v[j]
        onto_columns(m, v, G[old], z)           # g = p Q G
        strict(m, z, d, P[old], y, v)           # y = p + g P; d P^T
        symmetric(m, z, S[old], gs)             # s + g S
        symmetric(m, y, R[old], c)              # y R
        c_own = diagonal
        if keep:
            for k in range(m):
                c_own += (gs[k] + s[k]) * z[k] + c[k] * y[k]
                diagonal += d[k] * p[k]
                G[old, row + k] = z[k]
        onto_rows(m, c, P[old], gs)             # (y R) P^T + s + g S
        for j in range(m):
            one[j] = gs[j]
        onto_rows(m, gs, G[old], one)           # C row, without its weight
        for j in range(m):
            y[j] = noise * rho[j] * y[j] - eps * g * w[j] * one[j]  # A row
            c[j] = noise * rho[j] * one[j]
            v[j] += s[j]
        strict(m, p, v, B[layer], u, zb)        # p B; v B^T
        for k in range(row):
            hp[k] = P[new, k] - A[layer, k]
        for k in range(full):
            hmh[k] = S[new, k] - C[layer, k]
        for j in range(m):
            p[j] += y[j]
            one[j] = 0.0
        strict(m, u, zb, hp, p, s)              # P' row = A + p + u (P' - A); (v B^T) (P' - A)^T
        symmetric(m, u, hmh, one)               # u (S' - eps^2 rho rho C)
        for j in range(m):
            s[j] += v[j]                            # v H^T
        if keep:
            diagonal += noise * rho_row * c_own
            for k in range(m):
                diagonal += u[k] * (2.0 * s[k] + one[k])
                A[layer, row + k] = y[k]
                C[layer, full + k] = c[k]
            C[layer, full + m] = noise * rho_row * c_own
        total = diagonal
        for j in range(m):
            s[j] += c[j] + one[j]
            total += s[j] * s[j] + p[j] * p[j]
        if not np.isfinite(total):
            return step + 1
        if keep:
            store(P[new], S[new], row, full, m, p, s, diagonal)
    return 0


@njit(cache=True)
def store(P, S, row, full, m, p, s, diagonal):
    """Append a row to the packed P and S of one node."""
    for j in range(m):
        P[row + j] = p[j]
        S[full + j] = s[j]
    S[full + m] = diagonal
