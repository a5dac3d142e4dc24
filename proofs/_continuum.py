"""Gamma and C at infinite depth as sympy objects, and the numbers that an equation between them has."""

from __future__ import annotations

from typing import Any, Callable, Mapping

import sympy as sp

import tpcalc as tp
from tpcalc._checks import symbolic

from ._letters import Letters


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
    known: dict[str, Callable[..., Any]] = {
        "GammaLimit": run.gamma, "CLimit": run.c, "Indicator": lambda *conditions: float(all(conditions))}
    return float(Letters(known, numbers, bound=breaks).of(node))
