"""Mixtures of experts as a trainer writes them: shares with the sum 1, routers and W2 of their own sizes at first,
learning rates and units of gradients parameter by parameter; backward passes by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable

import numpy as np

from .residual import PlainResidual

Arrays = dict[str, np.ndarray]
Direction = Callable[[list[np.ndarray]], np.ndarray]  # of all gradients of a parameter so far, in their units


def chosen(logits: np.ndarray, active: int) -> np.ndarray:
    """1 for the largest logits of every row, of equal ones the first, else 0."""
    order = np.argsort(-logits.real, axis=-1, kind="stable")
    found = np.zeros(logits.shape)
    np.put_along_axis(found, order[..., :active], 1.0, axis=-1)
    return found


def gates(logits: np.ndarray, active: int, gate: str, bias: np.ndarray | float = 0.0) -> np.ndarray:
    """Shares of the active experts, or sigmoids; bias: of the choice."""
    mask = chosen(logits + bias, active)
    if gate == "sigmoid":
        return mask / (1 + np.exp(-logits))
    weights = mask * np.exp(logits)
    return weights / weights.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class PlainMoE:
    """x + L^-alpha sum of gate_e W2_e tanh(W1_e z), z = x over its root mean square, gate of R z; f = V x.

    R (L, E, n), W1 (L, E + shared, n, n), W2 of the same shape, U (d_in, n), V (n,). What is called raw is what a
    trainer has: V has entries of order 1/n, and so has R.
    """

    experts: int
    active: int
    gate: str
    init: str
    shared: int
    alpha: float
    gamma: float
    balance: float = 0.0

    @property
    def unit(self) -> float:
        """How much larger a routed W2 is than N(0, 1/n)."""
        over = self.active**0.5 if self.init == "B" else self.active
        return self.active / over if self.gate == "softmax" else 1 / over

    def raw(self, start: Arrays) -> Arrays:
        """A trainer's weights, from those of a program."""
        n, every = start["nV"].shape[-1], range(1, self.experts + self.shared + 1)
        sizes = np.array([self.unit] * self.experts + [1.0] * self.shared)[:, None, None]
        depth = len(start["W1_1"])
        routers = [start.get(f"R_{e}", np.zeros((depth, n))) for e in range(1, self.experts + 1)]
        return {"bias": np.zeros((depth, self.experts)),
                "U": start["U"].reshape(-1, n), "V": start["nV"].ravel() / n, "R": np.stack(routers, axis=1) / n,
                "W1": np.stack([start[f"W1_{e}"] for e in every], axis=1),
                "W2": np.stack([start[f"W2_{e}"] for e in every], axis=1) * sizes}

    def forward(self, w: Arrays, inputs: np.ndarray) -> tuple[np.ndarray, list[dict[str, np.ndarray]]]:
        """Outputs (batch,), and what each layer met."""
        x, met, eps = inputs @ w["U"], [], len(w["W1"]) ** -self.alpha
        for R, W1, W2, bias in zip(w["R"], w["W1"], w["W2"], w["bias"]):
            root = np.sqrt(np.mean(x**2, axis=1, keepdims=True))
            z = x / root
            routed = gates(z @ R.T, self.active, self.gate, bias)
            shares = np.concatenate([routed, np.ones((len(z), self.shared))], axis=1)
            hidden = np.tanh(np.einsum("bi,eji->bej", z, W1))
            out = np.einsum("bej,eij->bei", hidden, W2)
            met.append({"z": z, "root": root, "shares": shares, "hidden": hidden, "out": out})
            x = x + eps * np.einsum("be,bei->bi", shares, out)
        return x @ w["V"], met

    def gradients(self, w: Arrays, met: list[dict[str, np.ndarray]], chi: np.ndarray) -> Arrays:
        """Of the mean over the batch of half squares, in R, W1 and W2; chi: (batch,), output less target."""
        found = {name: np.zeros_like(w[name]) for name in ("R", "W1", "W2")}
        batch, eps, E = len(chi), len(met) ** -self.alpha, self.experts
        dx = np.outer(chi, w["V"]) / batch
        for layer in reversed(range(len(met))):
            z, root, shares, hidden, out = met[layer].values()
            dy = eps * dx
            dout = shares[:, :, None] * dy[:, None, :]
            found["W2"][layer] = np.einsum("bei,bej->eij", dout, hidden)
            dh = np.einsum("bei,eij->bej", dout, w["W2"][layer]) * (1 - hidden**2)
            found["W1"][layer] = np.einsum("bej,bi->eji", dh, z)
            dshare = np.einsum("bi,bei->be", dy, out)[:, :E]
            own = shares[:, :E]
            ds = own * (1 - own) * dshare if self.gate == "sigmoid" else own * (
                dshare - np.sum(own * dshare, axis=1, keepdims=True))
            found["R"][layer] = ds.T @ z
            dz = np.einsum("bej,eji->bi", dh, w["W1"][layer]) + ds @ w["R"][layer]
            dx = dx + (dz - z * np.mean(dz * z, axis=1, keepdims=True)) / root
        return found

    def trained(self, start: Arrays, inputs: np.ndarray, targets: np.ndarray, rate: float, direction: Direction
                ) -> np.ndarray:
        """Outputs (steps, batch), of steps along a direction of gradients in the units in which they are of order 1."""
        w = self.raw(start)
        depth, n = len(w["W1"]), len(w["V"])
        sizes = np.array([self.unit] * self.experts + [1.0] * self.shared)[:, None, None]
        step = rate * depth**-self.gamma / n
        units = {"R": depth**self.alpha, "W1": n * depth**self.alpha, "W2": n * depth**self.alpha * sizes}
        steps = {"R": step, "W1": step, "W2": step * sizes}
        seen: dict[str, list[np.ndarray]] = {name: [] for name in units}
        found = []
        for xi, y in zip(inputs, targets):
            f, met = self.forward(w, xi)
            found.append(f)
            for name, gradient in self.gradients(w, met, f - y).items():
                seen[name].append(units[name] * gradient)
                w[name] = w[name] - steps[name] * direction(seen[name])
            load = np.stack([np.mean(one["shares"][:, :self.experts] > 0, axis=0) for one in met])
            w["bias"] = w["bias"] + self.balance * np.sign(np.round(self.active / self.experts - load, 9))
        return np.array(found)


