"""Outputs of many real residual networks with blocks W2 phi(W1 x), trained at once by SGD on one input a step: nothing
of tpcalc but its data."""

from __future__ import annotations

from typing import Callable

import numpy as np

import tpcalc as tp

Entrywise = Callable[[np.ndarray], np.ndarray]


def outputs(task: tp.Task, optimizer: tp.SGD, scale: tp.DepthScaling, depth: int, phi: Entrywise, slope: Entrywise,
            weights: dict[str, np.ndarray]) -> np.ndarray:
    """Shape (networks, steps). weights: U, V (networks, n), first and second (L, networks, n, n)."""
    eps, g = scale.multiplier(depth), scale.update_factor(depth)
    rho, w = optimizer.memory(task.steps)
    U, V, first, second = (weights[name] for name in ("U", "V", "first", "second"))
    xs, hs, zs, es, deltas, found = [], [], [], [], [], []

    def mean(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.mean(a * b, axis=1, keepdims=True)

    def product(matrix: np.ndarray, v: np.ndarray, t: int, pairs: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """W_t v, W_t = rho_t W_0 - g sum_s w_ts left_s right_s^T / n."""
        moved = sum((w[t, s] * mean(right, v) * left for s, (left, right) in enumerate(pairs)), np.zeros_like(v))
        return rho[t] * np.matmul(matrix, v[:, :, None].astype(matrix.dtype))[:, :, 0] - g * moved

    for t in range(task.steps):
        x, h, z = [float(task.inputs[t, 0, 0]) * U], [], []
        for l in range(depth):
            h.append(product(first[l], x[-1], t, [(es[s][l], xs[s][l]) for s in range(t)]))
            z.append(phi(h[-1]))
            x.append(x[-1] + eps * product(second[l], z[-1], t, [(deltas[s][l + 1], zs[s][l]) for s in range(t)]))
        f = mean(x[-1], V)
        delta, e = [task.loss.derivative(f, task.targets[t]) * V], []
        for l in reversed(range(depth)):
            back = product(second[l].transpose(0, 2, 1), delta[0], t, [(zs[s][l], deltas[s][l + 1]) for s in range(t)])
            e.insert(0, slope(h[l]) * back)
            step = product(first[l].transpose(0, 2, 1), e[0], t, [(xs[s][l], es[s][l]) for s in range(t)])
            delta.insert(0, delta[0] + eps * step)
        for history, value in ((xs, x), (hs, h), (zs, z), (es, e), (deltas, delta), (found, f[:, 0])):
            history.append(value)
    return np.array(found).T


def drawn(depth: int, n: int, networks: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Weights, matrices in single precision, whose round-off is nothing beside what networks differ by."""
    U, V = rng.standard_normal((2, networks, n))
    first, second = rng.standard_normal((2, depth, networks, n, n), dtype=np.float32) / np.float32(np.sqrt(n))
    return {"U": U, "V": V, "first": first, "second": second}
