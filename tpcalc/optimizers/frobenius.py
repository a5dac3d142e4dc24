"""Frobenius norms and inner products of sums of outer products, by overlaps of their vectors."""

from __future__ import annotations

from typing import Callable

import sympy as sp

from ..programs.algebra import multiplied_out
from ..programs.language import MatVec, Matrix, Mean, Outer


def square(gradient: sp.Expr) -> sp.Expr:
    """The squared Frobenius norm of a sum of outer products u v^T / n: the sum over pairs of <u, u'> <v, v'>.

    >>> from tpcalc.programs.language import Family, Vector
    >>> i, B = sp.Symbol("i", integer=True), sp.Symbol("B", integer=True)
    >>> u, v = Family(Vector, "u"), Family(Vector, "v")
    >>> square(sp.Sum(Outer(u[i], v[i]), (i, 0, B - 1)) / B)
    Sum(mean(u[i]*u[i'])*mean(v[i]*v[i']), (i, 0, B - 1), (i', 0, B - 1))/B**2
    """
    return _over_pairs(gradient, lambda one, u, v: Mean(one.left * u) * Mean(one.right * v))


def _over_pairs(gradient: sp.Expr, product: Callable[[Outer, sp.Expr, sp.Expr], sp.Expr]) -> sp.Expr:
    """The sum over pairs of outer products of a sum, of a product of the first with both vectors of the second."""
    terms = outer_terms(gradient)
    total = sp.Integer(0)
    for number, one, limits in terms:
        for other_number, other, other_limits in terms:
            again = {limit[0]: sp.Symbol(f"{limit[0]}'", integer=True, nonnegative=True) for limit in other_limits}
            found = product(one, *(part.xreplace(again) for part in other.args))
            every = (*limits, *((again[index], low, high) for index, low, high in other_limits))
            total += number * other_number * (sp.Sum(found, *every) if every else found)
    return total


def mean_square_of_rows(gradient: sp.Expr) -> sp.Expr:
    """The mean over each row of the squared entries of a sum of outer products u v^T, a vector; what is none of those
    is its own square."""
    if not gradient.has(Outer):
        return gradient**2
    return _over_pairs(gradient, lambda one, u, v: one.left * u * Mean(one.right * v))


def factored_square(gradient: Callable[[sp.Expr], sp.Expr], average: Callable[[Callable[[sp.Expr], sp.Expr]], sp.Expr]
                    ) -> sp.Expr:
    """Adafactor's estimate of squared gradients, entry by entry: r_i c_j / mean(r), of averages over steps of the mean
    squares of rows and of columns; of what is no matrix the average of squares.

    gradient: by step; average: of what it is given by step. Source: arXiv:1804.04235, algorithm 2.

    >>> from tpcalc.programs.language import Family, Vector
    >>> u, v = Family(Vector, "u"), Family(Vector, "v")
    >>> factored_square(lambda k: Outer(u[k], v[k]), lambda of: of(sp.Integer(0)))
    outer(mean(v[0]**2)*u[0]**2, mean(u[0]**2)*v[0]**2)/n/(mean(u[0]**2)*mean(v[0]**2))
    """
    if not gradient(sp.Integer(0)).has(Outer):
        return average(lambda k: gradient(k) ** 2)
    rows = average(lambda k: mean_square_of_rows(gradient(k)))
    columns = average(lambda k: mean_square_of_rows(_transposed(gradient(k))))
    return Outer(rows, columns) / Mean(rows)


def _transposed(gradient: sp.Expr) -> sp.Expr:
    return gradient.xreplace({one: one.transposed() for one in gradient.atoms(Outer)})


def extent(gradient: sp.Expr) -> sp.Expr:
    """The sum of the Frobenius norms of all outer products u v^T / n of a sum: what its own norm is at most."""
    total = sp.Integer(0)
    for number, one, limits in outer_terms(gradient):
        norm = sp.sqrt(Mean(one.left**2) * Mean(one.right**2))
        total += sp.Abs(number) * (sp.Sum(norm, *limits) if limits else norm)
    return total


def frobenius_inner(matrix: Matrix, gradient: sp.Expr) -> sp.Expr:
    """The inner product tr(M^T G) of a matrix and a sum of outer products u v^T / n: the sum of <u, M v>."""
    total = sp.Integer(0)
    for number, one, limits in outer_terms(gradient):
        product = Mean(one.left * MatVec(matrix, one.right))
        total += number * (sp.Sum(product, *limits) if limits else product)
    return total


def outer_terms(gradient: sp.Expr) -> list[tuple[sp.Expr, sp.Expr, tuple[sp.Tuple, ...]]]:
    """(number, outer product, limits of the sums over it) of every term of a gradient."""
    found: list[tuple[sp.Expr, sp.Expr, tuple[sp.Tuple, ...]]] = []
    for term in sp.Add.make_args(multiplied_out(gradient)):
        number, one = term.as_independent(Outer, as_Add=False)
        if isinstance(one, sp.Sum):
            found += [(number * inner, outer, (*limits, *one.limits))
                      for inner, outer, limits in outer_terms(one.function)]
        else:
            found.append((number, one, ()))
    return found
