"""Gaussian means of smooth functions by the trapezoidal rule, which converges geometrically for them."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

from ..errors import NotCovered
from .scalar_functions import scalar_function

Array = np.ndarray

END = 9.0          # the Gaussian leaves 2e-19 outside
SPREADS = (0.5, 1.0, 2.0)  # at which the rule is tried
COARSEST, FINEST = 0.5, 1 / 32  # steps of the rule, in the functions' own variable
WIDEST = 0.4       # step in standard deviations, where functions hardly vary
MOST_POINTS = 2**11  # of one variable; larger spreads have no number, and solvers cut their elements there
SETTLED = 1e-11
PART = 2**21       # values of a function held at once
TINY = 1e-300


class Smooth:
    """A derivative of a smooth function, as means need it. Attributes: values; step, in its own variable, at which
    trapezoidal means have settled; parity, 1 for even, -1 for odd functions, 0 for others.

    Raises ``ValueError`` where squares of the function have no Gaussian mean by quadrature.
    """

    def __init__(self, f: sp.Expr, order: int) -> None:
        function = scalar_function(f)
        self.values = function.values(order)
        self.step = settled_step(f)
        self.parity = function.parity * (-1) ** order


def nodes(step: float, spread: Array) -> tuple[Array, Array]:
    """Points of the standard Gaussian, ``step`` apart after the largest spread, and their weights."""
    largest = float(np.max(spread, initial=0.0))
    count = int(np.ceil(END / min(WIDEST, step / max(largest, TINY))))
    x = np.linspace(-END, END, 2 * count + 1)
    weight = np.exp(-x * x / 2)
    return x, weight / np.sum(weight)


def trapezoid_mean(f: Smooth, p: Array) -> Array:
    """E f(u) of variances p; nan where the spread of u is too large for the rule."""
    spread, known = spreads(p, f.step)
    x, weight = nodes(f.step, spread)
    return np.where(known, f.values(spread[..., None] * x) @ weight, np.nan)


def spreads(p: Array, step: float) -> tuple[Array, Array]:
    """Square roots of variances, and which of them a rule of ``step`` serves; the others are 0."""
    with np.errstate(invalid="ignore"):
        spread = np.sqrt(np.maximum(p, 0.0))
        known = spread <= MOST_POINTS * step / (2 * END)
    return np.where(known, spread, 0.0), known


def trapezoid_overlap(f: Smooth, g: Smooth, c: Array, p: Array, q: Array) -> Array:
    """E f(u) g(v) in two dimensions, for arrays (pairs,): u = sqrt(p) x and v = sqrt(q) (r x + sqrt(1 - r^2) y)."""
    step = min(f.step, g.step)
    s, known = spreads(p, step)
    t, also = spreads(q, step)
    r = np.clip(c / np.maximum(s * t, TINY), -1.0, 1.0)
    along, across = t * r, t * np.sqrt((1 - r) * (1 + r))
    result = np.full(len(c), np.nan)
    # nearly equal arguments need few points across, and narrow ones few points along
    wide = np.maximum(s, t)
    levels = np.ceil(np.log2(np.maximum([wide, across], step)))
    levels[:, ~(known & also)] = np.nan
    for level in np.unique(levels[:, known & also], axis=1).T:
        chosen = np.flatnonzero(np.all(levels == level[:, None], axis=0))
        (x, outer), (y, inner) = (nodes(step, np.max(widths[chosen])) for widths in (wide, across))
        if f.parity * g.parity == 1:  # then (x, y) and (-x, -y) give the same
            half = len(x) // 2
            x, outer = x[half:], np.append(outer[half], 2 * outer[half + 1:])
        size = max(1, PART // (len(x) * len(y)))
        for part in (chosen[start:start + size] for start in range(0, len(chosen), size)):
            v = along[part, None, None] * x[:, None] + across[part, None, None] * y
            result[part] = np.sum(f.values(s[part, None] * x) * outer * (g.values(v) @ inner), axis=-1)
    return result


@lru_cache(maxsize=None)
def settled_step(f: sp.Expr) -> float:
    """A step in f's variable with which means of squares are known to ``SETTLED``, at any spread."""
    values = [scalar_function(f).values(order) for order in (0, 1)]

    def squares(step: float) -> Array:
        found = []
        for spread in SPREADS:
            x, weight = nodes(step, np.array(spread))
            mass = np.array([value(spread * x) ** 2 * weight for value in values])
            if np.any(np.isnan(mass)):
                raise NotCovered(f"phi: got {f}; it is not finite for all real arguments")
            if not np.all(np.isfinite(mass)) or np.any(mass[:, [0, -1]] > SETTLED * mass.sum(axis=1, keepdims=True)):
                raise NotCovered(f"phi: got {f}; it has a pole, or grows too fast for Gaussian means by quadrature")
            found.append(mass.sum(axis=1))
        return np.array(found)

    step, now = COARSEST, squares(COARSEST)
    while step > FINEST:
        before, now = now, squares(step / 2)
        if np.max(np.abs(now - before)) <= SETTLED * np.max(np.abs(now)):
            return step
        step /= 2
    raise NotCovered(f"phi: got {f}; it is not smooth enough for quadrature on steps of {FINEST}")
