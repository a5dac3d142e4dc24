"""The reflection recursion for one row a step: the same sweep as ``reflection.py``, with packed triangles.

Triangles are stored by rows, so that a sweep over m rows reads the first m (m +- 1) / 2 numbers of a layer:
strictly lower ones with row k at k (k - 1) / 2, symmetric matrices with row k at k (k + 1) / 2. C and D are
stored with their weight, eps^2 rho rho C. Products with one left factor share a loop.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, fastmath={"reassoc", "contract"})
def sweep(forward, m, eps, g, rho, rho_row, w, p, s, diagonal, keep, P, S, G, A, C, Q, R, B, D):
    """Carry one row through all layers; p, s: (m,), overwritten; the rest as in ``reflection.sweep``.

    P, G, Q: (L + 1, N (N - 1) / 2); A, B: (L, N (N - 1) / 2); S, R: (L + 1, N (N + 1) / 2); C, D: (L, N (N + 1) / 2).
    """
    layers = A.shape[0]
    z, u, d, y, gs, c, v, zb = (np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m),
                                np.empty(m), np.empty(m))
    row = m * (m - 1) // 2
    full = m * (m + 1) // 2
    noise = eps * eps * rho_row
    node = 0 if forward else layers
    if keep:
        store(P[node], S[node], row, full, m, p, s, diagonal)
    for step in range(layers):
        layer = step if forward else layers - 1 - step
        old = step if forward else layers - step
        new = old + 1 if forward else old - 1
        Pl, Ql, Gl, Sl, Rl = P[old], Q[old], G[old], S[old], R[old]
        Al, Bl, Cl, Dl = A[layer], B[layer], C[layer], D[layer]
        Pn, Sn = P[new], S[new]
        for j in range(m):
            z[j] = 0.0
            u[j] = 0.0
            d[j] = 0.0
        for k in range(m):  # z = p Q, u = p B, d = p (eps^2 rho rho D)
            x = p[k]
            at = k * (k - 1) // 2
            on = at + k
            total = x * Dl[on + k]
            for j in range(k):
                z[j] += x * Ql[at + j]
                u[j] += x * Bl[at + j]
                d[j] += x * Dl[on + j]
                total += p[j] * Dl[on + j]
            d[k] += total
        for j in range(m):
            y[j] = p[j]
            gs[j] = s[j]
            v[j] = z[j]
        for k in range(m):  # g = z G, in z
            x = v[k]
            at = k * (k - 1) // 2
            for j in range(k):
                z[j] += x * Gl[at + j]
        for k in range(m):  # y = p + g P, gs = s + g S
            x = z[k]
            at = k * (k - 1) // 2
            on = at + k
            total = x * Sl[on + k]
            for j in range(k):
                y[j] += x * Pl[at + j]
                gs[j] += x * Sl[on + j]
                total += z[j] * Sl[on + j]
            gs[k] += total
        c_own = diagonal
        m_own = diagonal
        if keep:
            for k in range(m):
                c_own += (gs[k] + s[k]) * z[k]
                m_own += d[k] * p[k]
                G[old, row + k] = z[k]
        for j in range(m):
            c[j] = 0.0
        for k in range(m):  # c = y R
            x = y[k]
            on = k * (k + 1) // 2
            total = x * Rl[on + k]
            for j in range(k):
                c[j] += x * Rl[on + j]
                total += y[j] * Rl[on + j]
            c[k] += total
        if keep:
            for k in range(m):
                c_own += c[k] * y[k]
        for j in range(m):  # (y R) P^T + gs, in gs; v = d P^T + s
            a1 = gs[j]
            a2 = s[j]
            at = j * (j - 1) // 2
            for k in range(j):
                a1 += c[k] * Pl[at + k]
                a2 += d[k] * Pl[at + k]
            gs[j] = a1
            v[j] = a2
        for j in range(m):  # C row = gs G^T; A row, in y
            a1 = gs[j]
            at = j * (j - 1) // 2
            for k in range(j):
                a1 += gs[k] * Gl[at + k]
            y[j] = noise * rho[j] * y[j] - eps * g * w[j] * a1
            c[j] = noise * rho[j] * a1
        for j in range(m):  # v H^T = v + (v B^T) (P' - A)^T, in s together with the C row
            a1 = 0.0
            a2 = v[j]
            at = j * (j - 1) // 2
            for k in range(j):
                a1 += v[k] * Bl[at + k]
                a2 += zb[k] * (Pn[at + k] - Al[at + k])
            zb[j] = a1
            s[j] = a2
        for j in range(m):
            v[j] = 0.0
            p[j] += y[j]
        for k in range(m):  # P' row = A + p + u (P' - A); v = u (S' - eps^2 rho rho C)
            x = u[k]
            at = k * (k - 1) // 2
            on = at + k
            total = x * (Sn[on + k] - Cl[on + k])
            for j in range(k):
                p[j] += x * (Pn[at + j] - Al[at + j])
                own = Sn[on + j] - Cl[on + j]
                v[j] += x * own
                total += u[j] * own
            v[k] += total
        if keep:
            diagonal = noise * rho_row * c_own + m_own
            for k in range(m):
                diagonal += u[k] * (2.0 * s[k] + v[k])
                A[layer, row + k] = y[k]
                C[layer, full + k] = c[k]
            C[layer, full + m] = noise * rho_row * c_own
        total = diagonal
        for j in range(m):
            s[j] += c[j] + v[j]
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
