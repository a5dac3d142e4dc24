"""The infinite-depth limit in layer time: Taylor series in 64 digits on elements cut as needed.

The equations of docs/solvers.md, "Infinite depth", for one input a step, once more. Earlier rows are kept
by their values at Chebyshev points; the row of a step is a linear initial-value problem y' = y M, solved by its power
series from where the sweep enters an element. Where a series has not died out, the element is halved. In 64 digits
round-off is nowhere near: what is left is the tail of the series, ``TAIL`` relative to the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any

import numpy as np

from tpcalc.optimizers import SGD
from tpcalc.data import Task

from .limit_reference import decimals

DIGITS = 64
TABLE_DIGITS = 100  # of the fixed matrices: powers are an ill-conditioned basis
TERMS = 32
SHORTEST = Decimal("1e-9")
TAIL = Decimal("1e-20")


@lru_cache(maxsize=None)
def points(terms: int) -> np.ndarray:
    """Chebyshev points of [0, 1] with both ends, to float64: any would do that are symmetric to all digits."""
    half = decimals(np.round((1 - np.cos(np.pi * np.arange(terms // 2) / (terms - 1))) / 2 * 2**40) / 2**40)
    return np.concatenate([half, decimals([0.5] * (terms % 2)), 1 - half[::-1]])


@lru_cache(maxsize=None)
def to_series(terms: int) -> np.ndarray:
    """(terms, terms): values at ``points`` -> coefficients of powers, by expanding Lagrange's polynomials."""
    u, columns = points(terms), []
    with localcontext(prec=TABLE_DIGITS):
        for i in range(terms):
            lagrange = decimals([1.0])
            for j in set(range(terms)) - {i}:
                lagrange = (np.append(Decimal(0), lagrange) - u[j] * np.append(lagrange, Decimal(0))) / (u[i] - u[j])
            columns.append(lagrange)
    return np.stack(columns, axis=1)


def powers(u: np.ndarray, terms: int) -> np.ndarray:
    """(points, terms)"""
    columns = [0 * u + 1]
    for _ in range(terms - 1):
        columns.append(columns[-1] * u)
    return np.stack(columns, axis=1)


@lru_cache(maxsize=None)
def halving(terms: int, first: bool) -> np.ndarray:
    """(terms, terms): values at the points of [0, 1] -> values at those of one half."""
    with localcontext(prec=TABLE_DIGITS):
        return powers(points(terms) / 2 + (0 if first else Decimal(1) / 2), terms) @ to_series(terms)


def inverses(nilpotent: np.ndarray) -> np.ndarray:
    """(I - X)^-1 of strictly lower triangular X, (..., m, m)."""
    total = power = nilpotent * 0 + decimals(np.eye(nilpotent.shape[-1]))
    for _ in range(nilpotent.shape[-1] - 1):
        power = power @ nilpotent
        total = total + power
    return total


def along(matrix: np.ndarray, values: np.ndarray) -> np.ndarray:
    return (matrix @ values.reshape(len(values), -1)).reshape(len(matrix), *values.shape[1:])


def t(a: np.ndarray) -> np.ndarray:
    return a.swapaxes(-1, -2)


@dataclass
class Piece:
    """An element: its length, and P, S of both directions at its points, (terms, rows, rows)."""

    length: Decimal
    forward: tuple[np.ndarray, np.ndarray]
    backward: tuple[np.ndarray, np.ndarray]

    def halves(self) -> list[Piece]:
        return [Piece(self.length / 2, *(tuple(along(halving(len(a), first), a) for a in side)  # type: ignore[arg-type]
                                         for side in (self.forward, self.backward))) for first in (True, False)]


