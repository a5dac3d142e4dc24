"""One block W2 phi(W1 x) in numbers: its action as means over its weights, and every expression of the derivation."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Mapping

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.action.action import (FIELDS, Acting, Along, OverlapCoefficient, Inner, Kernel, OverEarlier, Saddle, a, at,
                                  b, c, delta, dt, x, xt)
from tpcalc.action.block_kernels import C, P, Q, R, RP, RQ
from tpcalc.action.densities import Insert, derive_block_kernels

h = sp.Symbol("h", real=True)
PHI = h + h**2 / 3 - h**3 / 5  # means over weights are then exact
MATRICES = ("W1", "W2")
SITES = (a, b, c)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(10)
W = np.stack(np.meshgrid(NODES, NODES), axis=-1).reshape(-1, 2)  # rows of W1, two inputs
MASS = np.outer(WEIGHTS, WEIGHTS).ravel() / WEIGHTS.sum()**2


@lru_cache(maxsize=None)
def _slope(order: int) -> Any:
    return sp.lambdify(h, PHI.diff(h, order), "numpy")


@lru_cache(maxsize=None)
def _kernel(name: str, orders: tuple[int, int, int], own: bool) -> Any:
    insert = Insert(derive_block_kernels(tp.ResNet(PHI, "mlp")))
    slots = (P, P, P) if own else (C, P, Q)
    return sp.lambdify((C, P, Q, R, RP, RQ), insert.apply(Kernel(sp.Symbol(name), *orders, *slots)), "numpy")


class BlockNumbers:
    """Random fields at three sites, decays and memories; values of expressions with these fields, or at the saddle."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.fields = {(f, s): rng.standard_normal(2) for f in FIELDS for s in SITES}
        rho = rng.uniform(0.5, 1, 2)
        self.rho = {"a": rho[0], "b": rho[1], "c": rho[0]}
        self.numbers = {at(name, *pair): float(rng.standard_normal()) for name in ("r", "e", "w^W1", "w^W2")
                        for pair in ((a, b), (a, a), (b, b), (c, c))}
        for name, field in (("C", x), ("C^1", delta)):
            self.numbers |= {at(name, i, j): float(self.fields[field, i] @ self.fields[field, j])
                             for i in SITES for j in SITES}

    def inner(self, overlap: Any) -> float:
        """The fields drawn have this inner product."""
        u, v = (self.fields[tuple(field.args)] for field in overlap.args)
        return float(u @ v)

    def saddle(self, overlap: Any) -> float:
        return self.value(Saddle().apply(overlap), {}, False)

    def value(self, e: Any, held: Mapping[Any, float], drawn: bool) -> float:
        """held: overlaps that are given; others are those of the fields ``drawn``, or at the saddle."""
        if e in held:
            return held[e]
        if isinstance(e, Inner):
            return self.inner(e) if drawn else self.saddle(e)
        if isinstance(e, Acting):
            return self._acting(*e.args)
        if isinstance(e, Along):
            return self._along(*e.args)
        if isinstance(e, Kernel):
            return self._kernel_value(e, held, drawn)
        if isinstance(e, OverlapCoefficient):
            action, overlap, double = e.args
            now = self.value(overlap, held, drawn)
            up, down = (self.value(action, {**held, overlap: now + move}, drawn) for move in (0.5, -0.5))
            return int(double) * (up - down)  # of second degree, so that this is the slope
        if isinstance(e, OverEarlier):
            return self.value(e.args[0], held, drawn)  # b is the only one
        if isinstance(e, sp.Symbol):
            return self.numbers[e]
        parts = [self.value(part, held, drawn) for part in e.args]
        if isinstance(e, sp.Add):
            return float(sum(parts))
        if isinstance(e, sp.Mul):
            return float(np.prod(parts))
        return parts[0] ** parts[1] if isinstance(e, sp.Pow) else float(e)

    def _kernel_value(self, e: Any, held: Mapping[Any, float], drawn: bool) -> float:
        one, two = (self.rho[site] for site in e.sites)
        slots = [self.value(v, held, drawn) for v in e.args[4:]]
        orders = tuple(map(int, e.args[1:4]))
        return float(_kernel(str(e.args[0]), orders, e.sites[0] == e.sites[1])(*slots, one * two, one**2, two**2))

    def _features(self, name: str, site: sp.Symbol) -> tuple[np.ndarray, np.ndarray]:
        """Vectors whose overlap over weights is the kernel, at a site, and their derivatives along dt."""
        rho, point, move = self.rho[str(site)], self.fields[x, site], self.fields[dt, site]
        u, du = (rho * (W @ v)[:, None] for v in (point, move))
        if name == "theta^W1":  # gradients in rows of W1, after the mean over W2
            return rho * _slope(1)(u) * point, rho * (_slope(2)(u) * du * point + _slope(1)(u) * move)
        scale = rho if name == "kappa" else 1.0
        return scale * _slope(0)(u), scale * _slope(1)(u) * du

    def _along(self, name: Any, one: Any, two: Any, first: Any, second: Any) -> float:
        left, right = self._features(str(name), one)[int(first)], self._features(str(name), two)[int(second)]
        return float(MASS @ np.sum(left * right, axis=-1))

    def _acting(self, name: Any, one: Any, two: Any, bare: Any) -> float:
        """The mean over weights of the product of both factors as they stand."""
        def factor(site: Any, bare: bool) -> np.ndarray:
            value, slope = self._features(str(name), site)
            if bare:
                return self.fields[delta, site][:, None, None] * value
            return self.fields[xt, site][:, None, None] * value + self.fields[delta, site][:, None, None] * slope
        return float(np.sum(MASS @ np.sum(factor(one, False) * factor(two, bool(bare)), axis=(0, 2))))
