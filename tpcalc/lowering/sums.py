"""Sums over the history that a recurrence carries: S(t) = r(t) S(t-1) + what step t adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

import sympy as sp


@dataclass(frozen=True)
class Recurrence:
    """S(t) = ratio(t) S(t-1) + the sum's function at its upper end; clock: the t that grows with that end."""

    clock: sp.Symbol
    ratio: sp.Expr


def recurrence(total: sp.Sum, clocks: Sequence[sp.Symbol]) -> Recurrence | None:
    """The recurrence of a sum over k = low, ..., t + constant with terms c(t, k) h(k), None for any other sum.

    c(t, k) / c(t-1, k) may not depend on k.

    clocks: indices of loops that go up by one. A moving average is such a sum:

    >>> t, k = sp.symbols("t k", integer=True, nonnegative=True)
    >>> h = sp.Function("h")
    >>> recurrence(sp.Sum(sp.Rational(9, 10)**(t - k) * h(k)**2, (k, 0, t)), [t]).ratio
    9/10
    >>> recurrence(sp.Sum(h(k) / (1 + t - k), (k, 0, t)), [t]) is None
    True
    """
    if len(total.limits) != 1:
        return None
    (k, low, high), = total.limits
    for t in clocks:
        if not (high - t).is_Integer or low.has(t):
            continue
        rest, moving = total.function.as_independent(t, as_Add=False)
        if not _is_scalar(moving):
            continue
        ratio = sp.simplify(moving / moving.subs(t, t - 1))
        if not ratio.has(k) and not ratio.has(sp.zoo, sp.nan):
            return Recurrence(t, ratio)
    return None


def _is_scalar(expression: sp.Expr) -> bool:
    """Is it made of numbers and symbols alone?"""
    return all(part.is_Symbol or part.is_Number or part.is_NumberSymbol for part in sp.preorder_traversal(expression)
               if not part.args)
