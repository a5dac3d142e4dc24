"""Fractions, square roots, linear forms and the rank of covariances."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import sympy as sp


def tidy(expression: sp.Expr) -> sp.Expr:
    """One fraction, factored: zero if it is zero, and square roots of it split."""
    return sp.factor(expression)


def root(variance: sp.Expr) -> sp.Expr:
    """The square root of a positive fraction, as the quotient of two, so that it cancels against others."""
    above, below = sp.fraction(tidy(variance))
    return sp.sqrt(above) / sp.sqrt(below)


def slopes(form: sp.Expr, variables: Iterable[sp.Expr]) -> sp.Matrix | None:
    """Coefficients of the variables in an affine form, as a column; ``None`` if it is not affine."""
    variables = tuple(variables)
    column = [form.diff(u) for u in variables]
    return None if any(slope.has(*variables) for slope in column) else sp.Matrix(column)


def tidy_form(form: sp.Expr, variables: Iterable[sp.Expr]) -> sp.Expr:
    """An affine form with each coefficient in one fraction; other expressions as they are."""
    variables = tuple(variables)
    column = slopes(form, variables)
    if column is None:
        return form
    offset = tidy(form.xreplace(dict.fromkeys(variables, sp.Integer(0))))
    return sp.Add(offset, *(tidy(slope) * u for slope, u in zip(column, variables)))


def has_full_rank(matrix: sp.ImmutableMatrix) -> bool:
    """Is it of full rank where numbers of no meaning stand for its symbols (and what is no sum, product or power)?

    Then no combination of rows vanishes identically. ``False``: it may be singular.
    """
    numbers: dict[sp.Expr, sp.Expr] = {}

    def number(e: sp.Expr) -> sp.Expr:
        if e.is_number:
            return e
        if e.is_Add or e.is_Mul or e.is_Pow and e.exp.is_number:
            return e.func(*map(number, e.args))
        return numbers.setdefault(e, sp.Rational(1 + 382 * (len(numbers) + 1) % 619, 619))  # spread over (0, 1]

    values = np.linalg.svd(np.array(matrix.applyfunc(number).evalf(), dtype=np.complex128), compute_uv=False)
    return bool(values[-1] > 1e-9 * values[0])
