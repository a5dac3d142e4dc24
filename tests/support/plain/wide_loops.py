"""Wide networks whose layers are visited several times, with a backward pass by hand, and what one update does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import erf

PHIS = {"linear": (lambda h: h, lambda h: np.ones_like(h)), "tanh": (np.tanh, lambda h: 1 - np.tanh(h)**2),
        "relu": (lambda h: np.maximum(h, 0), lambda h: (h > 0) * 1.0),
        "gelu": (lambda h: h * (1 + erf(h / 2**0.5)) / 2,
                 lambda h: (1 + erf(h / 2**0.5)) / 2 + h * np.exp(-h * h / 2) / (2 * np.pi)**0.5)}


@dataclass(frozen=True)
class WideLoop:
    """f = V . x / n of a stream that starts at U and meets ``layers`` layers ``visits`` times each, all multiplied by
    ``branch``: W2 phi(W1 x), behind a norm or not, or phi's matrix alone, W x."""

    phi: str
    norm: bool
    layers: int
    visits: int
    branch: float
    width: int = 256
    row: bool = False
    seed: int = 0

    @property
    def way(self) -> list[int]:
        return [l for l in range(self.layers) for _ in range(self.visits)] if self.row else (
            list(range(self.layers)) * self.visits)

    def weights(self) -> dict[str, np.ndarray]:
        draw, n = np.random.default_rng(self.seed), self.width
        names = ("W2",) if self.phi == "linear" else ("W1", "W2")
        return {"U": draw.standard_normal(n), "V": draw.standard_normal(n),
                **{name: draw.standard_normal((self.layers, n, n)) / n**0.5 for name in names}}

    def forward(self, w: dict[str, np.ndarray]) -> tuple[np.ndarray, list[tuple[np.ndarray, ...]]]:
        """The last stream, and of every visit (x, its size, what W1 acts on, h, what W2 acts on)."""
        x, kept = w["U"], []
        act = PHIS[self.phi][0]
        for l in self.way:
            size = np.sqrt(np.mean(x * x)) if self.norm else np.float64(1)
            y = x / size
            h = w["W1"][l] @ y if "W1" in w else y
            kept.append((x, size, y, h, act(h)))
            x = x + self.branch * (w["W2"][l] @ kept[-1][-1])
        return x, kept

    def gradients(self, w: dict[str, np.ndarray]) -> dict[str, list[tuple[np.ndarray, np.ndarray]]]:
        """df/dW of every layer's matrices, as factors (n, visits): their product with each other, over n."""
        kept, d = self.forward(w)[1], w["V"]
        found: dict[str, list[list[tuple[np.ndarray, np.ndarray]]]] = {
            name: [[] for _ in range(self.layers)] for name in ("W1", "W2") if name in w}
        for l, (x, size, y, h, z) in reversed(list(zip(self.way, kept))):
            found["W2"][l].append((self.branch * d, z))
            dz = self.branch * (w["W2"][l].T @ d) * PHIS[self.phi][1](h)
            if "W1" in w:
                found["W1"][l].append((dz, y))
                dz = w["W1"][l].T @ dz
            d = d + ((dz - y * np.mean(dz * y)) / size if self.norm else dz)
        return {name: [(np.stack([a for a, _ in one], axis=1), np.stack([b for _, b in one], axis=1)) for one in some]
                for name, some in found.items()}

    def updated(self, w: dict[str, np.ndarray], lr: float, optimizer: str) -> dict[str, np.ndarray]:
        """Weights after one step up the gradient of f, at the customary rates in width."""
        new, n = dict(w), self.width
        for name, some in self.gradients(w).items():
            new[name] = w[name] + lr * np.stack([direction(a, b, optimizer, n) for a, b in some])
        return new

    def change(self, lr: float, optimizer: str) -> tuple[float, float]:
        """What one step changes in f, and the root mean square of the stream before it."""
        w = self.weights()
        before, after = self.forward(w)[0], self.forward(self.updated(w, lr, optimizer))[0]
        return float(w["V"] @ (after - before)) / self.width, float(np.sqrt(np.mean(before**2)))


def direction(left: np.ndarray, right: np.ndarray, optimizer: str, n: int) -> np.ndarray:
    """Of a gradient left right^T / n: itself, its signs over n, or its polar factor."""
    if optimizer == "sgd":
        return left @ right.T / n
    if optimizer == "signsgd":
        return np.sign(left @ right.T) / n
    (q, r), (p, s) = np.linalg.qr(left), np.linalg.qr(right)
    u, values, v = np.linalg.svd(r @ s.T)
    some = values > 1e-9 * values[0]
    return (q @ u[:, some]) @ (p @ v[some].T).T
