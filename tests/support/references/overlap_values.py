"""Numbers for expressions with Gaussian means, by the plain trapezoidal rule: slow, and nothing of the solvers."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, Mapping

import numpy as np
import sympy as sp

from tpcalc.gaussian import Expectation
from tpcalc.models.activations import H

NODES = np.linspace(-9, 9, 121)
WEIGHTS = np.exp(-NODES**2 / 2) / np.sum(np.exp(-NODES**2 / 2))


@lru_cache(maxsize=None)
def function(f: sp.Expr, order: int) -> Callable[[np.ndarray], np.ndarray]:
    compiled = sp.lambdify(H, f.diff(H, order), ["scipy", "numpy"])
    return lambda x: np.broadcast_to(compiled(x), x.shape)


@lru_cache(maxsize=None)
def overlap(f: sp.Expr, g: sp.Expr, j: int, k: int, c: float, p: float, q: float) -> float:
    """E f^(j)(u) g^(k)(v)."""
    u = np.sqrt(p) * NODES[:, None]
    v = c / np.sqrt(p) * NODES[:, None] + np.sqrt(max(q - c * c / p, 0.0)) * NODES
    return float(np.sum(WEIGHTS[:, None] * WEIGHTS * function(f, j)(u) * function(g, k)(v)))


def mean(f: sp.Expr, j: int, p: float) -> float:
    return float(np.sum(WEIGHTS * function(f, j)(np.sqrt(p) * NODES)))


def number(expression: Any, known: Mapping[sp.Symbol, float]) -> float:
    """The value of ``expression`` where symbols are as ``known``."""
    e = sp.sympify(expression)
    if e in known:
        return float(known[e])
    if isinstance(e, Expectation):
        functions, *rest = zip(*e.functions), *(number(v, known) for v in e.entries)
        heads, orders = functions
        return overlap(*heads, *orders, *rest) if len(heads) == 2 else mean(*heads, *orders, *rest)
    if isinstance(e, sp.Add):
        return sum(number(v, known) for v in e.args)
    if isinstance(e, sp.Mul):
        return float(np.prod([number(v, known) for v in e.args]))
    if isinstance(e, sp.Pow):
        return number(e.base, known) ** number(e.exp, known)
    return float(e)
