"""A linear site twice: driven by Gaussian sources with responses, and with conjugate fields under the weight e^-H."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Callable

import numpy as np
import sympy as sp

from tpcalc._types import Value

from ..._letters import Letters
from .._fields import Slope
from ..action._action import Sites, depth

L, T = 2, 3


def off(ours: Value, theirs: Value) -> float:
    """Largest difference of complex numbers, relative to the largest or 1."""
    return float(np.max(np.abs(np.asarray(ours) - theirs)) / max(1.0, float(np.max(np.abs(theirs)))))


@dataclass(frozen=True)
class Sources:
    """Order parameters are arbitrary: covariances of blocks (L, T, T), causal responses; every field is a row in the
    sources U, w, u and r."""

    Phi: np.ndarray
    G: np.ndarray
    A: np.ndarray
    B: np.ndarray
    Delta: np.ndarray
    inputs: np.ndarray
    c: float

    @cached_property
    def covariance(self) -> np.ndarray:
        size = 2 + 2 * L * T
        found = np.eye(size)
        for k in range(L):
            for offset, of in ((2, self.Phi), (2 + L * T, self.G)):
                part = slice(offset + k * T, offset + (k + 1) * T)
                found[part, part] = of[k]
        return found

    def place(self, name: str, t: int, node: int) -> int:
        """Where a source stands among the columns; u of the node behind a block, r of that before it."""
        block = node - 2 if name == "u" else node - 1
        return 2 + (0 if name == "u" else L * T) + block * T + t

    @cached_property
    def rows(self) -> dict[tuple[str, int, int], np.ndarray]:
        unit, found = np.eye(2 + 2 * L * T), {}
        for t in range(T):
            found["h", t, 1], found["g", t, L + 1] = self.inputs[t] * unit[0], unit[1]
            for node in range(1, L + 1):
                k, zero = node - 1, np.zeros(len(unit))
                found["u", t, node + 1] = unit[self.place("u", t, node + 1)]
                found["chi", t, node + 1] = found["u", t, node + 1] + sum(
                    (self.A[k, t, s] * found["g", s, node + 1] for s in range(t)), zero)
                learned = sum((self.Delta[s] * self.Phi[k, t, s] * found["g", s, node + 1] for s in range(t)), zero)
                found["h", t, node + 1] = found["h", t, node] + found["chi", t, node + 1] / np.sqrt(
                    L) + self.c / L * learned
            for node in range(L, 0, -1):
                k, zero = node - 1, np.zeros(len(unit))
                found["r", t, node] = unit[self.place("r", t, node)]
                found["xi", t, node] = found["r", t, node] + sum(
                    (self.B[k, t, s] * found["h", s, node] for s in range(t + 1)), zero)
                learned = sum((self.Delta[s] * self.G[k, t, s] * found["h", s, node] for s in range(t)), zero)
                found["g", t, node] = found["g", t, node + 1] + found["xi", t, node] / np.sqrt(L) + self.c / L * learned
        found.update({("phi", *key[1:]): row for key, row in list(found.items()) if key[0] == "h"})
        return found

    @cached_property
    def sites(self) -> Sites:
        """These sites with conjugate fields."""
        nothing, none = np.zeros((L, T, T), dtype=complex), np.zeros((L, T))
        return Sites({"Phi": self.Phi.astype(complex), "G": self.G.astype(complex), "A": self.A.astype(complex),
                      "B": self.B.astype(complex), "Phih": nothing, "Gh": nothing}, self.Delta, self.inputs, self.c,
                     none, none)

    def difference(self) -> float:
        """The largest between second moments of fields by sources and those under e^-H."""
        names = [key for key in self.rows if key[0] in ("h", "g", "chi", "xi")]
        ours = np.array([self.rows[key] for key in names])
        theirs = np.array([self.sites.rows[key] for key in names])
        moments = ours @ self.covariance @ ours.T
        return off(theirs @ self.sites.moments @ theirs.T, moments)

    def letters(self, at: dict[sp.Symbol, Any]) -> Letters:
        """Fields are rows; means of two of them are exact, with conjugate fields under e^-H; slopes are columns."""
        block = {"Phi": 1, "G": 2, "A": 1, "B": 1}   # the node of the first block
        tables: dict[str, Value] = {name: lambda *key, name=name: self.rows[name, key[0], key[1]]
                                    for name in ("h", "g", "phi", "chi", "xi", "u", "r")}
        tables.update({name: lambda a, b, node, name=name: getattr(self, name)[node - block[name], a, b]
                       for name in block})
        tables.update({f"{name}r": lambda *key, name=name: np.sqrt(L) / self.c * tables[name](*key) for name in "AB"})
        tables.update({r"\Delta": lambda a: self.Delta[a], "dphi": lambda *_: 1.0})
        for of in ("phi", "g"):
            for by in ("u", "r"):
                tables[f"{of}/{by}"] = lambda a, node, b, other, of=of, by=by: self.rows[of, a, node][
                    self.place(by, b, other)]
        return Letters(tables, {depth: L, sp.Symbol("T", integer=True): T, **at}, self.mean)

    def mean(self, reading: Letters, body: sp.Expr) -> Value:
        if isinstance(body, Slope):
            return reading.of(body)
        if any(type(one).__name__ in ("chih", "xih") for one in body.args):
            return self.sites.mean(Letters(reading.fields, reading.symbols), body)
        found = [reading.of(one) for factor in sp.Mul.make_args(body) for one in (
            [factor.base] * int(factor.exp) if factor.is_Pow else [factor])]
        first, second = (one for one in found if np.ndim(one))
        return first @ self.covariance @ second * np.prod([one for one in found if not np.ndim(one)])

    def consistent(self) -> Sources:
        """With the kernels and responses that its fields have: by causality some rounds are enough."""
        found = self
        for _ in range(2 * L * T + 1):
            rows, over = found.rows, found.covariance

            def each(entry: Callable[[int, int, int], float]) -> np.ndarray:
                return np.array([[[entry(t, s, node) for s in range(T)] for t in range(T)] for node in range(1, L + 1)])
            found = replace(
                found, Phi=each(lambda t, s, node: rows["h", t, node] @ over @ rows["h", s, node]),
                G=each(lambda t, s, node: rows["g", t, node + 1] @ over @ rows["g", s, node + 1]),
                A=each(lambda t, s, node: rows["h", t, node][found.place("r", s, node)]),
                B=each(lambda t, s, node: rows["g", t, node + 1][found.place("u", s, node + 1)]))
        return found


def random_sources(rng: np.random.Generator) -> Sources:
    def kernels() -> np.ndarray:
        root = rng.normal(size=(L, T, T))
        return np.asarray(root @ root.transpose(0, 2, 1) / T + 0.2 * np.eye(T))
    return Sources(kernels(), kernels(), np.tril(rng.normal(size=(L, T, T)), -1), np.tril(rng.normal(size=(L, T, T))),
                   rng.normal(size=T), rng.normal(size=T), 0.6)
