"""Means of pairs of Gaussians by Mehler's formula: E f(u) g(v) = sum over k of a_k b_k r^k.

a_k = E f(sqrt(p) x) h_k(x), with the normalized Hermite polynomials h_k, belong to one variable and one variance. So a
function is evaluated once for every row and not for every pair of rows, and pairs are products of short vectors. What
a number of terms leaves out is bounded by norms that are known: means are as exact as asked for, or go to quadrature.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Callable, NamedTuple

import numpy as np

from ..kernels import mehler
from .trapezoid import TINY, Array, Smooth, trapezoid_overlap, spreads

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
