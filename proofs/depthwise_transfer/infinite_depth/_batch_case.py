"""A linear network of infinite depth on two inputs a step: its kernels, and derivatives of its fields, as letters."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

import tpcalc as tp

from ..._letters import Letters
from ._linear_case import TIMES, curve

MU0, ETA0 = 0.7, 0.8
C = MU0 * ETA0
INPUTS = np.array([[[1.0, 0.2], [-0.3, 0.7]], [[0.5, -0.8], [0.6, 0.4]], [[0.2, 0.3], [-0.9, 0.5]]])
TARGETS = np.array([[0.9, -0.7], [0.5, 1.2], [0.3, -0.4]])
STEPS, BATCH = TARGETS.shape


class BatchCase:
    """Letters: h, u of (input, step, place); g, r of (step, place), as gradients are the same for all inputs.

    H(x, t, z, s, place); G(t, s, place); A(x, t, z, s, place), to be summed over z; B(t, z, s, place); Delta(z, s).
    """

    def __init__(self) -> None:
        self.task = tp.Task(INPUTS, TARGETS[..., None])
        self.raw = tp.theory.raw_problem(tp.theory.DepthwiseScaling(mu0=MU0, eta0=ETA0), tp.ResNet(), self.task, tp.oo)
        self.run = tp.train(self.raw.problem)
        self.found = tp.theory.order_parameters(self.run, self.raw, TIMES)
        self.chi = (self.run.outputs - self.raw.problem.task.targets)[..., 0]
        self.of_g = [int(np.argmax(np.abs(row))) for row in self.chi]   # the input whose row is read for g
        self.gamma = lru_cache(maxsize=None)(self.run.gamma)
        self._curves: dict[tuple[object, ...], np.polynomial.Chebyshev] = {}

    def kernel(self, name: str, *index: int) -> np.polynomial.Chebyshev:
        key = (name, *index)
        if key not in self._curves:
            self._curves[key] = curve(getattr(self.found, name)[(slice(None), *index)])
        return self._curves[key]

    def of_gradient(self, t: int) -> tuple[tuple[int, int], float]:
        """A row of step t and what it is g times."""
        return (t, self.of_g[t]), float(self.chi[t, self.of_g[t]])

    def g_by(self, t: int, s: tuple[int, int] | int, b: int, p: float, q: float) -> float:
        row, size = self.of_gradient(t)
        return self.gamma(row, s, 1, b, p, q) / size

    def by_r(self, row: tuple[int, int], a: int, s: int, p: float, q: float) -> float:
        return float(sum(self.gamma(row, (s, j), a, 1, p, q) * self.chi[s, j] for j in range(BATCH)))

    def g_by_r(self, t: int, p: float, s: int, q: float) -> float:
        row, size = self.of_gradient(t)
        return self.by_r(row, 1, s, p, q) / size

    @property
    def reading(self) -> Letters:
        return Letters({
            "H": lambda x, t, z, s, p: float(self.kernel("H", t, x, s, z)(p)),
            "Phi": lambda x, t, z, s, p: float(self.kernel("H", t, x, s, z)(p)),
            "G": lambda t, s, p: float(self.kernel("G", t, self.of_g[t], s, self.of_g[s])(p)),
            "A": lambda x, t, z, s, p: float(self.kernel("A", t, x, s, z)(p)),
            "B": lambda t, z, s, p: float(self.kernel("B", t, self.of_g[t], s, z)(p)),
            r"\Delta": lambda z, s: float(self.found.Delta[s, z]),
            "h/u": lambda x, t, p, y, s, q: self.gamma((t, x), (s, y), 0, 0, p, q),
            "g/u": lambda t, p, y, s, q: self.g_by(t, (s, y), 0, p, q),
            "h/r": lambda x, t, p, s, q: self.by_r((t, x), 0, s, p, q),
            "g/r": self.g_by_r})


@lru_cache(maxsize=None)
def batch_case() -> BatchCase:
    return BatchCase()
