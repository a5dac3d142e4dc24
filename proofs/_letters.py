"""Numbers that printed equations have: fields are looked up, sums and integrals are done as they are written."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Callable, Mapping

import numpy as np
import sympy as sp

from tpcalc._types import Value

from .depthwise_transfer._fields import Average, Slope

NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)

FUNCTIONS: Mapping[type, Callable[..., Value]] = {
    sp.Add: lambda *terms: reduce(operator.add, terms), sp.Mul: lambda *factors: reduce(operator.mul, factors),
    sp.UnevaluatedExpr: lambda value: value,
    sp.Pow: operator.pow, sp.exp: np.exp, sp.log: np.log, sp.Max: max, sp.Eq: operator.eq, sp.Le: operator.le,
    sp.Ge: operator.ge, sp.KroneckerDelta: lambda first, second: float(first == second),
    sp.Heaviside: lambda argument, _: float(argument > 0)}


@dataclass(frozen=True)
class Letters:
    """What the letters of an equation are.

    fields: by the name of their class, of indices and place, indexed letters too; of a derivative the names with a
    stroke, "h/u", and both their arguments.
    symbols: numbers; mean: of a product within an average, by default of sites as arrays.
    Values may be numbers, or arrays where equations are linear.
    """

    fields: Mapping[str, Callable[..., Value]] = field(default_factory=dict)
    symbols: Mapping[sp.Symbol, Value] = field(default_factory=dict)
    mean: Callable[["Letters", sp.Expr], Value] = lambda reading, body: np.mean(reading.of(body))
    bound: tuple[float, ...] = ()   # where integrands may have kinks: what stands for variables of outer integrals

    def at(self, values: Mapping[sp.Symbol, Value]) -> "Letters":
        return replace(self, symbols={**self.symbols, **values})

    def of(self, node: sp.Basic) -> Value:
        """The value; raises ``TypeError`` for a letter that stands for nothing."""
        name = type(node).__name__
        if node in self.symbols:
            return self.symbols[node]
        if node.is_Rational:
            return int(node) if node.is_Integer else node.p / node.q
        if type(node) in FUNCTIONS:
            return FUNCTIONS[type(node)](*map(self.of, node.args))
        if isinstance(node, sp.Indexed):
            return self._called(str(node.base), node.indices)
        if isinstance(node, Slope):
            return self._called("/".join(type(one).__name__ for one in node.args),
                                [argument for one in node.args for argument in one.args])
        if name in self.fields:
            return self._called(name, node.args)
        if isinstance(node, Average):
            return self.mean(self, node.args[0])
        if isinstance(node, (sp.Sum, sp.Integral)):
            *inner, (variable, first, last) = node.limits
            body = node.func(node.function, *inner) if inner else node.function
            total = self._sum if isinstance(node, sp.Sum) else self._integral
            return total(body, variable, self.of(first), self.of(last))
        found = complex(node)
        return found.real if found.imag == 0 else found

    def _called(self, name: str, arguments: Value) -> Value:
        return self.fields[name](*map(self.of, arguments))

    def _sum(self, body: sp.Expr, index: sp.Symbol, low: Value, high: Value) -> Value:
        terms = [self.at({index: k}).of(body) for k in range(round(low), round(high) + 1)]
        return reduce(operator.add, terms) if terms else 0.0

    def _integral(self, body: sp.Expr, variable: sp.Symbol, low: Value, high: Value) -> Value:
        ends, total = sorted({low, high, *(x for x in self.bound if low < x < high)}), 0.0
        for left, right in zip(ends, ends[1:]):
            for x, w in zip(NODES, WEIGHTS):
                location = (left + right + x * (right - left)) / 2
                within = replace(self.at({variable: location}), bound=(*self.bound, location))
                total = total + w * (right - left) / 2 * within.of(body)
        return total
