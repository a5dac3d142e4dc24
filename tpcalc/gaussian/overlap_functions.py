"""Numerical means E[f^(j)(u) g^(k)(v)] of Gaussian pairs, over arrays of covariances.

Two ways: closed forms where the symbolic rules find one, of polynomials, sin, cos, erf, and of functions with a kink at
0 and constant slopes beside it (relu, leaky relu, abs), whose derivatives are distributions; otherwise, for smooth
functions, Hermite series with coefficients by the trapezoidal rule.

The series is Mehler's, E f(u) g(v) = sum over k of a_k b_k r^k.

a_k = E f(sqrt(p) x) h_k(x), with the normalized Hermite polynomials h_k, belong to one variable and one variance. So a
function is evaluated once for every row and not for every pair of rows, and pairs are products of short vectors. What
a number of terms leaves out is bounded by norms that are known: means are as exact as asked for, or go to quadrature.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Callable, NamedTuple

import numpy as np
import sympy as sp

from ..errors import NotCovered
from ..kernels import mehler
from .expectations import Expectation, closed
from .rules import gaussian_mean, overlap
from .scalar_functions import H, scalar_function
from .trapezoid import TINY, Array, Smooth, spreads, trapezoid_mean, trapezoid_overlap

END = 13.0            # f(x) exp(-x^2 / 4) is round-off there, beside Hermite functions of at most 1
INTERVALS = 104       # between 0 and END, at least: as fine as products of two Hermite functions of FEW terms ask for
FEW, MANY = 128, 512  # terms
ALLOWED = 1e-12       # of what the terms leave out, relative to the norms of f and g
KEPT = 6              # arrays of variances whose coefficients are remembered: earlier rows keep theirs


class HermiteCoefficients(NamedTuple):
    """Coefficients of f(sqrt(p) x) for variances p (rows,): a (rows, terms), tails as in ``mehler``, norms (rows,)."""

    a: Array
    tails: Array
    norms: Array


class Series:
    """One function, with its coefficients at the variances asked for last."""

    def __init__(self, f: Smooth) -> None:
        self.f = f
        self._remembered: Callable[[bytes, int], HermiteCoefficients] = lru_cache(maxsize=KEPT)(self._expand)

    def at(self, p: Array, terms: int) -> HermiteCoefficients:
        """The first coefficients of the series at variances p (rows,)."""
        return self._remembered(np.ascontiguousarray(p, dtype=np.float64).tobytes(), terms)

    def _expand(self, variances: bytes, terms: int) -> HermiteCoefficients:
        spread, known = spreads(np.frombuffer(variances), self.f.step)
        needed = 2 * END * float(np.max(spread, initial=0.0)) / self.f.step  # half the step of a plain mean
        doublings = int(np.ceil(np.log2(max(1.0, needed / INTERVALS, (terms / FEW) ** 0.5))))
        x, root, hermite = _basis(doublings, terms)
        right = self.f.values(spread[:, None] * x)
        left = self.f.parity * right if self.f.parity else self.f.values(-spread[:, None] * x)
        a, squares = np.zeros((len(spread), terms)), np.zeros(len(spread))
        with np.errstate(over="ignore", invalid="ignore"):
            for k, sign in enumerate((1, -1)):  # even and odd parts, on half of the line
                if self.f.parity != -sign:
                    part = (right + sign * left) * root
                    a[:, k::2] = part @ hermite[k]
                    squares += np.sum(part**2, axis=1)
        # a function that is not small at END, beside exp(-x^2 / 4), has no coefficients that could be trusted
        edge = np.maximum(np.abs(right[:, -1]), np.abs(left[:, -1])) * root[-1]
        trusted = np.isfinite(squares) & (edge <= ALLOWED * np.sqrt(squares))
        a[~trusted] = 0.0
        tails = mehler.tails(a, np.where(trusted, squares, np.inf))
        a[~known], tails[~known] = np.nan, 0.0
        return HermiteCoefficients(a, tails, np.sqrt(np.where(trusted, squares, 0.0)))


def pair_means(first: Series, second: Series) -> Callable[[Array, Array, Array], Array]:
    """E f(u) g(v) as a function of covariance and variances, arrays that broadcast; nan where a spread is too large."""

    def means(c: Array, p: Array, q: Array) -> Array:
        shape = np.broadcast_shapes(np.shape(c), np.shape(p), np.shape(q))
        ps, qs = (np.asarray(v, dtype=np.float64).ravel() for v in (p, q))
        left, right = (_rows(np.shape(v), shape) for v in (p, q))
        if len(ps) == len(qs) == len(left):  # of pairs that are listed, many rows may be the same
            (ps, left), (qs, right) = (np.unique(v, return_inverse=True) for v in (ps, qs))
        c = np.broadcast_to(c, shape).ravel()
        with np.errstate(invalid="ignore", over="ignore"):
            scale = np.sqrt(np.maximum(ps, 0.0))[left] * np.sqrt(np.maximum(qs, 0.0))[right]
            r = np.clip(c / np.maximum(scale, TINY), -1.0, 1.0)
        values, enough, one, two = _summed(first, second, ps, qs, left, right, r, FEW)
        if first is second:  # the mean of a square, f(u)^2, is known without a series
            squares = np.flatnonzero(~enough & (c == ps[left]) & (c == qs[right]) & np.isfinite(one.tails[left, -1]))
            values[squares], enough[squares] = one.norms[left[squares]] ** 2, True
        rest = np.flatnonzero(~enough)
        if len(rest):
            rows, here = np.unique(left[rest], return_inverse=True)
            columns, there = np.unique(right[rest], return_inverse=True)
            values[rest], enough[rest], *_ = _summed(first, second, ps[rows], qs[columns], here, there, r[rest], MANY)
            rest = np.flatnonzero(~enough)
        if len(rest):
            values[rest] = trapezoid_overlap(first.f, second.f, c[rest], ps[left[rest]], qs[right[rest]])
        return values.reshape(shape)
    return means


def _summed(first: Series, second: Series, p: Array, q: Array, left: Array, right: Array, r: Array, terms: int
            ) -> tuple[Array, Array, HermiteCoefficients, HermiteCoefficients]:
    """Values of pairs, whether the terms suffice, and the coefficients of both functions."""
    one, two = first.at(p, terms), second.at(q, terms)
    allowed = ALLOWED * one.norms[left] * two.norms[right]
    return *mehler.sums(one.a, two.a, left, right, r, one.tails, two.tails, allowed), one, two


@lru_cache(maxsize=16)
def _rows(shape: tuple[int, ...], wide: tuple[int, ...]) -> Array:
    """Which row of ``shape`` every pair of ``wide`` takes, (pairs,)."""
    rows = np.broadcast_to(np.arange(int(np.prod(shape))).reshape(shape), wide).flatten()
    rows.setflags(write=False)
    return rows


@lru_cache(maxsize=4)
def _basis(doublings: int, terms: int) -> tuple[Array, Array, tuple[Array, Array]]:
    """Points from 0 to END, (points,), roots of their weights on one half of the even or odd part of a function, and
    normalized Hermite polynomials times such roots, even and odd ones, (points, terms / 2) each."""
    x = np.linspace(0.0, END, (INTERVALS << doublings) + 1)
    weight = np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * x[1] / 2
    weight[0] /= 2
    root = np.sqrt(weight)
    hermite = np.empty((len(x), terms))
    hermite[:, 0], hermite[:, 1] = 2 * root, 2 * root * x
    for k in range(1, terms - 1):
        hermite[:, k + 1] = (x * hermite[:, k] - np.sqrt(k) * hermite[:, k - 1]) / np.sqrt(k + 1)
    even, odd = (np.ascontiguousarray(hermite[:, k::2]) for k in (0, 1))  # as BLAS wants them
    for array in (x, root, even, odd):
        array.setflags(write=False)
    return x, root, (even, odd)


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
        if f.is_Pow and f.exp == 2:  # (s h + b |h|)^2 is an even part, (s^2 + b^2) h^2, and an odd one, 2 s b h |h|
            slope, bend = scalar_function(f.base).slopes
            part = mean_function(sp.Abs(H), j - 1) if j % 2 else mean_function(H**2, j)
            return lambda p: (4 * slope * bend if j % 2 else slope**2 + bend**2) * part(p)
        slope, bend = scalar_function(f).slopes
        if j % 2:
            return lambda p: np.full(np.shape(p), slope * (j == 1))
        form = closed(gaussian_mean(sp.Abs(H), 0, VARIANCES[0])).diff(VARIANCES[0], j // 2) * 2 ** (j // 2)
        compiled = sp.lambdify(VARIANCES[0], form)
        return lambda p: bend * compiled(np.maximum(p, TINY))
    if (known := _closed_mean(f, j)) is not None:
        return known
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


def _closed_mean(f: sp.Expr, j: int) -> MeanFunction | None:
    """The closed form of E f^(j)(u), which large variances do not spoil; None where there is none."""
    if not f.atoms(sp.Function) <= f.atoms(*CLOSED):
        return None
    form = closed(gaussian_mean(f.diff(H, j), 0, VARIANCES[0]))
    if form.has(Expectation):
        return None
    compiled = sp.lambdify(VARIANCES[0], form, modules=["scipy", "numpy"])
    return lambda p: np.broadcast_to(np.asarray(compiled(p), dtype=np.float64), np.shape(p))


def _differentiated(form: sp.Expr, j: int, k: int) -> sp.Expr:
    """E f^(j)(u) g^(k)(v) from E f(u) g(v): Price's theorem."""
    twice = abs(j - k) // 2
    return form.diff(COVARIANCE, min(j, k)).diff(VARIANCES[j < k], twice) * 2**twice


@lru_cache(maxsize=None)
def _series(f: sp.Expr, order: int) -> Series:
    return Series(Smooth(f, order))
