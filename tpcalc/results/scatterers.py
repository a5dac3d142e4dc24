"""A piece of the network between two nodes as a scatterer: what enters from both sides, and what comes out.

For nodes m <= l the increments of both signals are linear in what enters, x^m and delta^l, and in noise:

    x^l - x^m = U x^m + P delta^l + (noise),        delta^m - delta^l = Q x^m + V delta^l + (noise).

Increments are kept, not the signals: small pieces then have small numbers, and what two places differ by is
never found as a difference. Pieces side by side compose by Redheffer's star product. The noises of a piece are
correlated with each other, and independent of all that lies outside of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..propagators.covariances import inverse


@dataclass(frozen=True)
class Scatterer:
    """response: (..., 2N, 2N), blocks [[U, P], [Q, V]]; noise: (..., 2N, 2N), the covariance of the two noises."""

    response: np.ndarray
    noise: np.ndarray

    def __getitem__(self, index: int | slice) -> Scatterer:
        """The pieces of a stack that ``index`` selects."""
        return Scatterer(self.response[index], self.noise[index])


def nothing(rows: int) -> Scatterer:
    """A piece of length 0."""
    return Scatterer(np.zeros((2 * rows, 2 * rows)), np.zeros((2 * rows, 2 * rows)))


def layer(a: np.ndarray, b: np.ndarray, forward: np.ndarray, backward: np.ndarray) -> Scatterer:
    """One layer, or a stack: x' = x + a delta' + noise, delta = delta' + b x + noise, all (..., N, N).

    forward, backward: the covariances of the two noises, which are independent within a layer.
    """
    zero = np.zeros_like(a)
    return Scatterer(np.block([[zero, a], [b, zero]]), np.block([[forward, zero], [zero, backward]]))


def star(left: Scatterer, right: Scatterer) -> Scatterer:
    """Two pieces side by side, m..k and k..l, or two stacks of them.

    Signals are written over x^m, delta^l, the noises of the left piece and those of the right one.
    """
    n = left.response.shape[-1] // 2
    ua, pa, qa, va = _blocks(left.response, n)
    ub, pb, qb, vb = _blocks(right.response, n)
    zero = np.zeros_like(ua)
    one = zero + np.eye(n)
    # x^k - x^m = U x^m + P delta^k + noise, where delta^k = delta^l + Q' x^k + V' delta^l + noise' answers x^k
    x = inverse(pa, qb) @ _row(ua + pa @ qb, pa + pa @ vb, one, zero, zero, pa)
    delta = qb @ x + _row(qb, vb, zero, zero, zero, one)
    x = x + ub @ x + _row(ub, pb, zero, zero, one, zero)
    delta = delta + va @ delta + _row(qa, va, zero, one, zero, zero)
    both = np.concatenate([x, delta], axis=-2)
    response, on_left, on_right = both[..., :2 * n], both[..., 2 * n:4 * n], both[..., 4 * n:]
    return Scatterer(response, on_left @ left.noise @ _t(on_left) + on_right @ right.noise @ _t(on_right))


class Signals(NamedTuple):
    """The signals at the two ends of a piece within its network, over independent sources.

    start, end, change: (2N, 4N), rows x_a (a < N) and delta_a (N + a) at m, at l, and what they differ by, found
    without subtraction; sources: (4N, 4N), their covariance.
    """

    start: np.ndarray
    end: np.ndarray
    change: np.ndarray
    sources: np.ndarray


def close(piece: Scatterer, p: np.ndarray, s: np.ndarray, q: np.ndarray, r: np.ndarray) -> Signals:
    """Put a piece in its network: x^m = P delta^m + x_left on its left, delta^l = Q x^l + delta_right on its right.

    p, s at node m and q, r at node l: (N, N); s, r the covariances of x_left and delta_right.
    """
    n = len(p)
    one, zero = np.eye(2 * n), np.zeros((n, n))
    outside = np.block([[zero, p], [q, zero]])  # on (x^l, delta^m), gives what they send back, (x^m, delta^l)
    # entering = outside (entering + increments) + (x_left, delta_right), increments = response entering + noise
    entering = inverse(outside, one + piece.response) @ np.concatenate([one, outside], axis=1)
    increments = piece.response @ entering
    increments[:, 2 * n:] += one
    leaving = entering + increments
    start, end = np.concatenate([entering[:n], leaving[n:]]), np.concatenate([leaving[:n], entering[n:]])
    change = np.concatenate([increments[:n], -increments[n:]])
    sources = np.zeros((4 * n, 4 * n))
    sources[:n, :n], sources[n:2 * n, n:2 * n], sources[2 * n:, 2 * n:] = s, r, piece.noise
    return Signals(start, end, change, sources)


def _blocks(a: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return a[..., :n, :n], a[..., :n, n:], a[..., n:, :n], a[..., n:, n:]


def _row(*blocks: np.ndarray) -> np.ndarray:
    return np.concatenate(blocks, axis=-1)


def _t(a: np.ndarray) -> np.ndarray:
    return np.swapaxes(a, -1, -2)
