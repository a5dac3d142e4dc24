"""Many real residual networks of any block of one or two matrices, trained at once by any of five optimizers on whole
matrices, as anyone would write them: nothing of tpcalc but its data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

import tpcalc as tp

Entrywise = Callable[[np.ndarray], np.ndarray]
FUNCTIONS: dict[str, tuple[Entrywise, Entrywise]] = {
    "linear": (lambda h: h, np.ones_like), "tanh": (np.tanh, lambda h: 1 - np.tanh(h)**2),
    "relu": (lambda h: np.maximum(h, 0.0), lambda h: (h > 0).astype(float))}
SMALL = 1e-300


def orthogonal(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """U V^T of left right^T = U S V^T, of (networks, n, batch) each, without directions of singular value 0."""
    (q, r), (p, s) = np.linalg.qr(left), np.linalg.qr(right)
    u, size, v = np.linalg.svd(r @ s.transpose(0, 2, 1))
    kept = (size > 1e-11 * size[:, :1])[:, None, :]
    return np.asarray((q @ (u * kept) @ v) @ p.transpose(0, 2, 1))


class Moved:
    """Matrices (networks, n, n) with what an optimizer remembers of them."""

    def __init__(self, value: np.ndarray) -> None:
        self.value, self.m, self.v, self.steps = value, np.zeros(()), np.zeros(()), 0

    def step(self, opt: Any, g: float, left: np.ndarray, right: np.ndarray, batch: int) -> None:
        """left right^T / batch is the gradient without 1 / n: what is entrywise moves by 1 / n, the rest as a whole."""
        n, rate = self.value.shape[-1], float(np.ravel(opt.lr)[0])
        if isinstance(opt, tp.Muon):
            self.value = self.value - rate * g * orthogonal(left, right)
            return
        gradient = left @ right.transpose(0, 2, 1) / batch
        self.steps += 1
        if isinstance(opt, tp.NormalizedSGD):
            size = np.sqrt(np.sum(gradient**2, axis=(1, 2), keepdims=True))
            self.value = self.value - rate * g * gradient / np.maximum(size, SMALL)
        elif isinstance(opt, tp.SignSGD):
            self.value = self.value - rate * g / n * np.sign(gradient)
        elif isinstance(opt, tp.Adam):
            self.m = opt.beta1 * self.m + (1 - opt.beta1) * gradient
            self.v = opt.beta2 * self.v + (1 - opt.beta2) * gradient**2
            m, v = self.m / (1 - opt.beta1**self.steps), self.v / (1 - opt.beta2**self.steps)
            self.value = self.value - rate * g / n * m / (np.sqrt(v) + max(float(opt.eps), SMALL))
        else:
            self.m = opt.momentum * self.m + g / n * gradient + opt.weight_decay * self.value
            self.value = self.value - rate * self.m


@dataclass(frozen=True)
class ManyTrainings:
    """x + eps B(x) in every layer, embedding and readout frozen: B is W x, phi(W x) without its mean over coordinates,
    W phi(x) or W2 phi(W1 x). zero_readout: outputs of the initial weights are taken away."""

    task: tp.Task
    opt: Any
    block: str
    phi: str
    eps: float
    g: float
    depth: int
    zero_readout: bool = False

    def outputs(self, n: int, networks: int, seed: int, together: int = 64) -> np.ndarray:
        """(networks, steps, batch, d_out)"""
        rng = np.random.default_rng([seed, n])
        sizes = [min(together, networks - first) for first in range(0, networks, together)]
        return np.concatenate([self.of(*self.drawn(n, size, rng)) for size in sizes])

    def drawn(self, n: int, networks: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, list]:
        matrices = 2 if self.block == "mlp" else 1
        U, V = (rng.standard_normal((networks, n, d)) for d in (self.task.d_in, self.task.d_out))
        return U, V, [rng.standard_normal((self.depth, networks, n, n)) / np.sqrt(n) for _ in range(matrices)]

    def centered(self, z: np.ndarray) -> np.ndarray:
        """Without its mean over coordinates, of (networks, n, batch), as functions that are not linear have it."""
        return z if self.phi == "linear" else np.asarray(z - z.mean(axis=1, keepdims=True))

    def forward(self, x: np.ndarray, weights: list) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
        """The last stream, and what every layer met."""
        phi, kept = FUNCTIONS[self.phi][0], []
        for l in range(self.depth):
            first = weights[0][l]
            if self.block == "pre_nonlin":
                kept.append((x, phi(x)))
                x = x + self.eps * first @ phi(x)
            elif self.block == "post_nonlin":
                h = first @ x
                kept.append((x, h))
                x = x + self.eps * self.centered(phi(h))
            else:
                h = first @ x
                kept.append((x, h))
                x = x + self.eps * weights[1][l] @ phi(h)
        return x, kept

    def of(self, U: np.ndarray, V: np.ndarray, weights: list) -> np.ndarray:
        """From initial weights: U (networks, n, d_in), V (networks, n, d_out), each matrix (depth, networks, n, n)."""
        task, (phi, slope), n = self.task, FUNCTIONS[self.phi], U.shape[1]
        Ws, found = [[Moved(one) for one in family] for family in weights], []
        for t in range(task.steps):
            x, kept = self.forward(U @ task.inputs[t].T, [[one.value for one in family] for family in Ws])
            f = x.transpose(0, 2, 1) @ V / n
            if self.zero_readout:
                f = f - self.forward(U @ task.inputs[t].T, weights)[0].transpose(0, 2, 1) @ V / n
            found.append(f)
            delta = V @ task.loss.derivative(f, task.targets[t]).transpose(0, 2, 1)
            moves = []
            for l in reversed(range(self.depth)):
                (x, h), first = kept[l], Ws[0][l].value
                if self.block == "pre_nonlin":
                    moves.append((Ws[0][l], delta, h))
                    delta = delta + self.eps * slope(x) * (first.transpose(0, 2, 1) @ delta)
                    continue
                back = self.centered(delta) if self.block == "post_nonlin" else delta
                if self.block == "mlp":
                    moves.append((Ws[1][l], delta, phi(h)))
                    back = Ws[1][l].value.transpose(0, 2, 1) @ delta
                e = slope(h) * back
                moves.append((Ws[0][l], e, x))
                delta = delta + self.eps * first.transpose(0, 2, 1) @ e
            for weight, left, right in moves:
                weight.step(self.opt, self.g, left, right, task.batch)
        return np.stack(found, axis=1)
