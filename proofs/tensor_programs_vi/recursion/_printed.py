"""Lemma D.1 as it is printed, in rational arithmetic, with its slips as options: the typed form that errata refute."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Sequence

import sympy as sp

Key = tuple[Any, ...]


class Undefined(KeyError):
    """The printed text reads a value that it does not define."""


class PrintedRecursion:
    """The recursion of Gamma[t, r, a, b, l, m] and C[t, s, a, l] (m and l = 0 where r = -1), squared loss.

    first: where the sums over past steps start; x0_of_nV: the coefficient of nV in x^0, in units of xi; cross:
    C[-1, s, b] for s >= 0, or None where the text gives none.
    """

    def __init__(self, xi: Sequence[Any], y: Sequence[Any], depth: int, first: int = 0, x0_of_nV: int = 0,
                 cross: int | None = 0) -> None:
        self.depth, self.first, self.cross = depth, first, cross
        self.gamma: dict[Key, Fraction] = {}
        self.covariances: dict[Key, Fraction] = {}
        self.outputs: list[Fraction] = []
        for t, (given, wanted) in enumerate(zip(map(_fraction, xi), map(_fraction, y))):
            self.gamma[t, -1, 0, 0, 0, 0], self.gamma[t, -1, 0, 1, 0, 0] = given, x0_of_nV * given
            for l in range(1, depth + 1):
                self._layer(t, 0, l - 1, l, l)
            self.outputs.append(self._gamma(t, -1, 0, 1, depth, 0))
            self.gamma[t, -1, 1, 1, depth, 0] = self.outputs[-1] - wanted
            for l in range(depth, 0, -1):
                self._layer(t, 1, l, l - 1, l)

    def _gamma(self, *key: int) -> Fraction:
        return self.gamma.get(key, Fraction(0))  # a ket has no coefficient on what is not born yet

    def _layer(self, t: int, a: int, old: int, new: int, l: int) -> None:
        """From node ``old`` to node ``new`` through layer ``l``, forward (a = 0) or backward (a = 1)."""
        for s in range(t + 1):
            self.covariances[t, s, a, l] = self.covariances[s, t, a, l] = self._bracket(t, s, a, old)
        for r in range(-1, t + 1):
            for b in (0, 1):
                for m in range(1, self.depth + 1) if r >= 0 else (0,):
                    born = Fraction(int(r == t and b == a and l == m))
                    past = sum((self._gamma(s, r, 1 - a, b, l if a == 0 else l - 1, m)
                                * (self._gamma(t, s, a, 1 - a, old, l) - self.covariances[t, s, a, l])
                                for s in range(self.first, t)), Fraction(0))
                    self.gamma[t, r, a, b, new, m] = self._gamma(t, r, a, b, old, m) + born + past / self.depth

    def _bracket(self, t: int, s: int, a: int, node: int) -> Fraction:
        """Sum over t', s', b of the integral of Gamma C Gamma, which is constant between nodes."""
        total = Fraction(0)
        for r in range(-1, t + 1):
            for r2 in range(-1, s + 1):
                for b in (0, 1):
                    for m in range(1, self.depth + 1):
                        left = self._gamma(t, r, a, b, node, m if r >= 0 else 0)
                        right = self._gamma(s, r2, a, b, node, m if r2 >= 0 else 0)
                        if left and right:
                            total += left * self._covariance(r, r2, b, m) * right / self.depth
        return total

    def _covariance(self, r: int, r2: int, b: int, m: int) -> Fraction:
        if r >= 0 and r2 >= 0:
            return self.covariances[r, r2, b, m]
        if r == r2:
            return Fraction(1)
        if self.cross is None:
            raise Undefined(f"C[{r}, {r2}, {b}]")
        return Fraction(self.cross)


def printed_output(step: int, xi: Sequence[Any], y: Sequence[Any], depth: int, **slips: Any) -> float | None:
    """f at a step by the printed recursion, or None where it reads what it does not define."""
    try:
        return float(PrintedRecursion(xi, y, depth, **slips).outputs[step])
    except Undefined:
        return None


def _fraction(value: Any) -> Fraction:
    """Exactly what a number of Python or sympy is."""
    exact = sp.Rational(value)
    return Fraction(exact.p, exact.q)