@dataclass(frozen=True)
class PlainResidualMoE(PlainResidual):
    """``PlainResidual`` with a mixture of experts in the place of its MLP, in the terms of programs: entries of all
    matrices N(0, 1/n), routers of order one; gradients by complex steps."""

    experts: int = 2
    active: int = 2
    gate: str = "softmax"
    scale: float = field(default=1.0)  # of gates as they are

    @property
    def vectors(self) -> list[tuple[str, bool]]:
        return super().vectors + [(f"R_{e}", False) for e in range(1, self.experts + 1)]

    def mlp(self, x: np.ndarray, w: Arrays, layer: int) -> np.ndarray:
        every = range(1, self.experts + 1)
        logits = np.stack([x @ w[f"R_{e}"][layer] / x.shape[-1] for e in every], axis=-1)
        outs = [np.tanh(x @ w[f"W1_{e}"][layer].T) @ w[f"W2_{e}"][layer].T for e in every]
        each = self.scale * gates(logits, self.active, self.gate)
        return sum(each[:, [e]] * out for e, out in enumerate(outs))


@dataclass(frozen=True)
class PlainGroups(PlainResidual):
    """``PlainResidual`` with experts that are groups of ``size`` hidden coordinates, a share of which is active."""

    size: int = 1
    share: float = 1.0
    gated: bool = False
    balance: float = 0.0

    def mlp(self, x: np.ndarray, w: Arrays, layer: int) -> np.ndarray:
        logits = x @ w["Wr"][layer][:: self.size].T
        bias = w["bias"][layer] if "bias" in w else 0.0
        each = gates(logits, round(self.share * logits.shape[1]), "sigmoid", bias)
        w.get("active", []).append((layer, each.real > 0))
        hidden = np.repeat(each, self.size, axis=1) * np.tanh(x @ w["W1"][layer].T)
        if self.gated:
            hidden = hidden * (x @ w["W2"][layer].T)
        return hidden @ w["W3" if self.gated else "W2"][layer].T / self.share**0.5

    def kept(self, w: Arrays, xi: np.ndarray) -> Arrays:
        """Biases after a step on these inputs."""
        if not self.balance:
            return {}
        bias, active = w.get("bias", np.zeros((len(w["W1"]), w["W1"].shape[1] // self.size))), []
        for one in xi:
            self.outputs({**w, "bias": bias, "active": active}, one)
        load = np.stack([np.concatenate([rows for at, rows in active if at == layer]).mean(axis=0)
                         for layer in range(len(bias))])
        return {"bias": bias + self.balance * np.sign(np.round(self.share - load, 9))}
