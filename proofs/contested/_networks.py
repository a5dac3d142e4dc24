"""Residual networks in NumPy alone, and one step of them: nothing of the package is in it, so it can contradict."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Callable

import numpy as np

PHI: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]] = {
    "linear": (lambda z: z, np.ones_like), "tanh": (np.tanh, lambda z: 1 - np.tanh(z)**2)}


@dataclass(frozen=True)
class PlainNetwork:
    """x^l = keep x^(l-1) + branch L^-alpha W_K phi(W_(K-1) ... W_1 x^(l-1)), W_k ~ N(0, 1/n), f = nV . x^L / n.

    gammas: K of them; one step up the output at rate 1 moves W_k by L^-gamma d outer z / n, where d is the gradient at
    what W_k makes of z, free of the branch's multiplier and times n. reused: whether the backward pass multiplies with
    the transposes of the forward pass's matrices; if not, with those of matrices drawn for it.
    """

    depth: int
    width: int
    alpha: float = 0.5
    gammas: tuple[float, ...] = (0.5,)
    phi: str = "linear"
    keep: float = 1.0
    branch: float = 1.0
    reused: bool = True
    seed: int = 0

    @cached_property
    def draws(self) -> tuple[np.ndarray, ...]:
        """Read-in, read-out, matrices (L, K, n, n), and those that the backward pass multiplies with."""
        rng, n = np.random.default_rng([self.depth, self.width, self.seed]), self.width
        ends = rng.normal(size=(2, n))
        shape = self.depth, len(self.gammas), n, n
        matrices = rng.normal(size=shape) / np.sqrt(n)
        return *ends, matrices, matrices if self.reused else rng.normal(size=shape) / np.sqrt(n)

    @property
    def multiplier(self) -> float:
        return self.branch * self.depth**-self.alpha

    def forward(self, matrices: np.ndarray) -> tuple[np.ndarray, list[list[np.ndarray]]]:
        """x at all nodes (L + 1, n), and what each matrix of each layer acts on."""
        phi, x = PHI[self.phi][0], self.draws[0]
        nodes, inside = [x], []
        for block in matrices:
            acted, z = [], x
            for k, matrix in enumerate(block):
                acted.append(phi(z) if k == len(block) - 1 else z)
                z = matrix @ acted[-1]
            x = self.keep * x + self.multiplier * z
            nodes.append(x)
            inside.append(acted)
        return np.array(nodes), inside

    @cached_property
    def updates(self) -> np.ndarray:
        """Updates of all matrices, (L, K, n, n), in one step up the output."""
        x, inside = self.forward(self.draws[2])
        slope, d = PHI[self.phi][1], self.draws[1]
        found = np.empty_like(self.draws[2])
        for layer in reversed(range(self.depth)):
            block, back = self.draws[2][layer], d
            for k in reversed(range(len(block))):
                found[layer, k] = self.depth**-self.gammas[k] * np.outer(back, inside[layer][k]) / self.width
                back = self.draws[3][layer, k].T @ back
                if k == len(block) - 1:
                    z = x[layer] if k == 0 else block[k - 1] @ inside[layer][k - 1]
                    back = back * slope(z)
            d = self.keep * d + self.multiplier * back
        return found

    def output(self, matrices: np.ndarray) -> float:
        return float(self.draws[1] @ self.forward(matrices)[0][-1]) / self.width

    @property
    def change(self) -> float:
        """f after the step less f before it."""
        return self.output(self.draws[2] + self.updates) - self.output(self.draws[2])


@lru_cache(maxsize=None)
def mean_change(network: PlainNetwork, seeds: int) -> tuple[float, float]:
    """The mean over seeds and its standard error."""
    given = {name: getattr(network, name) for name in network.__dataclass_fields__}
    found = [PlainNetwork(**{**given, "seed": seed}).change for seed in range(seeds)]
    return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(seeds))
