"""Numerical means E[f^(j)(u) g^(k)(v)] of Gaussian pairs, over arrays of covariances.

Three ways: formulas for functions with a kink at 0 and constant slopes beside it (relu, leaky relu, abs), whose
derivatives are distributions; closed forms where the symbolic rules find one (polynomials, sin, cos, erf); otherwise,
for smooth functions, Hermite series with coefficients by the trapezoidal rule.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Callable

import numpy as np
import sympy as sp

from .expectations import Expectation, Gaussians, expectation
from .overlaps import H
from .scalar_functions import scalar_function
from .hermite_series import Series, pair_means
from .trapezoid import TINY, Array, Smooth, mean

OverlapFunction = Callable[[Array, Array, Array], Array]  # covariance and the two variances, which broadcast
MeanFunction = Callable[[Array], Array]                   # variance

CLOSED = (sp.sin, sp.cos, sp.erf, sp.erfc)  # entire, with means that are as smooth at equal arguments
FLOOR = 1e-10      # of 1 - r^2, r the correlation, where a kinked function's means are singular


@lru_cache(maxsize=None)
def overlap_function(f: sp.Expr, g: sp.Expr, j: int, k: int) -> OverlapFunction:
    """E[f^(j)(u) g^(k)(v)] with f, g in the symbol ``overlaps.H``; j + k even.

    Raises ``ValueError`` for functions that are neither smooth nor linear on both sides of 0.
    """
    one, two = scalar_function(f), scalar_function(g)
    if one.is_written_with_kinks or two.is_written_with_kinks:
        return _kinked(one.slopes, two.slopes, j, k)
    closed = _closed(f, g, j, k)
    if closed is not None:
        return closed
    return pair_means(_series(f, j), _series(g, k))


@lru_cache(maxsize=None)
def mean_function(f: sp.Expr, j: int) -> MeanFunction:
    """E[f^(j)(u)]; j up to 2 where f has a kink. Raises as ``overlap_function``."""
    if scalar_function(f).is_written_with_kinks:
        slope, bend = scalar_function(f).slopes
        if j == 0:
            return lambda p: bend * np.sqrt(2 * p / np.pi)
        if j == 1:
            return lambda p: np.full(np.shape(p), slope)
        if j == 2:
            return lambda p: bend * np.sqrt(2 / (np.pi * np.maximum(p, TINY)))
        raise _no_formula(j, 0)
    smooth = Smooth(f, j)
    return lambda p: mean(smooth, p)


def _kinked(first: tuple[float, float], second: tuple[float, float], j: int, k: int) -> OverlapFunction:
    """Means of functions s h + b |h|: the arc-cosine kernel and its derivatives. s and b do not mix: one is odd."""
    straight, bent = first[0] * second[0], first[1] * second[1] * 2 / np.pi

    def correlation(c: Array, p: Array, q: Array) -> tuple[Array, Array, Array]:
        scale = np.sqrt(np.maximum(p, TINY)) * np.sqrt(np.maximum(q, TINY))
        r = np.where((p == q) & (np.abs(c) == p), np.sign(c), np.clip(c / scale, -1.0, 1.0))  # not a rounding less
        return scale, r, (1 - r) * (1 + r)

    def values(c: Array, p: Array, q: Array) -> Array:
        scale, r, rest = correlation(c, p, q)
        return straight * c + bent * scale * (np.sqrt(rest) + r * np.arcsin(r))

    def once(c: Array, p: Array, q: Array) -> Array:
        return straight + bent * np.arcsin(correlation(c, p, q)[1])

    def twice(c: Array, p: Array, q: Array) -> Array:
        scale, _, rest = correlation(c, p, q)
        return bent / (scale * np.sqrt(np.maximum(rest, FLOOR)))

    def of_first(c: Array, p: Array, q: Array) -> Array:
        return bent * np.sqrt(correlation(c, p, q)[2] * np.maximum(q, 0.0) / np.maximum(p, TINY))

    def more_of_first(c: Array, p: Array, q: Array) -> Array:
        _, r, rest = correlation(c, p, q)
        return -bent * r / (np.maximum(p, TINY) * np.sqrt(np.maximum(rest, FLOOR)))

    formulas = {(0, 0): values, (1, 1): once, (2, 2): twice, (2, 0): of_first, (3, 1): more_of_first}
    if (j, k) in formulas:
        return formulas[j, k]
    if (k, j) in formulas:
        mirrored = formulas[k, j]
        return lambda c, p, q: mirrored(c, q, p)
    raise _no_formula(j, k)


def _no_formula(j: int, k: int) -> ValueError:
    return ValueError(f"derivatives: {j} and {k} given; of functions with a kink allowed are those that kernels and "
                      "their first derivatives need")


def _closed(f: sp.Expr, g: sp.Expr, j: int, k: int) -> OverlapFunction | None:
    """The closed form of E f(u) g(v), differentiated by Price's theorem; None where there is none."""
    if any(not isinstance(a, CLOSED) for e in (f, g) for a in e.atoms(sp.Function)) or (j - k) % 2 or f.has(
            sp.exp) or g.has(sp.exp):
        return None
    c, u, v = sp.symbols("c u v", real=True)
    p, q = sp.symbols("p q", positive=True)
    form = expectation(f.xreplace({H: u}) * g.xreplace({H: v}), Gaussians({(u, v): c, (u, u): p, (v, v): q}))
    if form.has(Expectation):
        return None
    form = form.diff(c, min(j, k)).diff(p if j > k else q, abs(j - k) // 2) * 2 ** (abs(j - k) // 2)
    compiled = sp.lambdify((c, p, q), form, modules=["scipy", "numpy"], cse=True)
    return lambda c, p, q: np.broadcast_to(compiled(c, p, q), np.broadcast_shapes(*map(np.shape, (c, p, q))))


@lru_cache(maxsize=None)
def _series(f: sp.Expr, order: int) -> Series:
    return Series(Smooth(f, order))
