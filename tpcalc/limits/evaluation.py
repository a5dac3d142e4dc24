"""Limit equations read as functions of numbers: every expression becomes a closure over what is known so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Iterable, Mapping

import numpy as np
import sympy as sp

from .._types import Value
from ..errors import NotCovered
from ..programs.language import LossDerivative, Scalar
from .functions import INNER, Coefficient, CovarianceFunction, Indicator, OwnCoefficient, P, Q
from .square import LayerTimeSquare

Numbers = dict[sp.Symbol, int]
Values = Value  # an array that broadcasts over the square of layer times, or a number
Evaluation = Callable[["SolvedValues", Numbers], Values]


@dataclass
class SolvedValues:
    """Values found so far, by (head, numbers); what is not there is zero.

    data: arrays by name; loss: the derivative in the output, from output and target.
    """

    square: LayerTimeSquare
    data: Mapping[str, np.ndarray]
    targets: np.ndarray
    loss: Callable[[float, float], float]
    values: dict[tuple, Value] = field(default_factory=dict)

    def of(self, *key: object) -> Values:
        return self.values.get(key, ZERO)


ZERO = np.zeros((1, 1, 1))


def evaluation(expression: sp.Expr) -> Evaluation:
    """The closure that evaluates an expression; raises ``ValueError`` for a node that has no rule."""
    for cls, rule in RULES.items():
        if isinstance(expression, cls):
            return rule(expression)
    raise NotCovered(f"{expression}: no numerical reading of {type(expression).__name__}")


def index(expression: sp.Expr) -> Callable[[Numbers], int]:
    """A function that reads an index: a symbol and a shift, or a number."""
    if expression.is_Integer:
        value = int(expression)
        return lambda numbers: value
    symbol, = expression.free_symbols
    shift = int(expression - symbol)
    return lambda numbers: numbers[symbol] + shift


def _add(e: sp.Expr) -> Evaluation:
    parts = [evaluation(part) for part in e.args]
    return lambda state, n: _total(part(state, n) for part in parts)


def _mul(e: sp.Expr) -> Evaluation:
    cheap = sorted(e.args, key=lambda f: isinstance(f, (sp.Sum, sp.Integral)))
    parts = [evaluation(part) for part in cheap]

    def product(state: SolvedValues, n: Numbers) -> Values:
        value: Values = 1.0
        for part in parts:
            factor = part(state, n)
            if factor is ZERO or isinstance(factor, float) and factor == 0:
                return ZERO
            value = value * factor
        return value

    return product


def _pow(e: sp.Expr) -> Evaluation:
    if e.is_number:
        return _number(e)
    base, power = evaluation(e.base), float(e.exp)
    return lambda state, n: base(state, n) ** power


def _symbol(e: sp.Symbol) -> Evaluation:
    """A function that reads a symbol: a layer time, or a training step."""
    if e in (P, INNER):
        return lambda state, n: state.square.times[None, :, None]
    if e == Q:
        return lambda state, n: state.square.times[None, None, :]
    return lambda state, n: float(n[e])


def _total(values: Iterable[Values]) -> Values:
    found: Values = ZERO
    for value in values:
        if value is not ZERO:
            found = value if found is ZERO else found + value
    return found


def _number(e: sp.Expr) -> Evaluation:
    value = float(e)
    return lambda state, n: value


def _sum(e: sp.Sum) -> Evaluation:
    body = evaluation(e.function)
    ranges = [(v, index(first), index(last)) for v, first, last in e.limits]

    def total(state: SolvedValues, n: Numbers) -> Values:
        def over(depth: int, inner: Numbers) -> Values:
            if depth == len(ranges):
                return body(state, inner)
            v, first, last = ranges[depth]
            return _total(over(depth + 1, {**inner, v: i}) for i in range(first(n), last(n) + 1))

        return over(0, n)

    return total


def _integral(e: sp.Integral) -> Evaluation:
    body, (variable, first, _) = evaluation(e.function), e.limits[0]
    upward = first == 0

    def value(state: SolvedValues, n: Numbers) -> Values:
        inside = body(state, n)
        if inside is ZERO:
            return ZERO
        inside = np.atleast_3d(inside)  # a number where nothing depends on the layer
        return state.square.over_q(inside) if variable == Q else state.square.along_p(inside, upward)

    return value


def _delta(e: sp.KroneckerDelta) -> Evaluation:
    i, j = map(index, e.args)
    return lambda state, n: float(i(n) == j(n))


def _indicator(e: Indicator) -> Evaluation:
    sign = e.sign
    return lambda state, n: state.square.indicator(sign)


def _coefficient(e: Coefficient) -> Evaluation:
    a, b, t, r = map(index, e.args[:4])
    p, side = e.args[4], e.side
    end = int(p) if p.is_number else None

    def value(state: SolvedValues, n: Numbers) -> Values:
        key = (a(n), b(n), t(n), r(n))
        if end is not None and ("end", *key, end) in state.values:
            return state.of("end", *key, end)  # where a sweep starts its value is given
        found = state.of("Gamma", *key)
        if found is ZERO:
            return found
        if side:
            return state.square.on_diagonal(found, side)
        return found if end is None else state.square.at_end(found, end)

    return value


def _own(e: OwnCoefficient) -> Evaluation:
    a, b, t, r = map(index, e.args[:4])
    return lambda state, n: state.of("own", a(n), b(n), t(n), r(n))


def covariance_key(b: int, c: int, t: int, s: int) -> tuple:
    """Where a covariance is kept: C is symmetric, so the later step comes first."""
    (t, b), (s, c) = sorted(((t, b), (s, c)), reverse=True)
    return ("C", b, c, t, s)


def _covariance(e: CovarianceFunction) -> Evaluation:
    b, c, t, s = map(index, e.args[:4])
    along_q = e.args[4] == Q

    def value(state: SolvedValues, n: Numbers) -> Values:
        found = state.of(*covariance_key(b(n), c(n), t(n), s(n)))
        return found.swapaxes(1, 2) if along_q else found

    return value


def _scalar(e: Scalar) -> Evaluation:
    name, layered = e.name, any(i in (P, INNER, Q) for i in e.indices)
    indices = [index(i) for i in e.indices if i not in (P, INNER, Q)]
    along_q = Q in e.indices

    def value(state: SolvedValues, n: Numbers) -> Values:
        numbers = tuple(i(n) for i in indices)
        if name in state.data:
            return float(state.data[name][numbers])
        found = state.of(name, *numbers)
        return found.swapaxes(1, 2) if layered and along_q and found is not ZERO else found

    return value


def _loss(e: LossDerivative) -> Evaluation:
    output, step = evaluation(e.args[0]), index(e.args[1])
    return lambda state, n: state.loss(float(np.squeeze(output(state, n))), float(state.targets[step(n)]))


RULES: dict[type, Callable[[sp.Expr], Evaluation]] = {
    sp.Add: _add, sp.Mul: _mul, sp.Pow: _pow, sp.Sum: _sum, sp.Integral: _integral, sp.KroneckerDelta: _delta,
    Indicator: _indicator, Coefficient: _coefficient, OwnCoefficient: _own, CovarianceFunction: _covariance,
    LossDerivative: _loss, Scalar: _scalar, sp.Symbol: _symbol, sp.Number: _number}
