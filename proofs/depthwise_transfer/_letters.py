"""Numbers that printed equations have: fields are looked up, sums and integrals are done as they are written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import singledispatch
from math import prod
from typing import Callable, Mapping

import numpy as np
import sympy as sp
from sympy.core.numbers import ImaginaryUnit

from tpcalc._types import Value

from ._fields import Average, Field, Slope

NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)


@dataclass(frozen=True)
class Letters:
    """What the letters of an equation are.

    fields: by name, of indices and place, indexed letters too; of a derivative the names with a stroke, "h/u", and both
    their arguments.
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
        return _value(node, self)

    def called(self, name: str, arguments: Value) -> Value:
        return self.fields[name](*map(self.of, arguments))


@singledispatch
def _value(node: sp.Basic, reading: Letters) -> Value:
    found = complex(node)
    return found.real if found.imag == 0 else found


@_value.register
def _(node: sp.Symbol, reading: Letters) -> Value:
    if node not in reading.symbols:
        raise TypeError(f"{node}: no value for it")
    return reading.symbols[node]


@_value.register
def _(node: sp.Integer, reading: Letters) -> Value:
    return int(node)


@_value.register
def _(node: sp.Rational, reading: Letters) -> Value:
    return node.p / node.q


@_value.register
def _(node: ImaginaryUnit, reading: Letters) -> Value:
    return 1j


@_value.register
def _(node: sp.Add, reading: Letters) -> Value:
    return sum(map(reading.of, node.args[1:]), reading.of(node.args[0]))


@_value.register
def _(node: sp.Mul, reading: Letters) -> Value:
    return prod(map(reading.of, node.args[1:]), start=reading.of(node.args[0]))


@_value.register
def _(node: sp.Pow, reading: Letters) -> Value:
    return reading.of(node.args[0])**reading.of(node.args[1])


@_value.register
def _(node: sp.exp, reading: Letters) -> Value:
    return np.exp(reading.of(node.args[0]))


@_value.register
def _(node: sp.log, reading: Letters) -> Value:
    return np.log(reading.of(node.args[0]))


@_value.register
def _(node: sp.Max, reading: Letters) -> Value:
    return max(map(reading.of, node.args))


@_value.register
def _(node: sp.KroneckerDelta, reading: Letters) -> Value:
    first, second = map(reading.of, node.args)
    return float(first == second)


@_value.register
def _(node: sp.Heaviside, reading: Letters) -> Value:
    return float(reading.of(node.args[0]) > 0)


@_value.register
def _(node: Field, reading: Letters) -> Value:
    return reading.called(type(node).__name__, node.args)


@_value.register
def _(node: sp.Indexed, reading: Letters) -> Value:
    return reading.called(str(node.base), node.indices)


@_value.register
def _(node: Slope, reading: Letters) -> Value:
    names = "/".join(type(one).__name__ for one in node.args)
    return reading.called(names, [argument for one in node.args for argument in one.args])


@_value.register
def _(node: Average, reading: Letters) -> Value:
    return reading.mean(reading, node.args[0])


@_value.register
def _(node: sp.Sum, reading: Letters) -> Value:
    *inner, (index, first, last) = node.limits
    body = sp.Sum(node.function, *inner) if inner else node.function
    terms = [reading.at({index: k}).of(body) for k in range(round(reading.of(first)), round(reading.of(last)) + 1)]
    return sum(terms[1:], terms[0]) if terms else 0.0


@_value.register
def _(node: sp.Integral, reading: Letters) -> Value:
    *inner, (variable, first, last) = node.limits
    body = sp.Integral(node.function, *inner) if inner else node.function
    low, high = reading.of(first), reading.of(last)
    ends, total = sorted({low, high, *(x for x in reading.bound if low < x < high)}), 0.0
    for left, right in zip(ends, ends[1:]):
        for x, w in zip(NODES, WEIGHTS):
            location = (left + right + x * (right - left)) / 2
            within = replace(reading.at({variable: location}), bound=(*reading.bound, location))
            total = total + w * (right - left) / 2 * within.of(body)
    return total
