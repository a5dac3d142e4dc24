"""Ket expressions read at a finite width n, where outer products and brackets are exact: arrays and averages."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np
import sympy as sp

from tpcalc.calculus.kets import Averaged, Bracket, Ket
from tpcalc.gaussian.variables import Expectation
from tpcalc.programs.language import MatVec, Member, Mean, NonlinearOuter, Outer, Transpose

Values = Mapping[sp.Expr, Any]


def at_width(expression: sp.Expr, values: Values) -> Any:
    """The array or number that an expression is, given arrays for its vectors and matrices, numbers for its symbols."""
    if expression in values:
        return values[expression]
    bound = Averaged, Expectation, Member, NonlinearOuter, sp.Sum
    parts = [] if isinstance(expression, bound) else [at_width(part, values) for part in expression.args]
    if isinstance(expression, Ket):
        return parts[0]
    if isinstance(expression, Bracket):
        return np.mean(parts[0] * parts[1])
    if isinstance(expression, Mean):
        return np.mean(parts[0])
    if isinstance(expression, Expectation) and not expression.has_law:
        return np.mean(at_width(expression.body, values))  # a coordinate drawn at random is what a ket is
    if isinstance(expression, NonlinearOuter):
        matrix = entrywise(expression.body, values)
        return matrix / len(matrix)
    if isinstance(expression, Averaged):
        return np.mean(entrywise(expression.body, values) * at_width(expression.args[1], values), axis=1)
    if isinstance(expression, Outer):
        return np.outer(parts[0], parts[1]) / len(parts[0])
    if isinstance(expression, Transpose):
        return parts[0].T
    if isinstance(expression, MatVec):
        return parts[0] @ parts[1]
    if isinstance(expression, sp.Sum):
        (index, first, last), = expression.limits
        steps = range(int(first), int(last) + 1)
        return sum(at_width(expression.function.subs(index, step), values) for step in steps)
    if isinstance(expression, (sp.Add, sp.Mul)):
        total = parts[0]
        for part in parts[1:]:
            total = total + part if isinstance(expression, sp.Add) else total * part
        return total
    if isinstance(expression, sp.Pow):
        return parts[0] ** parts[1]
    if expression.is_number:
        return float(expression)
    raise TypeError(f"{expression}: got no value")


def entrywise(body: sp.Expr, values: Values) -> Any:
    """A function of outer products u v^T, entry by entry: a row for every coordinate of u, a column for those of v."""
    outers = sorted(body.atoms(Outer), key=sp.default_sort_key)
    matrices = [np.outer(at_width(outer.left, values), at_width(outer.right, values)) for outer in outers]
    names = [sp.Dummy() for _ in outers]
    return sp.lambdify(names, body.xreplace(dict(zip(outers, names))), "numpy")(*matrices)
