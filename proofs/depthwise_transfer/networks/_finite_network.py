"""One real network in the source's conventions, trained with its own backward pass; every field is kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Mapping

import numpy as np

N, L, D, STEPS = 16, 3, 2, 3
RNG_SEED = 4
TINY = 1e-30   # of a complex step, whose imaginary part is exact to round-off


@dataclass(frozen=True, eq=False)
class Trained:
    """h: (t, L + 1, N, B), nodes from 1; g: gradients N mu0 df/dh, the same; W: (t, L, N, N); w: (t, N); f: (t, B); x.

    Delta: y - f; V: what blocks are moved by, over eta0 mu0; reads_phi: w phi(h) at the last node, or w h.
    """

    h: np.ndarray
    g: np.ndarray
    W0: np.ndarray
    W: np.ndarray
    w: np.ndarray
    f: np.ndarray
    Delta: np.ndarray
    x: np.ndarray
    eta0: float
    mu0: float
    V: np.ndarray
    reads_phi: bool

    @property
    def phi(self) -> np.ndarray:
        return np.tanh(self.h)

    def kernel(self, of: np.ndarray, t: int, node: int, s: int) -> np.ndarray:
        """(B, B) overlaps of fields at a node, counted from 0."""
        return of[t, node].T @ of[s, node] / N

    def output(self, t: int, moved: Mapping[tuple[str, int], np.ndarray]) -> np.ndarray:
        """f (B,) by a forward pass at the weights of step t; moved: (name, node) -> added to a field or weights.

        Names are "h", of nodes from 1, "W", of blocks from 1, "W0" and "w", of 0.
        """
        def of(name: str, node: int, value: np.ndarray) -> np.ndarray:
            return value + moved.get((name, node), 0)
        h = of("h", 1, of("W0", 0, self.W0[t]) @ self.x / np.sqrt(D))
        for block, matrix in enumerate(self.W[t], 1):
            h = of("h", block + 1, h + of("W", block, matrix) @ np.tanh(h) / np.sqrt(L * N))
        return of("w", 0, self.w[t]) @ (np.tanh(h) if self.reads_phi else h) / (self.mu0 * N)

    @lru_cache(maxsize=64)
    def slope(self, t: int, of: str, name: str, node: int) -> np.ndarray:
        """df or dloss, (B, *shape), in a field that all inputs share or in weights, by complex steps of every entry."""
        shape = {"h": (N, 1), "W": (N, N), "W0": (N, D), "w": (N,)}[name]
        moved = [self.output(t, {(name, node): 1j * TINY * step})
                 for step in np.eye(int(np.prod(shape))).reshape(-1, *shape)]
        found = np.array([f if of == "f" else (self.f[t] + self.Delta[t] - f)**2 / 2 for f in moved]).imag / TINY
        return found.T.reshape(-1, *shape)


def train(readout_of_phi: bool = False, ends: bool = False, beta: float = 0.0, decay: float = 0.0, mu0: float = 0.8,
          eta0: float = 0.5, inputs: int = 2, steps: int = STEPS, rng: np.random.Generator | None = None) -> Trained:
    """Plain descent on |f - y|^2 / 2, mean over B inputs, 1 or 2, or with momentum (133), or decay (138), by steps."""
    rng = np.random.default_rng(RNG_SEED) if rng is None else rng
    x, y = rng.normal(size=(D, 2))[:, :inputs], rng.normal(size=2)[:inputs]
    W0, W, w = rng.normal(size=(N, D)), rng.normal(size=(L, N, N)), rng.normal(size=N)
    fields: dict[str, list[np.ndarray]] = {name: [] for name in ("h", "g", "W0", "W", "w", "f", "Delta", "V")}
    velocity = [np.zeros_like(W0), np.zeros_like(W), np.zeros_like(w)]
    read, slope = (np.tanh, lambda h: np.cosh(h)**-2.0) if readout_of_phi else (lambda h: h, np.ones_like)
    for _ in range(steps):
        h = [W0 @ x / np.sqrt(D)]
        for matrix in W:
            h.append(h[-1] + matrix @ np.tanh(h[-1]) / np.sqrt(L * N))
        f = w @ read(h[-1]) / (mu0 * N)
        g = [w[:, None] * slope(h[-1])]
        for matrix, before in zip(W[::-1], h[-2::-1]):
            g.append(g[-1] + np.cosh(before)**-2.0 * (matrix.T @ g[-1]) / np.sqrt(L * N))
        g = g[::-1]
        for name, value in (("h", h), ("g", g), ("W0", W0), ("W", W), ("w", w), ("f", f), ("Delta", y - f)):
            fields[name].append(np.array(value))
        error = (y - f) / inputs
        # N mu0 times minus the gradient of the loss
        push = [(g[0] * error) @ x.T / np.sqrt(D), np.array([(g[k + 1] * error) @ np.tanh(h[k]).T / np.sqrt(L * N)
                                                            for k in range(L)]), read(h[-1]) @ error]
        velocity = [beta * v + (1 - beta) * p for v, p in zip(velocity, push)]
        fields["V"].append(velocity[1])
        W = (1 - eta0 * decay) * W + eta0 * mu0 * velocity[1]
        if ends:
            W0, w = W0 + eta0 * mu0 * velocity[0], w + eta0 * mu0 * velocity[2]
    found = {name: np.array(values) for name, values in fields.items()}
    return Trained(found["h"], found["g"], found["W0"], found["W"], found["w"], found["f"], found["Delta"], x, eta0,
                   mu0, found["V"], readout_of_phi)