def row(piece: Piece, p0: np.ndarray, s0: np.ndarray, own: Decimal, rr: np.ndarray, w: np.ndarray, forward: bool
        ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """p, s and S_tt at the points of an element, from their values where the sweep enters; None where it is too long.

    rr, w: (m + 1, m + 1), of the row and the earlier ones.
    """
    m = len(p0)
    terms = len(piece.forward[0])
    mine, other = (piece.forward, piece.backward) if forward else (piece.backward, piece.forward)
    order = slice(None) if forward else slice(None, None, -1)  # the points are symmetric: the mirror enters at 0, too
    (P, S), (Q, R) = ([a[order, :m, :m] for a in side] for side in (mine, other))
    G, H = inverses(P @ Q), inverses(Q @ P)
    C1 = H @ (R + Q @ S @ t(Q)) @ t(H)
    B, N1 = rr[:m, :m] * (H @ Q) - w[:m, :m] * C1, rr[:m, :m] * C1
    B = B * decimals(np.tri(m, k=-1))
    p_to_c = H @ (Q @ S + R @ t(P)) @ t(G)
    M = np.concatenate([np.concatenate([rr[m, :m] * H - w[m, :m] * p_to_c + B @ P,
                                        rr[m, :m] * p_to_c + N1 @ t(P) + B @ S], axis=2),
                        np.concatenate([-w[m, :m] * t(G), rr[m, :m] * t(G) + t(P @ B)], axis=2)], axis=1)
    M = along(to_series(terms), M * piece.length)
    backwards = M[::-1].reshape(terms * 2 * m, 2 * m)  # M_(terms - 1), ..., M_0, one below the other
    y = np.append(p0, s0)
    for k in range(terms - 1):
        y = np.append(y, y @ backwards[len(backwards) - len(y):] / (k + 1))
    y = y.reshape(terms, 2 * m)
    at_points = powers(points(terms), terms) @ y
    p, s = at_points[:, None, :m], at_points[:, None, m:]
    # S_tt' = rho^2 C_tt + ..., C_tt = S_tt + ...
    known = p @ (rr[m, m] * C1 + N1) @ t(p) + 2 * p @ (rr[m, m] * (H @ Q) + B) @ t(s) if m else p @ t(s) + Decimal(0)
    known = along(to_series(terms), piece.length * known.reshape(terms))
    z = [own]
    for k in range(terms - 1):
        z.append((rr[m, m] * piece.length * z[k] + known[k]) / (k + 1))
    for series in (y, M, np.array(z), known):
        sizes = np.abs(series).reshape(terms, -1)
        if sizes.size and np.max(sizes[-3:]) > TAIL * np.max(sizes):
            return None
    tt = powers(points(terms), terms) @ np.array(z)
    return p[order, 0], s[order, 0], tt[order]


def sweep(pieces: list[Piece], p: np.ndarray, s: np.ndarray, own: Decimal, rr: np.ndarray, w: np.ndarray, forward: bool
          ) -> tuple[list[Piece], np.ndarray, np.ndarray]:
    """The pieces with the row, cut where it needs it, and its p and s where it leaves."""
    m, done = len(p), []
    left = list(reversed(pieces)) if forward else list(pieces)
    while left:
        piece = left.pop()
        found = row(piece, p, s, own, rr, w, forward)
        if found is None:
            assert piece.length > SHORTEST, "no element is short enough: round-off"
            left += piece.halves()[::-1 if forward else 1]
            continue
        mine = piece.forward if forward else piece.backward
        for array, inside in zip(mine, found):
            array[:, m, :m] = inside
        mine[1][:, :m, m], mine[1][:, m, m] = found[1], found[2]
        exit = -1 if forward else 0
        p, s, own = found[0][exit], found[1][exit], found[2][exit]
        done.append(piece)
    return done if forward else done[::-1], p, s


def series_outputs(task: Task, optimizer: SGD, train_embedding_readout: bool = False, terms: int = TERMS) -> np.ndarray:
    """f of squared loss at alpha = gamma = 1/2, frozen or trained ends: (steps,) decimals."""
    with localcontext() as context:
        context.prec = DIGITS
        rho, w = (decimals(a) for a in optimizer.memory(task.steps))
        xi, y = decimals(task.inputs.reshape(task.steps, -1)), decimals(task.targets.ravel())
        rr, gram = np.outer(rho, rho), xi @ xi.T
        ends_rr, ends_w = (rr, w) if train_embedding_readout else (0 * rr + 1, 0 * w)
        nothing = [decimals(np.zeros((terms, task.steps, task.steps))) for _ in range(4)]
        pieces = [Piece(Decimal(1), (nothing[0], nothing[1]), (nothing[2], nothing[3]))]
        P, S = (decimals(np.zeros((task.steps, task.steps))) for _ in range(2))  # at the read-out
        chi = decimals(np.zeros(task.steps))
        outputs: list[Any] = []
        for step in range(task.steps):
            past, now = slice(0, step), slice(0, step + 1)
            pieces, p, s = sweep(pieces, (-ends_w * gram)[step, past], (ends_rr * gram)[step, past],
                                 (ends_rr * gram)[step, step], rr[now, now], w[now, now], True)
            P[step, past], S[step, past], S[past, step], S[step, step] = p, s, s, pieces[-1].forward[1][-1, step, step]
            q, r = ((-ends_w * np.outer(chi, chi))[now, now], (ends_rr * np.outer(chi, chi))[now, now])
            G = inverses(P[now, now] @ q)
            c = G @ (S[now, now] + P[now, now] @ r @ P[now, now].T) @ G.T
            row_weights = (ends_rr[step, now] * (G @ P[now, now])[step] - ends_w[step, now] * c[step])[past]
            outputs.append(Decimal(row_weights @ chi[past]) if step else Decimal(0))
            if step == task.steps - 1:
                break
            chi[step] = outputs[-1] - y[step]
            reflected = chi[step] * chi[:step]
            pieces, _, _ = sweep(pieces, -ends_w[step, past] * reflected, ends_rr[step, past] * reflected,
                                 ends_rr[step, step] * chi[step]**2, rr[now, now], w[now, now], False)
        return np.array(outputs, dtype=object)
