"""Residual networks as anyone would write them, all places of norms, gains and skips; gradients by complex steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import numpy as np
from scipy.special import erf

Arrays = dict[str, np.ndarray]
STEP = 1e-30  # of a complex step: the derivative is exact to rounding


@dataclass(frozen=True)
class PlainResidual:
    """phi(W1 x) behind W2, and attention of heads of ``head_dim`` before it where that is given.

    norm, norm_position, gains, biases: as in tp.ResNet; norm_scale: by layer, from 1; keep, inject, learned: of the
    skip; hyper: (reads, mixes, writes) in their place.
    """

    eps: float
    phi: str = "tanh"
    head_dim: int | None = None
    norm: str | None = None
    norm_position: str = "pre"
    gains: bool = False
    norm_scale: Callable[[int], float] = lambda layer: 1.0
    keep: float = 1.0
    inject: float = 0.0
    learned: bool = False
    hyper: tuple | None = None
    biases: bool = False

    @property
    def vectors(self) -> list[tuple[str, bool]]:
        """Names of trained vectors of a layer, and whether they multiply the stream without eps."""
        locations = {"pre": "n", "output": "o", "sandwich": "no", "post": "e"}[self.norm_position]
        numbers = [""] if self.head_dim is None else ["1", "2"]
        found = [(f"g{location}{number}",
                  location == "e") for number in numbers for location in locations if self.gains]
        if self.hyper and self.norm_position == "post":
            found = [(f"ge{stream}{number}", True) for number in numbers for stream in ("", "2") if self.gains]
        if self.biases:
            products = ["q", "v", "o"] if self.head_dim else []  # what is added to keys moves nothing
            found += [("b" + name[1:], on_stream) for name, on_stream in found if self.norm == "layer"]
            found += [(f"b{name}", False) for name in (*products, "1", "2")]
        return found + [(f"a{number}", True) for number in numbers if self.learned]

    def normed(self, x: np.ndarray, w: Arrays, layer: int, name: str) -> np.ndarray:
        if self.norm == "layer":
            x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True))
        x = w[name][layer] * x if self.gains else x
        return x + self.bias(w, "b" + name[1:], layer)

    @staticmethod
    def bias(w: Arrays, name: str, layer: int) -> np.ndarray | float:
        return w[name][layer] if name in w else 0.0

    def block(self, x: np.ndarray, w: Arrays, layer: int, number: str) -> np.ndarray:
        if self.norm and self.norm_position in ("pre", "sandwich"):
            x = self.norm_scale(layer + 1) * self.normed(x, w, layer, "gn" + number)
        x = self.attention(x, w, layer) if number == "1" else self.mlp(x, w, layer)
        return self.normed(x, w, layer,
                           "go" + number) if self.norm and self.norm_position in ("output", "sandwich") else x

    def mlp(self, x: np.ndarray, w: Arrays, layer: int) -> np.ndarray:
        h = x @ w["W1"][layer].T + self.bias(w, "b1", layer)
        z = np.tanh(h) if self.phi == "tanh" else h * (1 + erf(h / np.sqrt(2))) / 2
        return z @ w["W2"][layer].T + self.bias(w, "b2", layer)

    def attention(self, x: np.ndarray, w: Arrays, layer: int) -> np.ndarray:
        q, k, v = ((x @ w["W" + name][layer].T + self.bias(w, "b" + name, layer)).reshape(len(x), -1, self.head_dim)
                   for name in "qkv")
        weight = np.exp(np.einsum("phd,mhd->hpm", q, k) / np.sqrt(self.head_dim)) * np.tri(len(x))
        share = weight / weight.sum(axis=2, keepdims=True)
        mixed = np.einsum("hpm,mhd->phd", share, v).reshape(x.shape)
        return mixed @ w["Wo"][layer].T + self.bias(w, "bo", layer)

    def outputs(self, w: Arrays, xi: np.ndarray) -> np.ndarray:
        """(P, d_in) -> (P,), positions that attention mixes, or samples."""
        start = xi @ w["U"].T
        streams = [start, start] if self.hyper else [start]
        for layer in range(len(next(one for name, one in w.items() if name.startswith("W")))):
            for number in [""] if self.head_dim is None else ["1", "2"]:
                if self.hyper:
                    reads, mixes, writes = self.hyper
                    new = self.block(sum(a * x for a, x in zip(reads, streams)), w, layer, number)
                    streams = [sum(a * x for a, x in zip(row, streams)) + b * self.eps * new
                               for row, b in zip(mixes, writes)]
                else:
                    x, = streams
                    kept = w[f"a{number}"][layer] * x if self.learned else x
                    streams = [self.keep * kept + self.eps * self.block(x, w, layer, number) + self.inject * start]
                if self.norm_position == "post":
                    streams = [self.normed(x, w, layer, f"ge{'2' if i else ''}{number}")
                               for i, x in enumerate(streams)]
        return sum(streams) @ w["nV"] / len(w["nV"])

    def trained(self, w: Arrays, inputs: np.ndarray, targets: np.ndarray, rate: float, size: float, decay: float = 0.0,
                ends: bool = False, sign: bool = False) -> np.ndarray:
        """Outputs (steps, batch, P) of descent on the squared error, summed over positions and averaged over the batch.

        size: g; matrices move by g times the gradient over |eps|, vectors on a branch by n times that, vectors that
        multiply the stream by n |eps| g times the gradient, ends by n times it; decay: decoupled; sign: of all that.
        """
        w, n, found = {name: value.copy() for name, value in w.items()}, len(w["U"]), []
        sizes = {**{name: (size, 1 / abs(self.eps)) for name in w if name.startswith("W")},
                 **{name: (size * abs(self.eps), n) if on_stream else (size, n / abs(self.eps))
                    for name, on_stream in self.vectors},
                 **({"U": (1.0, n), "nV": (1.0, n)} if ends else {})}
        for xi, y in zip(inputs, targets):
            found.append([self.outputs(w, one) for one in xi])
            gradients, kept = {name: self.gradient(w, name, xi, y) for name in sizes}, self.kept(w, xi)
            for name, (moves, units) in sizes.items():
                units = (1 / n if name.startswith("W") else 1.0) if sign else units
                direction = np.sign(gradients[name]) if sign else gradients[name]
                w[name] = (1 - rate * decay) * w[name] - rate * moves * units * direction
            w.update(kept)
        return np.array(found)

    def kept(self, w: Arrays, xi: np.ndarray) -> Arrays:
        """What a step on these inputs leaves otherwise than by gradients."""
        return {}

    def gradient(self, w: Arrays, name: str, xi: np.ndarray, y: np.ndarray) -> np.ndarray:
        found = np.zeros_like(w[name])
        for location in np.ndindex(*found.shape):
            moved = w[name].astype(complex)
            moved[location] += 1j * STEP
            errors = [self.outputs({**w, name: moved}, one) - f for one, f in zip(xi, y)]
            found[location] = np.mean([np.sum(e * e) / 2 for e in errors]).imag / STEP
        return found
