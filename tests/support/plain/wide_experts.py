"""Wide residual networks of experts as a trainer has them, with a backward pass by hand: every vector is sent to the
experts that act on it alone; and what a step of each matrix does."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .experts import Arrays, chosen

PHIS = {"tanh": (np.tanh, lambda h: 1 - np.tanh(h)**2), "relu": (lambda h: np.maximum(h, 0), lambda h: (h > 0) * 1.0)}
NAMES = ("R", "W1", "W2")
Rates = tuple[float, float, float]  # of these


class Met(NamedTuple):
    """What a layer met: its input over its size (B, n), the size (B, 1), who acts (B, E), gates (B, E), by expert the
    rows that it acts on, hidden vectors, activations and outputs of these."""

    z: np.ndarray
    size: np.ndarray
    acts: np.ndarray
    gates: np.ndarray
    rows: list[np.ndarray]
    h: list[np.ndarray]
    out: list[np.ndarray]


@dataclass(frozen=True)
class WideExperts:
    """x += sum of gate_e W2_e phi(W1_e z) over the k largest logits R_e z, of z = x over its root mean square; f = V x.

    Of B vectors a share ``common`` of every square is in one direction that all have, the rest in one of its own, or
    in some of a few ``directions`` that all have; the target is 1 for all. Experts are chosen by logits less their
    means, as balanced ones are. Gates are shares of those that act, or sigmoids. starts: by matrix, what entries
    N(0, 1) are multiplied with.
    """

    n: int
    m: int
    E: int
    k: int
    L: int
    starts: tuple[float, float, float]
    gate: str = "softmax"
    phi: str = "tanh"
    B: int = 256
    common: float = 0.5
    directions: int = 0
    seed: int = 0

    @cached_property
    def inputs(self) -> np.ndarray:
        """Where streams start, (B, n)."""
        draw = np.random.default_rng([1, self.seed])
        shared, own = draw.standard_normal(self.n), draw.standard_normal((self.B, self.directions or self.n))
        if self.directions:
            own = own @ draw.standard_normal((self.directions, self.n)) / self.directions**0.5
        return self.common**0.5 * shared + (1 - self.common)**0.5 * own

    def weights(self) -> Arrays:
        draw = np.random.default_rng([0, self.seed])
        shapes = ((self.E, self.n), (self.E, self.m, self.n), (self.E, self.n, self.m))
        found = {name: start * draw.standard_normal((self.L, *shape))
                 for name, start, shape in zip(NAMES, self.starts, shapes)}
        return {**found, "V": draw.standard_normal(self.n) / self.n}

    def layer(self, x: np.ndarray, R: np.ndarray, W1: np.ndarray, W2: np.ndarray, acts: np.ndarray | None = None
              ) -> tuple[np.ndarray, Met]:
        """The branch (B, n) and what it met; acts: who acts, else the largest logits tell."""
        size = np.sqrt(np.mean(x**2, axis=1, keepdims=True))
        z = x / size
        logits = z @ R.T
        acts = chosen(logits - logits.mean(axis=0), self.k) if acts is None else acts
        weight = acts / (1 + np.exp(-logits)) if self.gate == "sigmoid" else acts * np.exp(logits)
        gates = weight if self.gate == "sigmoid" else weight / weight.sum(axis=1, keepdims=True)
        branch, rows, hs, outs = np.zeros_like(x), [], [], []
        for e in range(self.E):
            row = np.flatnonzero(acts[:, e])
            h = z[row] @ W1[e].T
            out = PHIS[self.phi][0](h) @ W2[e].T
            branch[row] += gates[row, e, None] * out
            rows, hs, outs = [*rows, row], [*hs, h], [*outs, out]
        return branch, Met(z, size, acts, gates, rows, hs, outs)

    def forward(self, w: Arrays, who: list[np.ndarray] | None = None) -> tuple[np.ndarray, list[Met]]:
        """The last stream (B, n), and what layers met; who: acts in each layer."""
        x, met = self.inputs, []
        for l in range(self.L):
            branch, one = self.layer(x, w["R"][l], w["W1"][l], w["W2"][l], None if who is None else who[l])
            x, met = x + branch, [*met, one]
        return x, met

    def gradients(self, w: Arrays, given: tuple[np.ndarray, list[Met]] | None = None) -> Arrays:
        """Of the mean over the batch of half squares."""
        x, met = self.forward(w) if given is None else given
        act, slope = PHIS[self.phi]
        found = {name: np.zeros_like(w[name]) for name in NAMES}
        dx = np.outer(x @ w["V"] - 1, w["V"]) / self.B
        for l in reversed(range(self.L)):
            z, size, acts, gates, rows, hs, outs = met[l]
            dz, dgate = np.zeros_like(z), np.zeros_like(gates)
            for e, (row, h, out) in enumerate(zip(rows, hs, outs)):
                dgate[row, e] = np.sum(dx[row] * out, axis=1)
                dout = gates[row, e, None] * dx[row]
                found["W2"][l, e] = dout.T @ act(h)
                dh = (dout @ w["W2"][l, e]) * slope(h)
                found["W1"][l, e] = dh.T @ z[row]
                dz[row] += dh @ w["W1"][l, e]
            ds = gates * (1 - gates) * dgate if self.gate == "sigmoid" else gates * (
                dgate - np.sum(gates * dgate, axis=1, keepdims=True))
            found["R"][l] = ds.T @ z
            dz += (acts * ds) @ w["R"][l]
            dx = dx + (dz - z * np.mean(dz * z, axis=1, keepdims=True)) / size
        return found

    def stepped(self, w: Arrays, rates: Rates, optimizer: str, seen: list[Arrays] | None = None) -> Arrays:
        """Weights after a step of all; seen: gradients of the steps before, to which this one's are added."""
        seen = [] if seen is None else seen
        seen.append(self.gradients(w))
        return {**w, **{name: w[name] - rate * direction([one[name] for one in seen], optimizer)
                        for name, rate in zip(NAMES, rates)}}

    def changes(self, rates: Rates, optimizer: str, steps: int) -> dict[str, float]:
        """Root mean squares of what the last of some steps changes: of what each matrix makes of the vectors before it,
        layer by layer, of W2 with the gates, and of the last stream, "x", all with the same experts acting; and of all
        branches together before any step, "y"."""
        after, seen = self.weights(), list[Arrays]()
        start = self.forward(after)[0] - self.inputs
        for _ in range(steps):
            w, after = after, self.stepped(after, rates, optimizer, seen)
        x, met = self.forward(w)
        found = {name: 0.0 for name in NAMES}
        for l, one in enumerate(met):
            moved = {name: after[name][l] - w[name][l] for name in NAMES}
            found["R"] += np.mean((one.z @ moved["R"].T)**2) / self.L
            found["W1"] += np.mean([np.mean((one.z[row] @ moved["W1"][e].T)**2)
                                    for e, row in enumerate(one.rows) if len(row)]) / self.L
            found["W2"] += np.mean(self._weighed(one, moved["W2"])**2) / self.L
        changed = self.forward(after, [one.acts for one in met])[0] - x
        return {**{name: value**0.5 for name, value in found.items()}, "x": float(np.mean(changed**2)**0.5),
                "y": float(np.mean(start**2)**0.5)}

    def _weighed(self, one: Met, W2: np.ndarray) -> np.ndarray:
        """What these matrices make of the activations that a layer met."""
        found = np.zeros_like(one.z)
        for e, (row, h) in enumerate(zip(one.rows, one.h)):
            found[row] += one.gates[row, e, None] * (PHIS[self.phi][0](h) @ W2[e].T)
        return found

    def gained_by_routers(self, w: Arrays) -> float:
        """What f gains at first by a step of all routers by signs, of order one in a logit, in units of the error."""
        x, _ = given = self.forward(w)
        return float(np.abs(self.gradients(w, given)["R"]).sum() / np.abs(np.mean(x @ w["V"] - 1)))


