"""Kernels of real networks at initialization, by their own forward and backward passes."""

from __future__ import annotations

from typing import Callable

import numpy as np

Entrywise = Callable[[np.ndarray], np.ndarray]


def real_kernels(phi: Entrywise, slope: Entrywise, inputs: np.ndarray, depth: int, width: int,
                 rng: np.random.Generator, norm: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """<h|h'> at the end and the tangent kernel of x + L^(-1/2) W phi(x), or phi(x / |x|_rms), each (inputs, inputs)."""
    stream = rng.standard_normal((width, inputs.shape[1])) @ inputs.T
    weights, streams = [], [stream]
    for _ in range(depth):
        weights.append(rng.standard_normal((width, width)) / np.sqrt(width * depth))
        scale = np.sqrt(np.mean(stream**2, axis=0)) if norm else np.ones(len(inputs))
        stream = stream + weights[-1] @ phi(stream / scale)
        streams.append(stream)
    gradient = np.repeat(rng.standard_normal((width, 1)), len(inputs), axis=1)
    tangent = np.zeros((len(inputs), len(inputs)))
    for matrix, before in zip(weights[::-1], streams[-2::-1]):
        scale = np.sqrt(np.mean(before**2, axis=0)) if norm else np.ones(len(inputs))
        unit = before / scale
        tangent += (gradient.T @ gradient / width) * (phi(unit).T @ phi(unit) / width) / depth
        back = slope(unit) * (matrix.T @ gradient)
        gradient = gradient + (back - norm * unit * np.mean(unit * back, axis=0)) / scale
    return stream.T @ stream / width, tangent
