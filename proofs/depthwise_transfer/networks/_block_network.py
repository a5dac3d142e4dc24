"""One real network whose blocks have several matrices, trained with its own backward pass, and its letters."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np
import sympy as sp

from tpcalc._types import Value

from ..._letters import Letters
from ._finite_network import TINY
from ._network_numbers import PRODUCTS
from ._network_rules import depth, width

N, L, K, STEPS, MU0, ETA0 = 12, 5, 3, 3, 0.8, 0.5


class Network:
    """Steps of descent on one input each; blocks and nodes from 1, matrices and inner fields from 0, as printed."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.start, self.w = rng.normal(size=(STEPS, N)), rng.normal(size=N)
        self.W = [rng.normal(size=(L, K, N, N))]
        self.Delta, targets = np.zeros(STEPS), rng.normal(size=STEPS)
        self.inner: list[np.ndarray] = []   # (L, K + 1, N): h before the block, then fields behind each matrix
        self.outer: list[np.ndarray] = []
        self.gradients: list[tuple[np.ndarray, np.ndarray]] = []
        for step in range(STEPS):
            W = self.W[-1]
            inner, outer = self.forward(W, self.start[step])
            self.Delta[step] = targets[step] - self.output(outer[-1])
            # N mu0 df/dh, and sqrt L times that of inner fields, by (124)
            g_, gk_ = np.zeros((L + 1, N)), np.zeros((L, K + 1, N))
            g_[L] = self.w * np.cosh(outer[-1])**-2.0
            for block in range(L - 1, -1, -1):
                gk_[block, K] = g_[block + 1]
                for number in range(K - 1, 0, -1):
                    gk_[block, number] = np.cosh(inner[block, number])**-2.0 * (
                        W[block, number].T @ gk_[block, number + 1]) / np.sqrt(N)
                g_[block] = g_[block + 1] + np.cosh(inner[block, 0])**-2.0 * (W[block, 0].T @ gk_[block, 1]) / np.sqrt(
                    N * L)
            self.inner.append(inner)
            self.outer.append(outer)
            self.gradients.append((g_, gk_))
            push = np.einsum("lki,lkj->lkij", gk_[:, 1:], np.tanh(inner[:, :-1])) / np.sqrt(N * L)
            self.W.append(W + ETA0 * MU0 * self.Delta[step] * push)

    @staticmethod
    def forward(W: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inner, outer = np.zeros((L, K + 1, N)), [start]
        for block in range(L):
            inner[block, 0] = outer[-1]
            for number in range(K):
                inner[block, number + 1] = W[block, number] @ np.tanh(inner[block, number]) / np.sqrt(N)
            outer.append(outer[-1] + inner[block, K] / np.sqrt(L))
        return inner, np.array(outer)

    def output(self, end: np.ndarray) -> float:
        return float(self.w @ np.tanh(end)) / (MU0 * N)

    def moved(self, step: int, moved: Mapping[tuple[Any, ...], np.ndarray]) -> Any:
        """The output at a step with something added to h (node), to inner fields (block, number) or to a matrix, by a
        forward pass; names are "h", "hk" and "W"."""
        field = self.start[step] + moved.get(("h", 1), 0)
        for block in range(1, L + 1):
            inner = field
            for number in range(K):
                matrix = self.W[step][block - 1, number] + moved.get(("W", block, number), 0)
                inner = matrix @ np.tanh(inner) / np.sqrt(N) + moved.get(("hk", block, number + 1), 0)
            field = field + inner / np.sqrt(L) + moved.get(("h", block + 1), 0)
        return self.w @ np.tanh(field) / (MU0 * N)

    def slope(self, step: int, of: str, name: str, *where: int) -> np.ndarray:
        """df or dloss in a field or a matrix, by complex steps of every entry."""
        shape = (N, N) if name == "W" else (N,)
        found = np.array([self.moved(step, {(name, *where): 1j * TINY * one})
                          for one in np.eye(int(np.prod(shape))).reshape(-1, *shape)])
        target = self.Delta[step] + self.output(self.outer[step][-1])
        values = found if of == "f" else (target - found)**2 / 2
        return np.asarray(values.imag.reshape(shape) / TINY)

    def by_difference(self, block: int, number: int, neuron: int, step: float = 1e-6) -> float:
        """N mu0 sqrt L df_0 / d(inner field), from outputs of the network with the field moved."""
        found = 0.0
        for sign in (1, -1):
            field = self.inner[0][block, number].copy()
            field[neuron] += sign * step
            for rest in range(number, K):
                field = self.W[0][block, rest] @ np.tanh(field) / np.sqrt(N)
            end = self.outer[0][block] + field / np.sqrt(L)
            for later in range(block + 1, L):
                end = self.forward(np.roll(self.W[0], -later, axis=0), end)[1][1]
            found += sign * self.output(end) / (2 * step)
        return N * MU0 * np.sqrt(L) * found


def letters_of_blocks(net: Network, at: dict[sp.Symbol, Any]) -> Letters:
    """Letters of a network; slopes are those of its forward pass."""
    def field(step: int, block: int, number: int) -> np.ndarray:
        return net.inner[step][block - 1, number]

    def slope(of: str, name: str) -> Value:
        return lambda step, _, *where: net.slope(step, of, name, *where)

    def kernel(a: int, b: int, block: int, number: int) -> float:
        return float(np.tanh(field(a, block, number)) @ np.tanh(field(b, block, number))) / N
    tables: dict[str, Value] = {
        "h": lambda a, node: net.outer[a][node - 1], "hk": field, "Phik": kernel,
        "phi": lambda a, node: np.tanh(net.outer[a][node - 1]), "phik": lambda a, b, m: np.tanh(field(a, b, m)),
        "g": lambda a, node: net.gradients[a][0][node - 1], "gk": lambda a, b, m: net.gradients[a][1][b - 1, m],
        "W": lambda a, b, m: net.W[a][b - 1, m],
        "chik": lambda a, b, m: net.W[0][b - 1, m] @ np.tanh(field(a, b, m)) / np.sqrt(N),
        "xik": lambda a, b, m: net.W[a][b - 1, m].T @ net.gradients[a][1][b - 1, m + 1] / np.sqrt(N),
        "dphi": lambda a, node: np.cosh(net.outer[a][node - 1])**-2.0,
        "dphik": lambda a, b, m: np.cosh(field(a, b, m))**-2.0, r"\Delta": lambda a: net.Delta[a],
        **{f"{of}/{name}": slope(of, name) for of in ("f", "loss") for name in ("h", "hk", "W")}}
    return Letters({**PRODUCTS, **tables}, {depth: L, width: N, sp.Symbol("K", integer=True): K, **at})