def direction(seen: list[np.ndarray], optimizer: str) -> np.ndarray:
    """Of gradients so far: the last one, its signs, the polar factors of its matrices (..., a, b), or Adam's."""
    gradient = seen[-1]
    if optimizer == "sgd":
        return gradient
    if optimizer == "lion":
        return np.sign(gradient)
    if optimizer == "adamw":
        first, second = (sum((1 - beta) * beta**age * one**power for age, one in enumerate(seen[::-1])) / (
            1 - beta**len(seen)) for beta, power in ((0.9, 1), (0.95, 2)))
        return first / np.sqrt(np.where(second > 0, second, 1))
    u, values, v = np.linalg.svd(gradient, full_matrices=False)
    kept = values > 1e-6 * values.max(axis=-1, keepdims=True)
    return (u * kept[..., None, :]) @ v


def numerical_gradient(net: WideExperts, w: Arrays, name: str, at: tuple[int, ...], step: float = 1e-6) -> float:
    """Of the loss in one entry, with the same experts acting."""
    who = [one.acts for one in net.forward(w)[1]]
    losses = []
    for sign in (1, -1):
        moved = w[name].copy()
        moved[at] += sign * step
        x, _ = net.forward({**w, name: moved}, who)
        losses.append(np.mean((x @ w["V"] - 1)**2) / 2)
    return float((losses[0] - losses[1]) / (2 * step))
