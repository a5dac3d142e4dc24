"""Training as anyone would write it: plain loops over dense matrices, with the initial values that a run draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import tpcalc as tp


def drawn(seed: int, name: str, *shape: int) -> np.ndarray:
    """What a run draws for a member: by its name."""
    return np.random.default_rng([seed, *name.encode()]).standard_normal(shape)


class Weight:
    """One array with its optimizer state; ``torch.optim``'s documentation of SGD and AdamW, Lion's
    algorithm 2, or the sign."""

    def __init__(self, value: np.ndarray) -> None:
        self.value, self.m, self.v, self.steps = value, np.zeros_like(value), np.zeros_like(value), 0

    def step(self, opt: Any, rate: float, gradient: np.ndarray, size: float) -> None:
        self.steps += 1
        if isinstance(opt, tp.SignSGD):
            self.value = self.value - rate * size * np.sign(gradient)
        elif isinstance(opt, tp.SGD):
            self.m = opt.momentum * self.m + size * gradient + opt.weight_decay * self.value
            self.value = self.value - rate * self.m
        elif isinstance(opt, tp.Lion):
            self.value = self.value * (1 - rate * opt.weight_decay)
            self.value = self.value - rate * size * np.sign(opt.beta1 * self.m + (1 - opt.beta1) * gradient)
            self.m = opt.beta2 * self.m + (1 - opt.beta2) * gradient
        else:
            self.value = self.value * (1 - rate * opt.weight_decay)
            self.m = opt.beta1 * self.m + (1 - opt.beta1) * gradient
            self.v = opt.beta2 * self.v + (1 - opt.beta2) * gradient**2
            m, v = self.m / (1 - opt.beta1**self.steps), self.v / (1 - opt.beta2**self.steps)
            self.value = self.value - rate * size * m / (np.sqrt(v) + opt.eps)


@dataclass(frozen=True)
class PlainTraining:
    """x + eps W2 tanh(W1 x) in every layer, in width muP: gradients come without 1/n and without eps.

    task: of any dimensions; a dimension of 1 has no index in the names of U and nV. frozen: are the ends? in_order: are
    initial values drawn from one generator, family by family, and not by name?
    """

    task: tp.Task
    opt: Any
    n: int
    depth: int
    eps: float
    g: float
    seed: int
    frozen: bool = False
    in_order: bool = False

    def outputs(self) -> tuple[np.ndarray, np.ndarray]:
        """f of the batch and of the probes, before every update, shapes (steps, batch or probes, d_out)."""
        task, n, depth = self.task, self.n, self.depth
        probes = np.zeros((0, task.d_in)) if task.probes is None else task.probes
        rates = np.broadcast_to(self.opt.lr, task.steps)
        rng = np.random.default_rng(self.seed)
        if self.in_order:
            U, V = Weight(rng.normal(size=(task.d_in, n))), Weight(rng.normal(size=(task.d_out, n)))
            W1, W2 = ([Weight(rng.normal(size=(n, n)) / np.sqrt(n)) for _ in range(depth)] for _ in (1, 2))
        else:
            U, V = self._end("U", task.d_in), self._end("nV", task.d_out)  # rows are inputs, or outputs
            W1, W2 = ([Weight(drawn(self.seed, f"W{m}[0, {l}]", n, n) / np.sqrt(n)) for l in range(1, depth + 1)]
                      for m in (1, 2))
        found = np.zeros((task.steps, task.batch + len(probes), task.d_out))
        for t in range(task.steps):
            x, z = [U.value.T @ np.concatenate([task.inputs[t], probes]).T], []  # columns are samples
            for first, second in zip(W1, W2):
                z.append(np.tanh(first.value @ x[-1]))
                x.append(x[-1] + self.eps * second.value @ z[-1])
            found[t] = x[-1].T @ V.value.T / n
            x, z = ([v[:, :task.batch] for v in vectors] for vectors in (x, z))
            chi = task.loss.derivative(found[t, :task.batch], task.targets[t])
            delta = V.value.T @ chi.T
            moves = [(V, chi.T @ x[-1].T / task.batch, 1.0)]
            for l in reversed(range(depth)):
                dh = (1 - z[l]**2) * (W2[l].value.T @ delta)
                moves += [(W2[l], delta @ z[l].T / task.batch, self.g / n),
                          (W1[l], dh @ x[l].T / task.batch, self.g / n)]
                delta = delta + self.eps * W1[l].value.T @ dh
            moves.append((U, task.inputs[t].T @ delta.T / task.batch, 1.0))
            for weight, gradient, size in moves:
                if not self.frozen or weight not in (U, V):
                    weight.step(self.opt, rates[t], gradient, size)
        return found[:, :task.batch], found[:, task.batch:]

    def _end(self, name: str, dimension: int) -> Weight:
        first = [] if self.frozen else ["0"]
        numbers = [[*first, str(k)] if dimension > 1 else first for k in range(dimension)]
        names = [f"{name}[{', '.join(inside)}]" if inside else name for inside in numbers]
        return Weight(np.array([drawn(self.seed, one, self.n) for one in names]))
