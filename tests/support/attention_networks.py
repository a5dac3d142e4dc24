"""Real transformers in plain NumPy: attention with RMSNorm before it, perceptrons where asked, both passes by hand.

Streams are (sequences, positions, n). Backward signals have entries of order one, branch multipliers kept out of them;
updates are their outer products with what matrices multiply, over n.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

Weights = dict[str, np.ndarray]


def normed(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    size = np.sqrt(np.mean(x**2, axis=-1, keepdims=True))
    return x / size, size


def through_norm(back: np.ndarray, unit: np.ndarray, size: np.ndarray) -> np.ndarray:
    return (back - unit * np.mean(unit * back, axis=-1, keepdims=True)) / size


def outer(signal: np.ndarray, received: np.ndarray) -> np.ndarray:
    """(n, n), summed over sequences and positions."""
    return np.einsum("gia,gib->ab", signal, received, optimize=True)


@dataclass
class RealTransformer:
    """L layers x + eps attention(x), then x + eps W2 tanh(W1 x / |x|) where ``mlp``; eps = L^-1/2."""

    width: int
    depth: int
    d_in: int
    head_dim: int
    causal: bool
    power: float
    mlp: bool
    rng: np.random.Generator
    layers: list[Weights] = field(default_factory=list)

    def __post_init__(self) -> None:
        n, names = self.width, ("q", "k", "v", "o") + (("W1", "W2") if self.mlp else ())
        self.read_in, self.read_out = self.rng.normal(size=(n, self.d_in)), self.rng.normal(size=n)
        self.layers = [{name: self.rng.normal(size=(n, n)) / np.sqrt(n) for name in names} for _ in range(self.depth)]

    def heads(self, x: np.ndarray) -> np.ndarray:
        """(G, S, n) -> (G, heads, S, d)"""
        return x.reshape(*x.shape[:2], -1, self.head_dim).swapaxes(1, 2)

    def flat(self, x: np.ndarray) -> np.ndarray:
        return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)

    def attention(self, w: Weights, x: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        unit, size = normed(x)
        Q, K, V = (self.heads(unit @ w[name].T) for name in "qkv")
        logits = Q @ K.swapaxes(2, 3) / self.head_dim**self.power
        if self.causal:
            logits = np.where(np.tril(np.ones(logits.shape[2:], dtype=bool)), logits, -np.inf)
        A = np.exp(logits - logits.max(-1, keepdims=True))
        A /= A.sum(-1, keepdims=True)
        z = self.flat(A @ V)
        return z @ w["o"].T, (unit, size, Q, K, V, A, z)

    def attention_back(self, w: Weights, kept: tuple[np.ndarray, ...], signal: np.ndarray, found: Weights
                       ) -> np.ndarray:
        unit, size, Q, K, V, A, z = kept
        on_z = self.heads(signal @ w["o"])
        on_A = on_z @ V.swapaxes(2, 3)
        on_u = A * (on_A - np.sum(A * on_A, axis=-1, keepdims=True)) / self.head_dim**self.power
        signals = {"q": self.flat(on_u @ K), "k": self.flat(on_u.swapaxes(2, 3) @ Q),
                   "v": self.flat(A.swapaxes(2, 3) @ on_z)}
        found["o"] = outer(signal, z)
        found.update({name: outer(one, unit) for name, one in signals.items()})
        return through_norm(np.sum([one @ w[name] for name, one in signals.items()], axis=0), unit, size)

    def forward(self, inputs: np.ndarray) -> list[tuple[np.ndarray, ...]]:
        """What is kept of every layer; the last entry is the stream at the end."""
        x, kept, eps = inputs @ self.read_in.T, [], self.depth**-0.5
        for w in self.layers:
            added, mine = self.attention(w, x)
            x = x + eps * added
            if self.mlp:
                unit, size = normed(x)
                hidden = np.tanh(unit @ w["W1"].T)
                x = x + eps * hidden @ w["W2"].T
                mine = (*mine, unit, size, hidden)
            kept.append(mine)
        return [*kept, (x,)]

    def backward(self, kept: list[tuple[np.ndarray, ...]], signal: np.ndarray) -> list[Weights]:
        """Outer products of every matrix, from signals (G, S, n) that arrive at the end."""
        found: list[Weights] = [{} for _ in self.layers]
        eps = self.depth**-0.5
        for w, mine, one in zip(self.layers[::-1], kept[-2::-1], found[::-1]):
            if self.mlp:
                *mine, unit, size, hidden = mine
                inner = (signal @ w["W2"]) * (1 - hidden**2)
                one["W2"], one["W1"] = outer(signal, hidden), outer(inner, unit)
                signal = signal + eps * through_norm(inner @ w["W1"], unit, size)
            signal = signal + eps * self.attention_back(w, tuple(mine), signal, one)
        return found

    def kernels(self, inputs: np.ndarray) -> tuple[np.ndarray, Weights]:
        """<x|x> at the end, and tangent kernels by matrix, (G S, G S)."""
        kept = self.forward(inputs)
        rows = kept[-1][0].reshape(-1, self.width)
        gradients = []
        for row in range(len(rows)):
            signal = np.zeros(rows.shape)
            signal[row] = self.read_out
            gradients.append(self.backward(kept, signal.reshape(kept[-1][0].shape)))
        tangents = {name: np.mean([[[np.vdot(a[name], b[name]) for b in there] for a in there] for there in zip(
            *gradients)], axis=0) / self.width**2 for name in self.layers[0]}
        return rows @ rows.T / self.width, tangents

    def train(self, inputs: np.ndarray, targets: np.ndarray, lr: float = 1.0, decay: float = 0.0) -> np.ndarray:
        """Outputs (steps, batch, positions) before every update, of a loss summed over positions, a mean over batches.

        decay: initial matrices and updates shrink by 1 - lr decay a step.
        """
        outputs = []
        for x, y in zip(inputs, targets):
            kept = self.forward(x)
            f = kept[-1][0] @ self.read_out / self.width
            outputs.append(f)
            updates = self.backward(kept, (f - y)[..., None] * self.read_out)
            for w, update in zip(self.layers, updates):
                for name, change in update.items():
                    w[name] = (1 - lr * decay) * w[name] - lr * self.depth**-0.5 * change / (self.width * len(x))
        return np.array(outputs)
