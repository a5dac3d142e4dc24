"""One site of a network of infinite width, given its kernels and responses: sources in, fields out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from tpcalc._types import Value

from .._letters import Letters
from ._fields import Slope

TINY = 1e-30   # of a complex step


@dataclass(frozen=True)
class SiteLetters(Letters):
    """Slopes, in one source or in all of them, by complex steps of whatever they are of; integrals on a grid.

    moved: letters with that step; by: the source, None for all; grid: how many points layer time has in integrals.
    """

    moved: Letters | None = None
    by: sp.Basic | None = None
    grid: int = 0

    def of(self, node: sp.Basic) -> Value:
        if isinstance(node, Slope) and self.moved is not None and self.by in (None, node.args[1]):
            return np.imag(self.moved.at(self.symbols).of(node.args[0])) / TINY
        return super().of(node)

    def _integral(self, body: sp.Expr, variable: sp.Symbol, low: Value, high: Value) -> Value:
        if not self.grid:
            return super()._integral(body, variable, low, high)
        points = range(round(low * self.grid), round(high * self.grid))
        return sum(self.at({variable: k / self.grid}).of(body) for k in points) / self.grid


def site(rng: np.random.Generator, steps: int, layers: int, rate: float, at: dict[sp.Symbol, Any],
         source: tuple[str, int, int]) -> SiteLetters:
    """A tanh site of random sources and random causal drifts; source: "u" or "r", the step and the node."""
    drift = {name: np.tril(rng.normal(size=(layers, steps, steps)), shift) for name, shift in (("Ch", -1), ("Cg", 0))}
    u, r = rng.normal(size=(2, steps, layers + 2))
    start, end = rng.normal(size=(2, steps))

    def letters(step: complex) -> Letters:
        noise = {"u": u.astype(complex), "r": r.astype(complex)}
        noise[source[0]][source[1:]] += step
        h, g = (np.zeros((steps, layers + 2), dtype=complex) for _ in range(2))
        h[:, 1], g[:, layers + 1] = start, end
        for t in range(steps):
            for node in range(1, layers + 1):
                h[t, node + 1] = h[t, node] + noise["u"][t, node + 1] / np.sqrt(layers) + rate / layers * (
                    drift["Ch"][node - 1, t] @ g[:, node + 1])
            for node in range(layers, 0, -1):
                back = noise["r"][t, node] / np.sqrt(layers) + rate / layers * (
                    drift["Cg"][node - 1, t] @ np.tanh(h[:, node]))
                g[t, node] = g[t, node + 1] + np.cosh(h[t, node])**-2.0 * back
        tables: dict[str, Value] = {
            "h": lambda a, node: h[a, node], "g": lambda a, node: g[a, node],
            "phi": lambda a, node: np.tanh(h[a, node]),
            "dphi": lambda a, node: np.cosh(h[a, node])**-2.0, **{name: lambda a, b, node, name=name: drift[name][
                node - 1, a, b] for name in drift},
            **{name: lambda a, node, name=name: noise[name][a, node] for name in noise}}
        return Letters(tables, at)
    plain = letters(0)
    real: dict[str, Value] = {name: lambda *key, table=table: np.real(table(*key))
                              for name, table in plain.fields.items()}
    return SiteLetters(real, at, moved=letters(1j * TINY))
