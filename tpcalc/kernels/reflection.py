"""The reflection recursion of a linear residual network: one step's rows, swept through the layers.

At node l everything to the left answers an incoming delta, x = P delta + x_left, and everything to
the right an incoming x, delta = Q x + delta_right; S and R are the covariances of x_left and
delta_right. Reversing the layers swaps (P, S, G, A, C0) and (Q, R, G', B, C1), so that one sweep
serves both directions: "own" arrays are those it fills, "other" those of the opposite direction.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .products import gram, put, times, times_transposed


@njit(cache=True)
def sweep(forward, m, eps, g, rho, rho_row, w, p, s, diagonal, keep, P, S, G, A, C, Q, R, B, D):
    """Carry the rows of one step through all layers; p and s are overwritten by their values at the far end.

    forward: from node 0 to L (own arrays are P, S, G, A, C0), else from L to 0 (Q, R, G', B, C1). m: rows of earlier
    steps; rho: (N,); rho_row: this step's; w: (m,) its update kernel. p, s: (b, m) own reflection and covariance with
    earlier rows; diagonal: (b, b) own covariance of the step with itself. keep: store the rows at m..m+b; without it
    the rows are passengers and ``diagonal`` is not touched. P, S, G, Q, R: (L + 1, N, N); A, C, B, D: (L, N, N), D the
    other C. Returns 0, or the number of layers passed when a value ceased to be finite.
    """
    b = p.shape[0]
    layers = A.shape[0]
    z, gs, y, u, v = np.empty((b, m)), np.empty((b, m)), np.empty((b, m)), np.empty((b, m)), np.empty((b, m))
    t1, t2 = np.empty((b, m)), np.empty((b, m))
    c_own, extra = np.empty((b, b)), np.empty((b, b))
    node = 0 if forward else layers
    if keep:
        store_rows(P[node], S[node], p, s, diagonal, m)
    for step in range(layers):
        layer = step if forward else layers - 1 - step
        old = step if forward else layers - step
        new = old + 1 if forward else old - 1
        # G = (I - P Q)^-1, row: g = p Q G
        times(p, Q[old], m, t1)
        times(t1, G[old], m, z)
        # (G P) row: y = p + g P
        times(z, P[old], m, y)
        for i in range(b):
            for j in range(m):
                y[i, j] += p[i, j]
        # C = G (S + P R P^T) G^T, row: t1 = (g S + s + (GP) R P^T) G^T
        times(z, S[old], m, gs)
        for i in range(b):
            for j in range(m):
                gs[i, j] += s[i, j]
        times(y, R[old], m, t1)
        if keep:
            # C_tt = g S g^T + s g^T + g s^T + S_tt + (GP) R (GP)^T
            put(diagonal, c_own, 0, 0)
            gram(gs, z, c_own)
            gram(z, s, c_own)
            gram(t1, y, c_own)
            put(z, G[old], m, 0)
            for i in range(b):
                G[old, m + i, m + i] = 1.0
        times_transposed(t1, P[old], m, t2)
        for i in range(b):
            for j in range(m):
                t2[i, j] += gs[i, j]
        times_transposed(t2, G[old], m, t1)
        if keep:
            put(t1, C[layer], m, 0)
            put(t1.T, C[layer], 0, m)
            put(c_own, C[layer], m, m)
        # A = eps [eps rho rho (G P) - g w C], row: y
        for i in range(b):
            for j in range(m):
                y[i, j] = eps * (eps * rho_row * rho[j] * y[i, j] - g * w[j] * t1[i, j])
                t1[i, j] *= eps * eps * rho_row * rho[j]
        if keep:
            put(y, A[layer], m, 0)
        # M = eps^2 P (rho rho D) P^T + S, row: v = z P^T + s with z = eps^2 p (rho rho D)
        for i in range(b):
            for j in range(m):
                z[i, j] = eps * eps * rho[j] * p[i, j]
        times(z, D[layer], m, t2)
        for i in range(b):
            for j in range(m):
                t2[i, j] *= rho[j]
        if keep:
            for i in range(b):
                for j in range(b):
                    extra[i, j] = eps * eps * rho_row * rho_row * c_own[i, j] + diagonal[i, j]
            gram(t2, p, extra)
        times_transposed(t2, P[old], m, v)
        for i in range(b):
            for j in range(m):
                v[i, j] += s[i, j]
        # H = (I - P B)^-1 = I + (H P) B, and H P = P' - A: v H^T = v + (v B^T) (P' - A)^T
        times(p, B[layer], m, u)
        times_transposed(v, B[layer], m, z)
        if b > 6:
            hp = P[new, :m, :m] - A[layer, :m, :m]
            v += np.dot(z, hp.T)
            # P' = A + H P, row: A + p + u (H P)
            p += y + np.dot(u, hp)
            # H M H^T = S' - eps^2 rho rho C for the earlier rows; S' row: eps^2 rho rho C + v H^T + u H M H^T
            hmh = np.empty((m, m))
            for k in range(m):
                for j in range(m):
                    hmh[k, j] = S[new, k, j] - eps * eps * rho[k] * rho[j] * C[layer, k, j]
            put(np.dot(u, hmh), t2, 0, 0)
        else:
            for i in range(b):
                for j in range(m):
                    total = 0.0
                    for k in range(m):
                        total += z[i, k] * (P[new, j, k] - A[layer, j, k])
                    v[i, j] += total
                    p[i, j] += y[i, j]
                    t2[i, j] = 0.0
                for k in range(m):
                    for j in range(m):
                        p[i, j] += u[i, k] * (P[new, k, j] - A[layer, k, j])
                        t2[i, j] += u[i, k] * (S[new, k, j] - eps * eps * rho[k] * rho[j] * C[layer, k, j])
        if keep:
            # S'_tt = eps^2 rho^2 C_tt + M_tt + u (v H^T)^T + transpose + u H M H^T u^T
            gram(u, v, extra)
            gram(v, u, extra)
            gram(t2, u, extra)
            put(extra, diagonal, 0, 0)
        finite = True
        for i in range(b):
            for j in range(m):
                s[i, j] = t1[i, j] + v[i, j] + t2[i, j]
                finite = finite and np.isfinite(s[i, j]) and np.isfinite(p[i, j])
            if keep:
                finite = finite and np.isfinite(diagonal[i, i])
        if not finite:
            return step + 1
        if keep:
            store_rows(P[new], S[new], p, s, diagonal, m)
    return 0


@njit(cache=True)
def store_rows(P, S, p, s, diagonal, m):
    """Put what a step found at a node into P and S, (N, N), in place: rows m to m + b are p and s, (b, m), and S is
    symmetric, with ``diagonal``, (b, b), where these rows meet themselves."""
    put(p, P, m, 0)
    put(s, S, m, 0)
    put(s.T, S, 0, m)
    put(diagonal, S, m, m)
