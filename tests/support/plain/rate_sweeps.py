"""Plain linear networks trained at several rates from the same starts, and where their mean loss is least."""

from __future__ import annotations

from typing import Any

import numpy as np

import tpcalc as tp

SHIFTS = np.linspace(-0.15, 0.15, 5)  # of the logarithm of the rate


def plain_losses(seed: int, width: int, depth: int, scale: tp.DepthScaling, data: Any, rates: np.ndarray, trained: bool
                 ) -> list[float]:
    """Losses of the last step of one linear network, at every rate from the same start, matrices by their products."""
    rng, (inputs, targets) = np.random.default_rng([seed, width]), data
    first, last = rng.standard_normal((2, width))
    start = rng.standard_normal((depth, width, width)) / np.sqrt(width)
    eps, g, batch = depth**-float(scale.alpha), depth**-float(scale.gamma), inputs.shape[1]
    found = []
    for rate in rates:
        u, v, moves = first.copy(), last.copy(), [list[tuple[np.ndarray, np.ndarray]]() for _ in range(depth)]
        for xi, y in zip(inputs, targets):
            stream = [np.outer(u, xi)]
            for l in range(depth):
                x = stream[-1]
                stream.append(x + eps * (start[l] @ x - sum(d @ (z.T @ x) for d, z in moves[l])))
            f = v @ stream[-1] / width
            back, added = np.outer(v, f - y), []
            for l in reversed(range(depth)):
                added.append((l, back * rate * g / width / batch, stream[l]))
                back = back + eps * (start[l].T @ back - sum(z @ (d.T @ back) for d, z in moves[l]))
            for l, d, z in added:
                moves[l].append((d, z))
            if trained:
                u, v = u - rate * back @ xi / batch, v - rate * stream[-1] @ (f - y) / batch
        found.append(float(np.mean((f - y) ** 2) / 2))
    return found


def least(data: Any, scale: tp.DepthScaling, depth: int, width: int, rate: float, seeds: int, trained: bool
          ) -> tuple[float, float]:
    """How far in its logarithm the best rate of networks is from ``rate``, and the standard error of that."""
    return least_of(np.array([plain_losses(seed, width, depth, scale, data, rate * np.exp(SHIFTS), trained)
                              for seed in range(seeds)]))


def least_of(losses: np.ndarray) -> tuple[float, float]:
    """Where the mean of losses (networks, shifts) is least, and the standard error of that, by leaving out a twentieth
    of the networks after the other."""
    def minimum(curve: np.ndarray) -> float:
        roots = np.polynomial.Polynomial.fit(SHIFTS, curve, 3).deriv().roots()
        return float(min(roots.real, key=abs))

    parts = [minimum(np.delete(losses, np.arange(k, len(losses), 20), axis=0).mean(axis=0)) for k in range(20)]
    return minimum(losses.mean(axis=0)), float(np.std(parts) * np.sqrt(19))
