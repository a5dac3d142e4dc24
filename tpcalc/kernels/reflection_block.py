"""The sweep of ``reflection.py`` for large blocks, where nothing but products with large matrices counts: in NumPy.

NumPy multiplies with a leading square of a matrix in place, compiled code would copy it first; and of lower triangles
only tiles that are not zero are read.
"""

from __future__ import annotations

import numpy as np

from .reflection import store_rows

TILE = 128


def sweep(forward: bool, m: int, eps: float, g: float, rho: np.ndarray, rho_row: float, w: np.ndarray, p: np.ndarray,
          s: np.ndarray, diagonal: np.ndarray, keep: bool, P: np.ndarray, S: np.ndarray, G: np.ndarray, A: np.ndarray,
          C: np.ndarray, Q: np.ndarray, R: np.ndarray, B: np.ndarray, D: np.ndarray) -> int:
    """Carry the rows of one step through all layers; arguments and result as in ``reflection.sweep``.

    w: (m,), or (L, m, m) weights w[a, b] of gradients a and inputs b in every layer, where an update mixes rows.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return _sweep(forward, m, eps, g, rho, rho_row, w, p, s, diagonal, keep, P, S, G, A, C, Q, R, B, D)


def _sweep(forward: bool, m: int, eps: float, g: float, rho: np.ndarray, rho_row: float, w: np.ndarray, p: np.ndarray,
           s: np.ndarray, diagonal: np.ndarray, keep: bool, P: np.ndarray, S: np.ndarray, G: np.ndarray, A: np.ndarray,
           C: np.ndarray, Q: np.ndarray, R: np.ndarray, B: np.ndarray, D: np.ndarray) -> int:
    b, layers = p.shape[0], A.shape[0]
    here, known = slice(m, m + b), rho[:m]
    noise = eps * eps * known
    if keep:
        store_rows(P[0 if forward else layers], S[0 if forward else layers], p, s, diagonal, m)
    for step in range(layers):
        layer = step if forward else layers - 1 - step
        old = step if forward else layers - step
        new = old + 1 if forward else old - 1
        P_old, S_old, G_old, Q_old, R_old = (a[old, :m, :m] for a in (P, S, G, Q, R))
        A_here, C_here, B_here, D_here = (a[layer, :m, :m] for a in (A, C, B, D))
        # G = (I - P Q)^-1, row: z = p Q G; (G P) row: y; C = G (S + P R P^T) G^T, row: c
        z = _lower(_lower(p, Q_old), G_old)
        y = p + _lower(z, P_old)
        gs = s + z @ S_old
        yr = y @ R_old
        c = _lower_transposed(gs + _lower_transposed(yr, P_old), G_old)
        # A = eps [eps rho rho (G P) - g w C]
        weighed = c * w if w.ndim == 1 else c @ (w[layer].T if forward else w[layer])
        a = eps * (eps * rho_row * known * y - g * weighed)
        # M = eps^2 P (rho rho D) P^T + S, row: v
        pn = (noise * p) @ D_here * known
        v = s + _lower_transposed(pn, P_old)
        if keep:
            # C_tt = g S g^T + s g^T + g s^T + S_tt + (GP) R (GP)^T
            own = diagonal + gs @ z.T + z @ s.T + yr @ y.T
            G[old, here, :m] = z
            G[old, range(m, m + b), range(m, m + b)] = 1.0
            C[layer, here, :m], C[layer, :m, here], C[layer, here, here] = c, c.T, own
            A[layer, here, :m] = a
            diagonal += eps * eps * rho_row * rho_row * own + pn @ p.T
        # H = (I - P B)^-1 = I + (H P) B, and H P = P' - A: v H^T = v + (v B^T) (P' - A)^T, P' row: A + p + u (H P)
        u, back = _lower(p, B_here), _lower_transposed(v, B_here)
        v += _lower_transposed(back, P[new, :m, :m]) - _lower_transposed(back, A_here)
        p += a + _lower(u, P[new, :m, :m]) - _lower(u, A_here)
        # H M H^T = S' - eps^2 rho rho C of the earlier rows; S' row: eps^2 rho rho C + v H^T + u H M H^T
        hmh = u @ S[new, :m, :m] - (noise * u) @ C_here * known
        s[:] = rho_row * noise * c + v + hmh
        if keep:
            half = u @ v.T
            diagonal += half + half.T + hmh @ u.T
        if not (np.all(np.isfinite(s)) and np.all(np.isfinite(p)) and (not keep or np.all(np.isfinite(diagonal)))):
            return step + 1
        if keep:
            store_rows(P[new], S[new], p, s, diagonal, m)
    return 0


def _lower(a: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """a @ matrix, of a lower triangle; (b, m)."""
    out = np.empty_like(a)
    for j in range(0, a.shape[1], TILE):
        np.matmul(a[:, j:], matrix[j:, j:j + TILE], out=out[:, j:j + TILE])
    return out


def _lower_transposed(a: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """a @ matrix^T, of a lower triangle; (b, m)."""
    out = np.empty_like(a)
    for j in range(0, a.shape[1], TILE):
        np.matmul(a[:, :j + TILE], matrix[j:j + TILE, :j + TILE].T, out=out[:, j:j + TILE])
    return out
