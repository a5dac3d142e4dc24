"""Gamma and C at infinite depth as sympy objects, and the numbers that an equation between them has."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc._checks import symbolic

NODES, WEIGHTS = np.polynomial.legendre.leggauss(10)


class _Limit(sp.Expr):
    is_commutative = True
    is_real = True

    def __new__(cls, *args: Any) -> sp.Expr:
        return super().__new__(cls, *map(symbolic, args))

    def _written(self, printer: Any, name: str, indices: int) -> str:
        parts = [printer.doprint(i) for i in self.args]
        return rf"{name}_{{{','.join(parts[:indices])}}}\left({', '.join(parts[indices:])}\right)"


class GammaLimit(_Limit):
    """Gamma_{t,r,a,b}(p, q)."""

    def _latex(self, printer: Any) -> str:
        return self._written(printer, r"\Gamma", 4)


class CLimit(_Limit):
    """C_{t,s,a}(p)."""

    def _latex(self, printer: Any) -> str:
        return self._written(printer, "C", 3)


class Indicator(_Limit):
    """1 where all conditions hold, else 0."""

    def _latex(self, printer: Any) -> str:
        conditions = r",\, ".join(map(printer.doprint, self.args))
        return rf"\mathbb{{I}}\left[{conditions}\right]"


def value(node: sp.Basic, numbers: Mapping[sp.Basic, Any], run: tp.Run, breaks: tuple[float, ...] = ()) -> float:
    """The number that an expression is for a trained network; integrals are Gaussian between ``breaks``.

    breaks: where integrands may jump, the layer times of sources.
    """
    def of(part: sp.Basic, more: Mapping[sp.Basic, Any] = {}) -> float:
        return value(part, {**numbers, **more}, run, breaks)

    if isinstance(node, sp.Symbol):
        return numbers[node]
    if isinstance(node, (sp.Add, sp.Mul)):
        terms = [of(part) for part in node.args]
        return float(np.sum(terms) if isinstance(node, sp.Add) else np.prod(terms))
    if isinstance(node, GammaLimit):
        t, r, a, b = (int(of(i)) for i in node.args[:4])
        return run.gamma(t, r, a, b, of(node.args[4]), of(node.args[5]))
    if isinstance(node, CLimit):
        t, s, a = (int(of(i)) for i in node.args[:3])
        return run.c(t, s, a, of(node.args[3]))
    if isinstance(node, Indicator):
        return float(all(bool(c.func(sp.Float(of(c.lhs)), sp.Float(of(c.rhs)))) for c in node.args))
    if isinstance(node, sp.Sum):
        return _sum(node.function, list(node.limits), numbers, run, breaks)
    if isinstance(node, sp.Integral):
        (variable, first, last), = node.limits
        low, high = of(first), of(last)
        ends = sorted({low, high, *(x for x in breaks if low < x < high)})
        total = 0.0
        for left, right in zip(ends, ends[1:]):
            for x, w in zip(NODES, WEIGHTS):
                total += w * (right - left) / 2 * of(node.function, {variable: (left + right + x * (right - left)) / 2})
        return total
    return float(node)


def _sum(body: sp.Expr, limits: list[Any], numbers: Mapping[sp.Basic, Any], run: tp.Run,
         breaks: tuple[float, ...]) -> float:
    if not limits:
        return value(body, numbers, run, breaks)
    index, first, last = limits[-1]
    low, high = (int(value(end, numbers, run)) for end in (first, last))
    return sum((_sum(body, limits[:-1], {**numbers, index: i}, run, breaks) for i in range(low, high + 1)), 0.0)
