"""Expressions of the language as array code: which rule writes which node, once."""

from __future__ import annotations

from functools import singledispatchmethod

import sympy as sp
from sympy.core.function import Application

from ..programs.special import NormRatio, Quantile
from ..programs.language import HeadSum, LossDerivative, MatVec, Mean, Outer, Scalar, Vector
from .code_lines import Value
from .totals import Totals


class Writer(Totals):
    """Array code of any expression; what a block knows already is not written again."""

    def value(self, node: sp.Expr) -> Value:
        if not self.varies(node):
            return Value(self.number(node), (), "scalar")
        for known in reversed(self.known):
            if node in known:
                return known[node]
        self.known[-1][node] = value = self._written(node)
        return value

    @singledispatchmethod
    def _written(self, node: sp.Expr) -> Value:
        raise self.refused(node, "it has no rule for them")

    @_written.register(sp.Symbol)
    def _values(self, node: sp.Symbol) -> Value:
        low, high = self.bounds[node]
        return self.kept(f"asarray(range({low}, {high} + 1))", (node,), "scalar")

    @_written.register(Outer)
    def _entries(self, node: Outer) -> Value:
        u, v = (self.vector(part) for part in node.args)
        if u.axes or v.axes:
            raise self.refused(node, "an outer product is read for one index at a time here")
        return self.kept(f"{u.code}[{self.rows}, None] * {v.code}", (), "entries")

    @_written.register(Vector)
    @_written.register(Scalar)
    def _member(self, node: Vector | Scalar) -> Value:
        """A member, or those of all indices that are axes."""
        found = self.names.member(node, self.index, self.bounds)
        self.line(found.read, reads=True)
        code, axes = self.turned(found.code, found.axes, node.own_kind == "vector")
        return self.kept(code, axes, node.own_kind)

    @_written.register(sp.Add)
    def _addition(self, node: sp.Add) -> Value:
        return self.sum_of([self.value(part) for part in node.args])

    _written.register(sp.Mul)(Totals.product)
    _written.register(sp.Sum)(Totals.total)
    _written.register(Mean)(Totals.moment)
    _written.register(HeadSum)(Totals.head_sum)
    _written.register(Quantile)(Totals.quantile)
    _written.register(NormRatio)(Totals.norm_ratio)
    _written.register(MatVec)(Totals.matvec)
    _written.register(LossDerivative)(Totals.loss)
    _written.register(sp.Pow)(Totals.power)
    _written.register(sp.Piecewise)(Totals.piecewise)
    _written.register(Application)(Totals.function)
