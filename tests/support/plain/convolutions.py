"""Convolutions as anyone would write them, and one real residual convolutional network under training: its fields, and
what its initial matrices make of them. Nothing of tpcalc."""

from __future__ import annotations

import numpy as np


def padded(x: np.ndarray, grid: tuple, kernel: tuple, padding: str) -> np.ndarray:
    """What every entry of a filter reads, (entries, P, n), as anyone would write it: pad, then slide."""
    reach = [(k // 2, k // 2) for k in kernel]
    whole = np.pad(x.reshape(*grid, -1), [*reach, (0, 0)], "wrap" if padding == "circular" else "constant")
    slices = [whole[tuple(slice(s, s + g) for s, g in zip(start, grid))] for start in np.ndindex(*kernel)]
    return np.array(slices).reshape(len(slices), len(x), -1)


def back_to(seen: np.ndarray, grid: tuple, kernel: tuple, padding: str) -> np.ndarray:
    """The adjoint of ``padded``, one position after the other."""
    found = np.zeros(seen.shape[1:])
    for entry, start in enumerate(np.ndindex(*kernel)):
        for location, at in enumerate(np.ndindex(*grid)):
            there = [a + s - k // 2 for a, s, k in zip(at, start, kernel)]
            if padding == "circular" or all(0 <= one < g for one, g in zip(there, grid)):
                found[np.ravel_multi_index([one % g for one, g in zip(there, grid)], grid)] += seen[entry, location]
    return found


def trained_fields(of: tuple, order: str, U: np.ndarray, nV: np.ndarray, start: np.ndarray, inputs: np.ndarray,
                   targets: np.ndarray, eps: float, rate: float) -> dict[str, np.ndarray]:
    """Descent on the loss of all positions, mean over sequences, with tanh before the matrices ("pre") or behind.

    of: grid, kernel, padding; U, nV: (n,); start: (entries, L, n, n); inputs, targets: (T, B, P); eps: of branches;
    rate: of the matrices. Gives f (T, B, P); h, d (nodes, T, B, P, n), d the gradient of the loss times n; by entry of
    the filter, (entries, L, T, B, P, n): z what a matrix reads, g the gradient in what it gives over eps, chi = W_0 z
    and xi = W_0^T g, given = W z.
    """
    W, pre = start.copy(), order == "pre"
    (steps, batch, P), (count, depth, n, _) = inputs.shape, start.shape
    one, two = np.zeros((depth + 1, steps, batch, P, n)), np.zeros((count, depth, steps, batch, P, n))
    found = {"f": np.zeros(inputs.shape), "h": one, "d": one.copy(),
             **{name: two.copy() for name in ("z", "g", "chi", "xi", "given")}}
    for t in range(steps):
        moves = np.zeros_like(W)
        for i in range(batch):
            x = np.outer(inputs[t, i], U)
            found["h"][0, t, i] = x
            for k in range(depth):
                z = padded(np.tanh(x) if pre else x, *of)
                given = np.einsum("oij,opj->opi", W[:, k], z)
                found["z"][:, k, t, i], found["given"][:, k, t, i] = z, given
                after = np.tanh(given.sum(axis=0))
                x = x + eps * (given.sum(axis=0) if pre else after - after.mean(axis=1, keepdims=True))
                found["h"][k + 1, t, i] = x
            found["f"][t, i] = x @ nV / n
            d = np.outer(found["f"][t, i] - targets[t, i], nV)
            found["d"][depth, t, i] = d
            for k in reversed(range(depth)):
                given = found["given"][:, k, t, i].sum(axis=0)
                g = d if pre else (d - d.mean(axis=1, keepdims=True)) / np.cosh(given)**2
                found["g"][:, k, t, i] = g
                moves[:, k] += np.einsum("pi,opj->oij", g, found["z"][:, k, t, i]) / n / batch
                back = back_to(np.einsum("oij,pi->opj", W[:, k], g), *of)
                d = d + eps * (back / np.cosh(found["h"][k, t, i])**2 if pre else back)
                found["d"][k, t, i] = d
        W -= rate * moves
    found["chi"] = np.einsum("okij,oktbpj->oktbpi", start, found["z"])
    found["xi"] = np.einsum("okij,oktbpi->oktbpj", start, found["g"])
    return found
