"""Rules of one step on one sample: the reflection form written out, recurrences in layers and their limit, solved."""

from __future__ import annotations

from typing import Any, Mapping

import sympy as sp
from sympy.core.function import AppliedUndef

from ..._matrices import value
from ..._rewriting import Rewriting, of_nodes
from ...tpcalc.reflection_form import EPS, RHO, UPDATE

Q_, L_ = sp.symbols("q L", positive=True)  # q = 1 + 1/L
LAYER = sp.Symbol("l", integer=True, positive=True)
TAU = sp.Symbol("tau", positive=True)


class Part(sp.Expr):
    """One entry of a matrix: args: an expression in matrices, row, column, both from 0."""

    is_commutative = True

    def _latex(self, printer: Any) -> str:
        matrix, i, j = self.args
        return rf"\left[{printer.doprint(matrix)}\right]_{{{i}{j}}}"


def write_out(matrices: Mapping[sp.Expr, sp.Matrix]) -> Rewriting:
    """The entry of a product of 2 x 2 matrices; 1/L = eps^2 = eps g is written q - 1."""
    def entry(part: Part) -> sp.Expr:
        matrix, i, j = part.args
        return matrix_value(matrix, matrices)[int(i), int(j)]
    return Rewriting("write out", "two steps, one input: 2 x 2 matrices; $\\epsilon^2 = \\epsilon g = q - 1$",
                     "algebra", lambda expression: sp.expand(of_nodes(Part, entry)(expression)))


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


def insert(found: Mapping[sp.Expr, sp.Expr]) -> Rewriting:
    """Put in what functions of the layer, or of layer time, have been found to be, f(l) or f(tau) -> its value."""
    values = {f.func: (f.args[0], value) for f, value in found.items() if isinstance(f, AppliedUndef)}

    def apply(expression: sp.Expr) -> sp.Expr:
        return collected(expression.replace(
            lambda e: getattr(e, "func", None) in values,
            lambda e: values[e.func][1].subs(values[e.func][0], e.args[0])))
    return Rewriting("insert", "found before", "algebra", apply)


def solve_recurrence(unknown: sp.Expr, start: sp.Expr, forward: bool) -> Rewriting:
    """y_k = a y_(k-1) + s_k gives y_k = a^k y_0 + sum_(j <= k) a^(k-j) s_j; k counts layers from where y is known.

    unknown: y(l); start: y at layer 0, or, for backward ones, y at layer L; the expression is y(l), or y(l - 1).
    """
    def apply(expression: sp.Expr) -> sp.Expr:
        j = sp.Symbol("j", integer=True, positive=True)
        passed = LAYER if forward else L_ - LAYER
        before = unknown.subs(LAYER, LAYER - 1) if forward else unknown
        factor = sp.expand(expression).coeff(before)
        source = sp.expand(expression - factor * before)
        if source.has(before.func) or factor.has(LAYER):
            raise ValueError(f"{expression}: no recurrence of first order in {before} with a constant factor")
        shifted = source.subs(LAYER, j if forward else L_ - j + 1)
        terms = sp.powsimp(sp.expand(shifted * factor**-j))
        total = sp.summation(sp.expand(terms), (j, 1, passed))
        return sp.powsimp(factor**passed) * (start + collected(total))
    return Rewriting("solve the recurrence", "from the first layer on" if forward else "from the last layer back",
                     "algebra", apply)


def _to_layer_time(expression: sp.Expr) -> sp.Expr:
    """The change over one layer times L, as L grows: layers become layer time, q becomes 1."""
    joined = expression.subs(LAYER - 1, LAYER)
    return sp.expand(sp.cancel(sp.together(sp.expand(joined))).subs(Q_, 1).subs(LAYER, TAU))


LAYER_TIME = Rewriting("layers to layer time", "$l = \\tau L$, $L \\to \\infty$: neighboring layers have one limit",
                       "Tensor Programs VI, proposition C.4", _to_layer_time)


def variation_of_constants(unknown: sp.Expr, start: sp.Expr, forward: bool) -> Rewriting:
    """y' = a y + s(tau), a a number: y is e^(a tau) times y(0) and the integral of e^(-a tau) s; or from tau = 1."""
    end = 0 if forward else 1

    def apply(expression: sp.Expr) -> sp.Expr:
        expression = sp.expand(expression)
        rate, sigma = expression.coeff(unknown), sp.Symbol("sigma", positive=True)
        source = sp.expand(expression - rate * unknown)
        if not rate.is_number or source.has(unknown.func):
            raise ValueError(f"{expression}: not linear in {unknown} with a constant rate")
        inside = sp.powsimp(sp.expand(sp.exp(-rate * sigma) * source.subs(TAU, sigma)))
        integral = sp.integrate(inside, (sigma, end, TAU))
        return sp.exp(rate * (TAU - end)) * (start + collected(sp.exp(rate * end) * integral))
    return Rewriting("variation of constants", f"the value at $\\tau = {end}$ is ${sp.latex(start)}$", "algebra", apply)
