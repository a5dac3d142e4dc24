"""The sweep of ``tpcalc.kernels.reflection``, the same arithmetic in NumPy: what compiling it is compared with."""

from __future__ import annotations

from typing import Any

import numpy as np

from tpcalc.kernels.reflection import store_rows


def sweep(forward: bool, m: int, eps: float, g: float, rho: np.ndarray, rho_row: float, w: np.ndarray,
          p: np.ndarray, s: np.ndarray, diagonal: np.ndarray, keep: bool, P: Any, S: Any, G: Any, A: Any, C: Any,
          Q: Any, R: Any, B: Any, D: Any) -> int:
    """Carry the rows of one step through all layers; arguments and result as in ``reflection.sweep``."""
    b, layers = p.shape[0], A.shape[0]
    here = slice(m, m + b)
    known = rho[:m]
    crossed = eps * eps * rho_row * known                    # noise of these rows with earlier ones
    among = eps * eps * np.outer(known, known)               # and of earlier ones
    if keep:
        store_rows(P[0 if forward else layers], S[0 if forward else layers], p, s, diagonal, m)
    for step in range(layers):
        layer = step if forward else layers - 1 - step
        old = step if forward else layers - step
        new = old + 1 if forward else old - 1
        Pl, Gl, Al, Cl, Pn, Sn = (a[:m, :m] for a in (P[old], G[old], A[layer], C[layer], P[new], S[new]))
        Ql, Rl, Bl, Dl = (a[:m, :m] for a in (Q[old], R[old], B[layer], D[layer]))
        # G = (I - P Q)^-1, row: z = p Q G; (G P) row: y; C = G (S + P R P^T) G^T, row: c
        z = (p @ Ql) @ Gl
        y = p + z @ Pl
        gs = s + z @ S[old, :m, :m]
        yr = y @ Rl
        c = (gs + yr @ Pl.T) @ Gl.T
        # A = eps [eps rho rho (G P) - g w C]
        a = eps * (eps * rho_row * known * y - g * w * c)
        # M = eps^2 P (rho rho D) P^T + S, row: v; H = (I - P B)^-1 = I + (H P) B with H P = P' - A
        pn = (eps * eps * known * p) @ Dl * known
        v = s + pn @ Pl.T
        u = p @ Bl
        hp = Pn - Al
        if keep:
            own = diagonal + gs @ z.T + z @ s.T + yr @ y.T
            G[old, here, :m] = z
            G[old, range(m, m + b), range(m, m + b)] = 1.0
            C[layer, here, :m], C[layer, :m, here], C[layer, here, here] = c, c.T, own
            A[layer, here, :m] = a
            extra = eps * eps * rho_row * rho_row * own + diagonal + pn @ p.T
        v += (v @ Bl.T) @ hp.T
        p += a + u @ hp
        # H M H^T = S' - eps^2 rho rho C of the earlier rows
        hmh = u @ (Sn - among * Cl)
        s[:] = crossed * c + v + hmh
        if keep:
            half = u @ v.T
            diagonal[:] = extra + half + half.T + hmh @ u.T
        if not (np.all(np.isfinite(s)) and np.all(np.isfinite(p)) and (not keep or np.all(np.isfinite(diagonal)))):
            return step + 1
        if keep:
            store_rows(P[new], S[new], p, s, diagonal, m)
    return 0
