"""Real networks: dense matrices of finite width, trained as anyone would, seeded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import numpy as np

from .. import _checks
from ..errors import Divergence
from ..parametrizations import DepthScaling
from ..programs import SGD, Task
from ..programs.losses import derivative


@dataclass(frozen=True)
class Dense:
    """A trained network's record.

    outputs: (steps, batch, d_out); probe_outputs: (steps, m, d_out) or None; x, delta: the kept nodes'
    vectors (nodes, steps * batch, n), delta normalised (n times the gradient), or None where not kept;
    fluctuation: the standard deviation of an output at initialisation, |x^L| / n, the scale of what
    distinguishes one seed from another.
    """

    outputs: np.ndarray
    probe_outputs: np.ndarray | None
    x: np.ndarray | None
    delta: np.ndarray | None
    fluctuation: float


def read_dense(task: Task, optimizer: SGD, scale: DepthScaling, depth: int, width: int, seed: int = 0,
               nodes: np.ndarray | None = None, progress: Callable[[int, int], None] | None = None,
               train_ends: bool = False) -> Dense:
    """Train one network of ``width`` n and ``depth`` L in float64; ``nodes``: which l = 0..L to keep.

    Read-in U ~ N(0, 1) and read-out V = nV / n, nV ~ N(0, 1), frozen unless ``train_ends``: then updated by the
    optimizer on mean_i delta_i^0 xi_i^T and mean_i x_i^L chi_i^T. W^l ~ N(0, 1/n), updated by it on
    g sign(eps) mean_i delta_i x_i^T / n. Raises ``MemoryError`` before the work, ``Divergence`` on overflow.
    """
    require_memory(task, optimizer, depth, width, 0 if nodes is None else len(nodes))
    rng = np.random.default_rng(seed)
    eps, g, rates = scale.multiplier(depth), scale.update_factor(depth), optimizer.schedule(task.steps)
    buffers = [np.zeros(())] * depth
    buffer_in, buffer_out = np.zeros(()), np.zeros(())
    U, nV = rng.normal(size=(task.d_in, width)), rng.normal(size=(task.d_out, width))
    W = rng.standard_normal((depth, width, width))
    W /= np.sqrt(width)
    x = np.zeros((depth + 1, task.batch, width))
    delta = np.zeros_like(x)
    outputs = np.zeros_like(task.targets)
    probe_outputs = None if task.probes is None else np.zeros((task.steps, len(task.probes), task.d_out))
    kept = None if nodes is None else np.zeros((2, len(nodes), task.steps * task.batch, width))
    fluctuation = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(task.steps):
            x[0] = task.inputs[t] @ U
            for l in range(depth):
                x[l + 1] = x[l] + eps * (x[l] @ W[l].T)
            outputs[t] = x[-1] @ nV.T / width
            if t == 0:
                fluctuation = float(np.sqrt(np.max(np.sum(x[-1] ** 2, axis=1)))) / width
            if task.probes is not None and probe_outputs is not None:
                y = task.probes @ U
                for l in range(depth):
                    y = y + eps * (y @ W[l].T)
                probe_outputs[t] = y @ nV.T / width
            chi = derivative(task.loss, outputs[t], task.targets[t])
            delta[-1] = chi @ nV
            for l in reversed(range(depth)):
                delta[l] = delta[l + 1] + eps * (delta[l + 1] @ W[l])
            _require_finite(x, delta, t, depth)
            if kept is not None:
                rows = slice(t * task.batch, (t + 1) * task.batch)
                kept[0, :, rows], kept[1, :, rows] = x[nodes], delta[nodes]
            for l in range(depth):
                gradient = (g / (task.batch * width)) * (delta[l + 1].T @ x[l])
                W[l], buffers[l] = optimizer.step(t, rates[t], W[l], gradient, buffers[l])
            if train_ends:
                U, buffer_in = optimizer.step(t, rates[t], U, task.inputs[t].T @ delta[0] / task.batch, buffer_in)
                nV, buffer_out = optimizer.step(t, rates[t], nV, chi.T @ x[-1] / task.batch, buffer_out)
            if progress is not None:
                progress(t + 1, task.steps)
    x_kept, delta_kept = (None, None) if kept is None else (kept[0], kept[1])
    return Dense(outputs, probe_outputs, x_kept, delta_kept, fluctuation)


def require_memory(task: Task, optimizer: SGD, depth: int, width: int, nodes: int) -> None:
    """Raise ``MemoryError`` where matrices, vectors and those of the kept nodes cannot fit."""
    matrices = 2 * depth if optimizer.momentum else depth
    vectors = 2 * task.batch * (depth + 1 + nodes * task.steps)
    _checks.memory(8.0 * width * (matrices * width + vectors), f"a network of width {width} and depth {depth}",
                   "take a smaller width or depth")


def _require_finite(x: np.ndarray, delta: np.ndarray, step: int, depth: int) -> None:
    for name, values in (("forward", x), ("backward", delta[::-1])):
        good = np.isfinite(values).all(axis=(1, 2))
        if not good.all():
            node = int(np.argmin(good))
            layer = node if name == "forward" else depth - node
            raise Divergence(f"training diverges at step {step}, layer {layer} of {depth}, in the {name} pass",
                             step=step, layer=layer)
