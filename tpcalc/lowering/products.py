"""Products and sums of matrices taken apart, until only members and functions of entries are multiplied."""

from __future__ import annotations

from typing import Iterator

import sympy as sp

from ..programs.algebra import multiplied_out, replaced
from ..programs.language import Matrix, MatVec, Mean, NonlinearOuter, Outer, Transpose, kind, transposed

Term = tuple[sp.Expr, sp.Expr]  # a scalar and what it multiplies


def simple_products(expression: sp.Expr) -> sp.Expr:
    """The expression with (c M + u v^T / n) y as c M y + u <v|y>: matrices that are multiplied are members, their
    transposes, or functions of entries."""
    def single(node: sp.Expr) -> sp.Expr:
        if isinstance(getattr(node.matrix, "member", None), Matrix) or isinstance(node.matrix, NonlinearOuter):
            return node
        return sp.Add(*(_times(c, one, node.vector) for c, one in matrix_terms(node.matrix)))
    return replaced(expression, MatVec, single)


def _times(c: sp.Expr, one: sp.Expr, vector: sp.Expr) -> sp.Expr:
    if isinstance(one, Outer):
        return c * one.left * Mean(one.right * vector)
    if isinstance(one, sp.Sum):
        return c * sp.Sum(simple_products(MatVec(one.function, vector)), *one.limits)
    return c * MatVec(one, vector)


def matrix_terms(expression: sp.Expr, turned: bool = False) -> Iterator[Term]:
    """(c, M) of a linear combination, M being a member, a transposed one, an outer product, a function of entries, or
    a sum over an index of such terms; turned: of its transpose."""
    for part in sp.Add.make_args(multiplied_out(expression)):
        matrices = [f for f in sp.Mul.make_args(part) if kind(f) == "matrix"]
        if not matrices:
            continue  # zero
        one, = matrices
        c = sp.Mul(*(f for f in sp.Mul.make_args(part) if f is not one))
        if isinstance(one, sp.Add):
            yield from ((c * d, inner) for d, inner in matrix_terms(one, turned))
        elif isinstance(one, Transpose) and not isinstance(one.args[0], Matrix):
            yield from ((c * d, inner) for d, inner in matrix_terms(one.args[0], not turned))
        else:
            yield c, _transposed(one) if turned else one


def _transposed(one: sp.Expr) -> sp.Expr:
    if isinstance(one, sp.Sum):
        return sp.Sum(sp.Add(*(c * inner for c, inner in matrix_terms(one.function, True))), *one.limits)
    return transposed(one)
