"""Rules of one step on one sample: the reflection form written out, recurrences in layers and their limit, solved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

import sympy as sp
from sympy.core.function import AppliedUndef

from .._matrices import value
from ..tpcalc.reflection_form import EPS, RHO, UPDATE

Q_, L_ = sp.symbols("q L", positive=True)  # q = 1 + 1/L
LAYER = sp.Symbol("l", integer=True, positive=True)
TAU = sp.Symbol("tau", positive=True)


class Part(sp.Expr):
    """One entry of a matrix: args: an expression in matrices, row, column, both from 0."""

    is_commutative = True

    def _latex(self, printer: Any) -> str:
        matrix, i, j = self.args
        return rf"\left[{printer.doprint(matrix)}\right]_{{{i}{j}}}"


@dataclass
class WriteOut:
    """The entry of a product of 2 x 2 matrices; 1/L = eps^2 = eps g is written q - 1."""

    matrices: Mapping[sp.Expr, sp.Matrix]
    name = "write out"
    reason = "two steps, one input: 2 x 2 matrices; $\\epsilon^2 = \\epsilon g = q - 1$"
    source = "algebra"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        return sp.expand(expression.replace(lambda e: isinstance(e, Part), self._entry))

    def _entry(self, part: sp.Expr) -> sp.Expr:
        matrix, i, j = part.args
        return matrix_value(matrix, self.matrices)[int(i), int(j)]


def matrix_value(node: sp.Expr, known: Mapping[sp.Expr, sp.Matrix]) -> Any:
    """An expression in non-commutative symbols as a 2 x 2 matrix; rho is the unit matrix."""
    sizes = {RHO: sp.eye(2), EPS: sp.sqrt(Q_ - 1), UPDATE: sp.sqrt(Q_ - 1)}
    return value(node, {**sizes, **known}, number=lambda exact: exact)


def collected(expression: sp.Expr) -> sp.Expr:
    """Terms in functions that are not known, plus everything else as one product."""
    expression = sp.expand(expression)
    unknown, known = sp.Add.make_args(expression), sp.Integer(0)
    if expression.has(AppliedUndef):
        known = sp.Add(*(term for term in unknown if not term.has(AppliedUndef)))
        return expression - known + sp.factor(sp.powsimp(known))
    return sp.factor(sp.powsimp(expression))


@dataclass
class Insert:
    """Put in what functions of the layer, or of layer time, have been found to be."""

    found: Mapping[sp.Expr, sp.Expr]  # f(l) or f(tau) -> its value
    name = "insert"
    reason = "found before"
    source = "algebra"

    def __post_init__(self) -> None:
        self.found = {f: value for f, value in self.found.items() if isinstance(f, AppliedUndef)}

    def apply(self, expression: sp.Expr) -> sp.Expr:
        values = {target.func: (target.args[0], value) for target, value in self.found.items()}
        return collected(expression.replace(
            lambda e: getattr(e, "func", None) in values,
            lambda e: values[e.func][1].subs(values[e.func][0], e.args[0])))


@dataclass
class Recurrence:
    """y_k = a y_(k-1) + s_k gives y_k = a^k y_0 + sum_(j <= k) a^(k-j) s_j; k counts layers from where y is known.

    unknown: y(l); start: y at layer 0, or, for backward ones, y at layer L; the expression is y(l), or y(l - 1).
    """

    unknown: sp.Expr
    start: sp.Expr
    forward: bool
    name = "solve the recurrence"
    source = "algebra"

    def __post_init__(self) -> None:
        self.reason = "from the first layer on" if self.forward else "from the last layer back"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        j = sp.Symbol("j", integer=True, positive=True)
        passed = LAYER if self.forward else L_ - LAYER
        before = self.unknown.subs(LAYER, LAYER - 1) if self.forward else self.unknown
        factor = sp.expand(expression).coeff(before)
        source = sp.expand(expression - factor * before)
        if source.has(before.func) or factor.has(LAYER):
            raise ValueError(f"{expression}: no recurrence of first order in {before} with a constant factor")
        shifted = source.subs(LAYER, j if self.forward else L_ - j + 1)
        terms = sp.powsimp(sp.expand(shifted * factor**-j))
        total = sp.summation(sp.expand(terms), (j, 1, passed))
        return sp.powsimp(factor**passed) * (self.start + collected(total))


@dataclass
class LayerTime:
    """The change over one layer times L, as L grows: layers become layer time, q becomes 1."""

    name = "layers to layer time"
    reason = "$l = \\tau L$, $L \\to \\infty$: neighboring layers have one limit"
    source = "Tensor Programs VI, proposition C.4"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        joined = expression.subs(LAYER - 1, LAYER)
        return sp.expand(sp.cancel(sp.together(sp.expand(joined))).subs(Q_, 1).subs(LAYER, TAU))


@dataclass
class VariationOfConstants:
    """y' = a y + s(tau), a a number: y is e^(a tau) times y(0) and the integral of e^(-a tau) s; or from tau = 1."""

    unknown: sp.Expr
    start: sp.Expr
    forward: bool
    name = "variation of constants"
    source = "algebra"

    def __post_init__(self) -> None:
        self.reason = f"the value at $\\tau = {0 if self.forward else 1}$ is ${sp.latex(self.start)}$"

    def apply(self, expression: sp.Expr) -> sp.Expr:
        expression = sp.expand(expression)
        rate, sigma, end = expression.coeff(self.unknown), sp.Symbol("sigma", positive=True), 0 if self.forward else 1
        source = sp.expand(expression - rate * self.unknown)
        if not rate.is_number or source.has(self.unknown.func):
            raise ValueError(f"{expression}: not linear in {self.unknown} with a constant rate")
        inside = sp.powsimp(sp.expand(sp.exp(-rate * sigma) * source.subs(TAU, sigma)))
        integral = sp.integrate(inside, (sigma, end, TAU))
        return sp.exp(rate * (TAU - end)) * (self.start + collected(sp.exp(rate * end) * integral))
