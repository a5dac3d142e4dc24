"""Algebra that leaves nonlinear functions alone."""

from __future__ import annotations

from functools import lru_cache
from typing import Callable

import sympy as sp

from ..errors import NotCovered


@lru_cache(maxsize=8192)
def multiplied_out(expression: sp.Expr) -> sp.Expr:
    """Products of sums multiplied out and ``Sum`` split over its terms; all other functions and powers stay whole.

    ``sp.expand`` goes everywhere: into functions, averages and exponents.
    """
    whole: dict[sp.Expr, sp.Dummy] = {}

    def sealed(part: sp.Expr) -> sp.Expr:
        if part.is_Number:
            return part
        if isinstance(part, (sp.Add, sp.Mul)) or isinstance(part, sp.Pow) and part.exp.is_Integer and part.exp > 1:
            return part.func(*map(sealed, part.args))
        if isinstance(part, sp.Sum):
            terms = sp.Add.make_args(multiplied_out(part.function))
            return sp.Add(*(_name(whole, sp.Sum(term, *part.limits)) for term in terms))
        return _name(whole, part)

    expanded = sp.expand(sealed(expression)).xreplace({name: part for part, name in whole.items()})
    return expanded if expanded == expression else multiplied_out(expanded)  # a root squared is a new product


def _name(whole: dict[sp.Expr, sp.Dummy], part: sp.Expr) -> sp.Dummy:
    return whole.setdefault(part, sp.Dummy())


def replaced(expression: sp.Expr, kind: type[sp.Basic], change: Callable[[sp.Expr], sp.Expr]) -> sp.Expr:
    """The expression with every node of a class as what ``change`` makes of it, inner ones first."""
    return expression.replace(lambda e: isinstance(e, kind), change) if expression.has(kind) else expression


def power_of(number: sp.Expr, variable: sp.Symbol) -> sp.Expr:
    """p where a number is a multiple of ``variable**p``; ``NotCovered`` where it is no such power.

    >>> L, a = sp.symbols("L alpha", positive=True)
    >>> power_of(3 * a * L**-a / sp.sqrt(L), L)
    -alpha - 1/2
    """
    found = sp.expand(sp.powsimp(variable * sp.diff(number, variable) / number))
    if found.has(variable):
        found = sp.simplify(found)
    if found.has(variable):
        raise NotCovered(f"number: got {number}; expected a multiple of a power of {variable}")
    return found
