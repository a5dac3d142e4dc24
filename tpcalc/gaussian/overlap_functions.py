"""Numerical means E[f^(j)(u) g^(k)(v)] of Gaussian pairs, over arrays of covariances.

Two ways: closed forms where the symbolic rules find one, of polynomials, sin, cos, erf, and of functions with a kink at
0 and constant slopes beside it (relu, leaky relu, abs), whose derivatives are distributions; otherwise, for smooth
functions, Hermite series with coefficients by the trapezoidal rule.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Callable

import numpy as np
import sympy as sp

from ..errors import NotCovered
from .expectations import Expectation, closed
from .rules import gaussian_mean, overlap
from .scalar_functions import H, scalar_function
from .hermite_series import Series, pair_means
from .trapezoid import TINY, Array, Smooth, trapezoid_mean

Functions = tuple[tuple[sp.Expr, int], ...]  # (f, order) of every variable
OverlapFunction = Callable[[Array, Array, Array], Array]  # covariance and the two variances, which broadcast
MeanFunction = Callable[[Array], Array]                   # variance

CLOSED = (sp.sin, sp.cos, sp.erf, sp.erfc)  # entire, with means that are as smooth at equal arguments
COVARIANCE, VARIANCES = sp.Symbol("c", real=True), sp.symbols("p q", positive=True)
FLOOR = 1e-10      # of 1 - r^2, r the correlation, where a kinked function's means are singular


def tabulated(functions: Functions) -> Callable[..., Array]:
    """The mean of the product of functions of one or two Gaussian variables, as a function of the entries of the
    covariance: what ``Expectation.functions`` and ``Expectation.entries`` are."""
    if len(functions) == 1:
        return mean_function(*functions[0])
    if len(functions) == 2:
        (f, j), (g, k) = functions
        return overlap_function(f, g, j, k)
    raise NotCovered(f"functions: got some of {len(functions)} variables; expected one or two")


@lru_cache(maxsize=None)
def overlap_function(f: sp.Expr, g: sp.Expr, j: int, k: int) -> OverlapFunction:
    """E[f^(j)(u) g^(k)(v)] with f, g in the symbol ``H``; j + k even. Raises ``ValueError`` for functions that are
    neither smooth nor linear on both sides of 0."""
    one, two = scalar_function(f), scalar_function(g)
    if one.is_written_with_kinks or two.is_written_with_kinks:
        return _kinked(one.slopes, two.slopes, j, k)
    closed = _closed(f, g, j, k)
    if closed is not None:
        return closed
    return pair_means(_series(f, j), _series(g, k))


@lru_cache(maxsize=None)
def mean_function(f: sp.Expr, j: int) -> MeanFunction:
    """E[f^(j)(u)]. Raises as ``overlap_function``."""
    if scalar_function(f).is_written_with_kinks:
        slope, bend = scalar_function(f).slopes
        if j % 2:
            return lambda p: np.full(np.shape(p), slope * (j == 1))
        form = closed(gaussian_mean(sp.Abs(H), 0, VARIANCES[0])).diff(VARIANCES[0], j // 2) * 2 ** (j // 2)
        compiled = sp.lambdify(VARIANCES[0], form)
        return lambda p: bend * compiled(np.maximum(p, TINY))
    smooth = Smooth(f, j)
    return lambda p: trapezoid_mean(smooth, p)


def _kinked(first: tuple[float, float], second: tuple[float, float], j: int, k: int) -> OverlapFunction:
    """Means of functions s h + b |h|. Terms of s and b do not mix, because one of the functions is odd."""
    straight, bent = first[0] * second[0] * (j == k <= 1), first[1] * second[1]
    compiled, a, b = _arc_cosine(j, k)

    def means(c: Array, p: Array, q: Array) -> Array:
        p, q = np.maximum(p, TINY), np.maximum(q, TINY)
        r = np.clip(c / (np.sqrt(p) * np.sqrt(q)), -1.0, 1.0)
        r = np.where((p == q) & (np.abs(c) == p), np.sign(c), r)  # not a rounding less
        rest = (1 - r) * (1 + r)
        found = compiled(r, np.arcsin(r), np.sqrt(rest), np.sqrt(np.maximum(rest, FLOOR)))
        return straight * (1.0 if j else c) + bent * p**a * q**b * found
    return means


@lru_cache(maxsize=None)
def _arc_cosine(j: int, k: int) -> tuple[Callable[..., Array], float, float]:
    """Means of derivatives of |h| are G p^a q^b: G, a and b. G is a function of the correlation r, its arc sine,
    sqrt(1 - r^2), and this once more, away from 0, for where it divides. Price's theorem is the chain rule for
    r = c / sqrt(p q). |h| is h times its slope, and so is its mean with anything: of unit variances,
    E |u| |v| = r E sign(u) sign(v) + (1 - r^2) d/dr E sign(u) sign(v), by Stein's lemma for u and for v."""
    r, s, angle, apart = sp.symbols("r s angle apart", real=True)

    def slope(e: sp.Expr) -> sp.Expr:
        return e.diff(r) + (e.diff(angle) - r * e.diff(s)) / s

    signs = _signs(r).xreplace({sp.asin(r): angle})
    form, powers = sp.expand(r * signs + s**2 * slope(signs)), [sp.Rational(1, 2)] * 2  # of a homogeneous function
    for _ in range(min(j, k)):
        form, powers = slope(form), [power - sp.Rational(1, 2) for power in powers]
    for _ in range(abs(j - k) // 2):
        form = 2 * powers[j < k] * form - r * slope(form)
        powers[j < k] -= 1
    divisions = 2 * (j + k)  # more than there are
    form = sp.expand(form * s**divisions).replace(
        lambda e: e.is_Pow and e.base == r, lambda e: (1 - s**2)**(e.exp // 2) * r**(e.exp % 2))
    form = sp.expand(form / s**divisions)
    if (j - k) % 2 or any(e.base == s and e.exp < -1 for e in form.atoms(sp.Pow)):
        raise NotCovered(f"derivatives: got {j} and {k}; expected of functions with a kink are those of an even sum "
                         "whose means can be integrated where two arguments meet")
    return sp.lambdify((r, angle, s, apart), form.xreplace({1 / s: 1 / apart})), *map(float, powers)


@lru_cache(maxsize=None)
def _signs(r: sp.Symbol) -> sp.Expr:
    """E sign(u) sign(v), of correlation r."""
    return closed(overlap(sp.Abs(H), sp.Abs(H), 1, 1, r, sp.Integer(1), sp.Integer(1)))


def _closed(f: sp.Expr, g: sp.Expr, j: int, k: int) -> OverlapFunction | None:
    """The closed form of E f(u) g(v), differentiated by Price's theorem; None where there is none."""
    functions = sp.Tuple(f, g).atoms(sp.Function)
    if not functions <= sp.Tuple(f, g).atoms(*CLOSED) or (j - k) % 2:
        return None
    form = closed(overlap(f, g, 0, 0, COVARIANCE, *VARIANCES))
    if form.has(Expectation):
        return None
    compiled = sp.lambdify((COVARIANCE, *VARIANCES), _differentiated(form, j, k), modules=["scipy", "numpy"], cse=True)
    return lambda c, p, q: np.broadcast_to(compiled(c, p, q), np.broadcast_shapes(*map(np.shape, (c, p, q))))


def _differentiated(form: sp.Expr, j: int, k: int) -> sp.Expr:
    """E f^(j)(u) g^(k)(v) from E f(u) g(v): Price's theorem."""
    twice = abs(j - k) // 2
    return form.diff(COVARIANCE, min(j, k)).diff(VARIANCES[j < k], twice) * 2**twice


@lru_cache(maxsize=None)
def _series(f: sp.Expr, order: int) -> Series:
    return Series(Smooth(f, order))
