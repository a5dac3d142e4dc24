"""Slopes of fields in sources: what is linear, products, and sources themselves."""

from __future__ import annotations

from typing import Callable

import sympy as sp

from .._rewriting import Rewriting, of_nodes
from ._fields import Field, Slope


def differentiate(source: sp.Expr, moves: Callable[[Field], bool], same: Callable[[sp.Expr, sp.Expr], sp.Expr]
                  ) -> Rewriting:
    """The slope in a source of an expression: kernels and responses are numbers.

    moves: does a field depend on sources; same: from indices of two sources of a kind to the slope of one in the other.
    """
    def slope(one: sp.Expr) -> sp.Expr:
        if isinstance(one, sp.Add):
            return sp.Add(*map(slope, one.args))
        if isinstance(one, sp.Mul):
            return sp.Add(*(sp.Mul(*one.args[:number], slope(factor), *one.args[number + 1:])
                            for number, factor in enumerate(one.args)))
        if isinstance(one, (sp.Sum, sp.Integral)):
            inner = slope(one.function)
            return one.func(inner, *one.limits) if inner != 0 else inner
        if type(one) is type(source):
            return same(one, source)
        return Slope(one, source) if isinstance(one, Field) and moves(one) else sp.Integer(0)

    def rewrite(one: Slope) -> sp.Expr:
        return slope(one.args[0]) if not isinstance(one.args[0], Field) else one
    return Rewriting("differentiate", "kernels and responses are numbers, the first stream and the last gradient know "
                     "of no source", "calculus", of_nodes(Slope, rewrite))
