"""Dense networks trained by loops written by hand, batch by batch: what lowered programs must equal, and keep up with.

Draws are those of ``tp.train(method="dense")``: one generator, U, nV and then every family of matrices as one array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tpcalc as tp


def linear(task: tp.Task, opt: tp.SGD, scale: tp.DepthScaling, depth: int, width: int, seed: int = 0,
           train_embedding_readout: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
    """Outputs of the linear network on its batches and probes, before every update."""
    rng, eps, g = np.random.default_rng(seed), scale.multiplier(depth), scale.update_size(depth)
    U, nV = rng.normal(size=(task.d_in, width)), rng.normal(size=(task.d_out, width))
    W = rng.normal(size=(depth, width, width)) / np.sqrt(width)
    buffers: list[Any] = [0.0] * (depth + 2)
    found, probed = [], []

    def forward(xi: np.ndarray) -> list[np.ndarray]:
        x = [xi @ U]
        for matrix in W:
            x.append(x[-1] + eps * (x[-1] @ matrix.T))
        return x

    for t, rate in enumerate(opt.schedule(task.steps)):
        x = forward(task.inputs[t])
        found.append(x[-1] @ nV.T / width)
        if task.probes is not None:
            probed.append(forward(task.probes)[-1] @ nV.T / width)
        chi = task.loss.derivative(found[-1], task.targets[t])
        delta = [chi @ nV]
        for matrix in W[::-1]:
            delta.insert(0, delta[0] + eps * (delta[0] @ matrix))
        for l in range(depth):
            gradient = (g / (task.batch * width)) * (delta[l + 1].T @ x[l])
            W[l], buffers[l] = opt.step(t, rate, W[l], gradient, buffers[l])
        if train_embedding_readout:
            U, buffers[-2] = opt.step(t, rate, U, task.inputs[t].T @ delta[0] / task.batch, buffers[-2])
            nV, buffers[-1] = opt.step(t, rate, nV, chi.T @ x[-1] / task.batch, buffers[-1])
    return np.array(found), np.array(probed) if task.probes is not None else None


def tanh_mlp(task: tp.Task, opt: Any, scale: tp.DepthScaling, depth: int, width: int, seed: int = 0) -> np.ndarray:
    """Outputs of x + eps W2 tanh(W1 x), trained by SGD or Adam in place, with running moments."""
    rng, eps, g = np.random.default_rng(seed), scale.multiplier(depth), scale.update_size(depth)
    n, batch, adam = width, task.batch, isinstance(opt, tp.Adam)
    U, nV = rng.standard_normal((task.d_in, n)), rng.standard_normal((task.d_out, n))
    weights = [rng.standard_normal((depth, n, n)) for _ in (1, 2)]
    for matrices in weights:
        matrices /= np.sqrt(n)
    moments = [[np.zeros((depth, n, n)) for _ in (1, 2)] for _ in (1, 2)] if adam else []
    W1, W2 = weights
    found = []
    for t in range(task.steps):
        x, z = [task.inputs[t] @ U], []
        for l in range(depth):
            z.append(np.tanh(x[-1] @ W1[l].T))
            x.append(x[-1] + eps * (z[-1] @ W2[l].T))
        found.append(x[-1] @ nV.T / n)
        delta = task.loss.derivative(found[-1], task.targets[t]) @ nV
        for l in reversed(range(depth)):
            dh = (1 - z[l] ** 2) * (delta @ W2[l])
            gradients = dh.T @ x[l], delta.T @ z[l]
            delta = delta + eps * (dh @ W1[l])
            for k, gradient in enumerate(gradients):
                if not adam:
                    gradient *= opt.lr * g / (batch * n)
                    weights[k][l] -= gradient
                    continue
                gradient /= batch
                m, v = moments[k][0][l], moments[k][1][l]
                m *= opt.beta1
                m += (1 - opt.beta1) * gradient
                v *= opt.beta2
                v += (1 - opt.beta2) * (gradient * gradient)
                root = np.sqrt(v / (1 - opt.beta2 ** (t + 1)))
                root += opt.eps
                step = m * (opt.lr * g / n / (1 - opt.beta1 ** (t + 1)))
                step /= root
                weights[k][l] -= step
    return np.array(found)
