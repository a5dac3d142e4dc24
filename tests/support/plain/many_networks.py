"""Outputs of many real linear residual networks, trained at once, in a few lines: nothing of tpcalc but its data."""

from __future__ import annotations

import numpy as np

import tpcalc as tp


def outputs(task: tp.Task, optimizer: tp.SGD, eps: float, g: float, depth: int, width: int, networks: int, seed: int,
            train_embedding_readout: bool = False, together: int = 256) -> np.ndarray:
    """Shape (networks, steps * batch * d_out), of networks with independent initial weights."""
    rng = np.random.default_rng(seed)
    sizes = [min(together, networks - first) for first in range(0, networks, together)]
    return np.concatenate([_together(task, optimizer, eps, g, depth, width, size, rng,
                                     train_embedding_readout) for size in sizes])


def _together(task: tp.Task, optimizer: tp.SGD, eps: float, g: float, depth: int, n: int, networks: int,
              rng: np.random.Generator, train_embedding_readout: bool) -> np.ndarray:
    """Weights are W_t = rho_t W_0 - sum w_ts gradient_s, so that W_0 is never changed and updates are vectors."""
    rho, w = optimizer.memory(task.steps)
    w = w / task.batch
    U, V = rng.normal(size=(networks, task.d_in, n)), rng.normal(size=(networks, task.d_out, n))
    W = rng.standard_normal((depth, networks, n, n)) / np.sqrt(n)
    xs, deltas, chis, found = [], [], [], []
    for t in range(task.steps):
        xi = task.inputs[t]
        decay = rho[t] if train_embedding_readout else 1.0
        x = [decay * xi @ U]
        v = decay * V
        for s in range(t if train_embedding_readout else 0):
            x[0] = x[0] - w[t, s] * xi @ task.inputs[s].T @ deltas[s][0]
            v = v - w[t, s] * chis[s].transpose(0, 2, 1) @ xs[s][-1]
        for l in range(depth):
            step = rho[t] * x[-1] @ W[l].transpose(0, 2, 1)
            for s in range(t):
                step -= g * w[t, s] / n * (x[-1] @ xs[s][l].transpose(0, 2, 1)) @ deltas[s][l + 1]
            x.append(x[-1] + eps * step)
        f = x[-1] @ v.transpose(0, 2, 1) / n
        chi = task.loss.derivative(f, task.targets[t])
        delta = [chi @ v]
        for l in reversed(range(depth)):
            step = rho[t] * delta[0] @ W[l]
            for s in range(t):
                step -= g * w[t, s] / n * (delta[0] @ deltas[s][l + 1].transpose(0, 2, 1)) @ xs[s][l]
            delta.insert(0, delta[0] + eps * step)
        for history, value in ((xs, x), (deltas, delta), (chis, chi), (found, f.reshape(networks, -1))):
            history.append(value)
    return np.concatenate(found, axis=1)
