"""Expressions of the language as array code: which rule writes which node, once."""

from __future__ import annotations

import sympy as sp
from sympy.core.function import Application

from ..programs.language import LossDerivative, Mat, MatVec, Member, Moment, Outer, Scal
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
        value = self._written(node)
        self.known[-1][node] = value
        return value

    def _written(self, node: sp.Expr) -> Value:
        if isinstance(node, sp.Symbol):
            low, high = self.bounds[node]
            return self.kept(f"asarray(range({low}, {high} + 1))", (node,), "scalar")
        if isinstance(node, Member) and not isinstance(node, Mat):
            return self.member(node)
        if isinstance(node, sp.Add):
            return self.sum_of([self.value(part) for part in node.args])
        if isinstance(node, sp.Mul):
            return self.product(node)
        if isinstance(node, sp.Sum):
            return self.total(node)
        if isinstance(node, Moment):
            return self.moment(node)
        if isinstance(node, MatVec):
            return self.matvec(node)
        if isinstance(node, LossDerivative):
            return self.loss(node)
        if isinstance(node, Outer):
            u, v = (self.vector(part) for part in node.args)
            if u.axes or v.axes:
                raise self.refused(node, "an outer product is read for one index at a time here")
            return self.kept(f"{u.code}[{self.rows}, None] * {v.code}", (), "entries")
        if isinstance(node, sp.Pow):
            return self.power(node)
        if isinstance(node, sp.Piecewise):
            return self.piecewise(node)
        if isinstance(node, Application):
            return self.function(node)
        raise self.refused(node, "it has no rule for them")

    def member(self, node: Member) -> Value:
        """A member, or those of all indices that are axes."""
        found = self.names.member(node, self.index, self.bounds)
        self.line(found.read, reads=True)
        code, axes = self.turned(found.code, found.axes, not isinstance(node, Scal))
        return self.kept(code, axes, "scalar" if isinstance(node, Scal) else "vector")
