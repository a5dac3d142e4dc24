"""Linear residual networks in plain NumPy, layer by layer, on streams of fresh samples."""

from __future__ import annotations

import numpy as np


def descend(depth: int, teacher: np.ndarray, noise: float, rates: np.ndarray, batch_size: int, seeds: int,
            rng: np.random.Generator) -> np.ndarray:
    """The weights of inputs at the end, (seeds, d), of layers 1 + A / depth on the span of d inputs and a readout.

    Embedding and readout are orthonormal and initial matrices 0: all that infinite width and alpha > 1/2 leave.
    """
    d = len(teacher)
    layers = np.tile(np.eye(d + 1), (seeds, depth, 1, 1))
    for rate in rates:
        x = rng.normal(size=(seeds, batch_size, d))
        y = x @ teacher + noise * rng.normal(size=(seeds, batch_size))
        streams = [np.concatenate([x, np.zeros((seeds, batch_size, 1))], axis=2)]
        for l in range(depth):
            streams.append(streams[-1] @ layers[:, l].transpose(0, 2, 1))
        chi = streams[-1][:, :, -1] - y
        delta = np.zeros((seeds, 1, d + 1))
        delta[:, :, -1] = 1.0
        for l in reversed(range(depth)):
            below = delta @ layers[:, l]
            inputs = np.einsum("sb,sbi->si", chi, streams[l]) / batch_size
            layers[:, l] -= rate / depth * delta.transpose(0, 2, 1) * inputs[:, None, :]
            delta = below
    product = layers[:, 0]
    for l in range(1, depth):
        product = layers[:, l] @ product
    return product[:, d, :d]


def flow(depth: int, width: int, alpha: float, covariance: np.ndarray, teacher: np.ndarray, rate: float, steps: int,
         decay: float = 0.0, initial: float = 1.0, seed: int = 0) -> np.ndarray:
    """The weights of inputs after gradient descent on the mean loss over all samples, gamma = 1 - alpha.

    Embedding and readout are orthogonal exactly, as they are at infinite width; entries of initial matrices are
    N(0, initial^2 / width).
    """
    d, rng = len(teacher), np.random.default_rng(seed)
    frame = np.linalg.qr(rng.normal(size=(width, d + 1)))[0] * np.sqrt(width)
    embedding, readout = frame[:, :d], frame[:, d]
    matrices = initial * rng.normal(size=(depth, width, width)) / np.sqrt(width)
    eps, size = depth**-alpha, depth ** (alpha - 1)
    weights = np.zeros(d)
    for step in range(steps + 1):
        streams = [embedding]
        for l in range(depth):
            streams.append(streams[-1] + eps * matrices[l] @ streams[-1])
        weights = readout @ streams[-1] / width
        if step == steps:
            break
        along, delta = covariance @ (weights - teacher), readout
        for l in reversed(range(depth)):
            below = delta + eps * matrices[l].T @ delta
            matrices[l] -= rate * (size * np.outer(delta, streams[l] @ along) / width + decay * matrices[l])
            delta = below
    return weights
