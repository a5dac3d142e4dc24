"""Particles by a loop written by hand: the tanh network with one sample a step, conditioned in orthonormal bases."""

from __future__ import annotations

from typing import Any

import numpy as np


def tanh_particles(xi: np.ndarray, y: np.ndarray, depth: int, samples: int, seed: int, batches: int, rate: float
                   ) -> np.ndarray:
    """Outputs of x + eps (tanh(W x) - mean), eps = g = depth^-1/2, trained by SGD: shape (batches, steps)."""
    return np.array([_Batch(len(xi), depth, samples, np.random.default_rng([seed, b])).outputs(xi, y, rate)
                     for b in range(batches)])


def _split(held: np.ndarray, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    first = held @ vector / len(vector)
    rest = vector - first @ held
    second = held @ rest / len(vector)
    return first + second, rest - second @ held


class _Batch:
    def __init__(self, steps: int, depth: int, samples: int, rng: np.random.Generator) -> None:
        self.rng, self.samples, self.eps = rng, samples, depth**-0.5
        self.start = np.ones((1, samples))
        self.U = self._draw(self.start)
        self.start = np.vstack([self.start, self.U])
        self.V = self._draw(self.start)
        self.start = np.vstack([self.start, self.V])

        def side() -> dict[str, Any]:
            room = np.empty((steps, samples))
            return dict(basis=room, images=room.copy(), shunned=np.vstack([self.start, room]), count=0)

        self.sides = [(side(), side()) for _ in range(depth)]

    def _draw(self, shunned: np.ndarray) -> np.ndarray:
        free = _split(shunned, self.rng.standard_normal(self.samples))[1]
        return free / np.sqrt(free @ free / self.samples)

    def product(self, layer: int, turned: int, vector: np.ndarray) -> np.ndarray:
        own, other = self.sides[layer][turned], self.sides[layer][1 - turned]
        k, q, c = own["count"], other["count"], len(self.start)
        coefficients, rest = _split(own["basis"][:k], vector)
        size = np.sqrt(rest @ rest / self.samples)
        direction = rest / size
        image = (other["images"][:q] @ direction / self.samples) @ other["basis"][:q]
        image += self._draw(other["shunned"][:c + q])
        beyond = _split(own["shunned"][:c + k], direction)[1]
        own["basis"][k], own["images"][k] = direction, image
        own["shunned"][c + k] = beyond / np.sqrt(beyond @ beyond / self.samples)
        own["count"] += 1
        return coefficients @ own["images"][:k] + size * image

    def outputs(self, xi: np.ndarray, y: np.ndarray, rate: float) -> list[float]:
        n, eps, depth = self.samples, self.eps, len(self.sides)
        updates: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in range(depth)]
        found = []
        for t in range(len(xi)):
            x, h = [xi[t] * self.U], []
            for l in range(depth):
                value = self.product(l, 0, x[-1])
                for u, v in updates[l]:
                    value -= eps * (v @ x[-1] / n) * u
                z = np.tanh(value)
                h.append(z)
                x.append(x[-1] + eps * (z - z.mean()))
            found.append(float(self.V @ x[-1] / n))
            delta = (found[-1] - y[t]) * self.V
            for l in reversed(range(depth)):
                dh = (1 - h[l] ** 2) * (delta - delta.mean())
                back = self.product(l, 1, dh)
                for u, v in updates[l]:
                    back -= eps * (u @ dh / n) * v
                updates[l].append((rate * dh, x[l]))
                delta = delta + eps * back
        return found
