"""Expressions of the language as array code: which rule writes which node, once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatchmethod
from typing import Callable, Iterator, Mapping

import sympy as sp
from sympy.core.function import Application
from sympy.core.sorting import default_sort_key

from .._types import Array
from ..programs.algebra import multiplied_out, replaced
from ..programs.by_position import HeadTable, HeadTurn
from ..programs.indices import write_out
from ..programs.special import NormRatio, Quantile
from ..programs.language import (HeadSum, LossDerivative, MatVec, Matrix, Mean, NonlinearOuter, Outer, Scalar,
                                 Transpose, Vector, kind, transposed)
from .code_lines import Value
from .rank_one import separated, split_outer_products
from .totals import Totals

Term = tuple[sp.Expr, sp.Expr]  # a scalar and what it multiplies
Terms = tuple[tuple[sp.Expr, sp.Expr], ...]


@dataclass(frozen=True)
class EntryTerms:
    """phi of ``names``: those of numbers, then one for every argument; None where all is of rank one.

    evaluate: (run, loop indices) -> the numbers, and for every argument its pairs of blocks (or for every outer product
    the one pair).
    """

    phi: sp.Expr | None
    names: tuple[sp.Symbol, ...]
    evaluate: Callable[[Array, tuple[int, ...]], tuple[list[float], list[list[tuple[Array, Array]]]]]


def written_terms(node: NonlinearOuter, values: Mapping[sp.Symbol, Array], plain: set[sp.Symbol]
                  ) -> tuple[sp.Expr | None, tuple[sp.Symbol, ...], list[sp.Expr], list[Terms]]:
    """phi, the names of its numbers, these, and its arguments, where the ends of sums are numbers.

    values: of sizes and of the loop indices that sums depend on; plain: indices of sums that are written out.
    """
    body = _written_out(node.body.subs(values), plain)
    apart = separated(NonlinearOuter(body))
    if not apart.has(NonlinearOuter):
        return None, (), [], [((sp.Integer(1), term),) for term in sp.Add.make_args(sp.expand(apart))]
    whole, = apart.atoms(NonlinearOuter)
    factor = apart / whole
    phi, sums = split_outer_products(whole.body)
    phi = phi * factor
    numbers = sorted(phi.atoms(Scalar, Mean) | (phi.free_symbols - set(sums)), key=default_sort_key)
    numbers = [n for n in numbers if not any(n is not m and m.has(n) for m in numbers)]
    names = {number: sp.Symbol(f"x{i}", real=True) for i, number in enumerate(numbers)}
    return phi.xreplace(names), (*names.values(), *sums), numbers, list(sums.values())


def _written_out(body: sp.Expr, plain: set[sp.Symbol]) -> sp.Expr:
    """Sums over plain indices, or over a single number, term by term; sums over axes stay."""
    if not body.has(sp.Sum):
        return body

    def single(total: sp.Sum) -> sp.Expr:
        inside = _written_out(total.function, plain)
        apart = [limit for limit in total.limits if limit[0] in plain or limit[1] == limit[2]]
        axes = [limit for limit in total.limits if limit not in apart]
        inside = sp.Sum(inside, *axes) if axes else inside
        for limit in apart:
            inside = write_out(sp.Sum(inside, limit))
        return inside

    found = {total: single(total) for total in _outermost(body)}
    return body.xreplace(found)


def _outermost(body: sp.Expr) -> list[sp.Sum]:
    if isinstance(body, sp.Sum):
        return [body]
    return [found for part in body.args if isinstance(part, sp.Basic) for found in _outermost(part)]


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


class Writer(Totals):
    """Array code of any expression; what a block knows already is not written again."""

    def value(self, node: sp.Expr) -> Value:
        if not self.varies(node):
            return Value(self.number(node), (), "scalar")
        for known in reversed(self.known):
            if node in known:
                return known[node]
        self.known[-1][node] = value = self._written(node)
        return value

    @singledispatchmethod
    def _written(self, node: sp.Expr) -> Value:
        raise self.refused(node, "it has no rule for them")

    @_written.register(sp.Symbol)
    def _values(self, node: sp.Symbol) -> Value:
        low, high = self.bounds[node]
        return self.kept(f"asarray(range({low}, {high} + 1))", (node,), "scalar")

    @_written.register(Outer)
    def _entries(self, node: Outer) -> Value:
        u, v = (self.vector(part) for part in node.args)
        if u.axes or v.axes:
            raise self.refused(node, "an outer product is read for one index at a time here")
        return self.kept(f"{u.code}[{self.rows}, None] * {v.code}", (), "entries")

    @_written.register(Vector)
    @_written.register(Scalar)
    def _member(self, node: Vector | Scalar) -> Value:
        """A member, or those of all indices that are axes."""
        found = self.names.member(node, self.index, self.bounds)
        self.line(found.read, reads=True)
        code, axes = self.turned(found.code, found.axes, node.own_kind == "vector")
        return self.kept(code, axes, node.own_kind)

    @_written.register(sp.Add)
    def _addition(self, node: sp.Add) -> Value:
        return self.sum_of([self.value(part) for part in node.args])

    _written.register(sp.Mul)(Totals.product)
    _written.register(sp.Sum)(Totals.total)
    _written.register(Mean)(Totals.moment)
    _written.register(HeadSum)(Totals.head_sum)
    _written.register(HeadTurn)(Totals.head_turn)
    _written.register(HeadTable)(Totals.head_table)
    _written.register(Quantile)(Totals.quantile)
    _written.register(NormRatio)(Totals.norm_ratio)
    _written.register(MatVec)(Totals.matvec)
    _written.register(LossDerivative)(Totals.loss)
    _written.register(sp.Pow)(Totals.power)
    _written.register(sp.Piecewise)(Totals.piecewise)
    _written.register(Application)(Totals.function)
