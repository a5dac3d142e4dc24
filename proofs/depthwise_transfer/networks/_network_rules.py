"""Rules of one real network: products of matrices and vectors, the chain rule, recursions in steps written out."""

from __future__ import annotations

from typing import Any, Mapping

import sympy as sp

from ..._rewriting import Rewriting, of_nodes
from .._fields import Field, Slope, fields

width, depth, inputs = sp.symbols("N L D")
ARRAYS = fields(
    "h g phi dphi chi r x w W W0 V hk gk phik dphik chik xik dW dh v chih xih")   # vectors and matrices, not numbers
h, g, phi, dphi, chi, r, x, w, W, W0, V, hk, gk, phik, dphik, chik, xik, dW, dh, v, chih, xih = ARRAYS
Phi, G, Kx, Phik = fields("Phi G Kx Phik")
SLOPES = {phi: (h, dphi), phik: (hk, dphik)}   # the features of a field, and their slopes in it


class Product(sp.Expr):
    """A product of matrices and vectors, linear in each of its factors."""

    is_commutative = True
    pattern = ""

    def _latex(self, printer: Any) -> str:
        return self.pattern % tuple(_bracketed(one, printer) for one in self.args)


class Acts(Product):
    """A matrix times a vector."""

    pattern = r"%s \, %s"


class Turned(Product):
    """The transpose of a matrix."""

    pattern = r"{%s}^{\top}"


class Outer(Product):
    """u v^T."""

    pattern = r"%s \, {%s}^{\top}"


class Dot(Product):
    """The sum over entries of the product of two vectors, or of two matrices."""

    commutes = True
    pattern = r"%s \cdot %s"


def _bracketed(one: sp.Expr, printer: Any) -> str:
    text = str(printer.doprint(one))
    whole = isinstance(one, Turned) or not isinstance(one, (sp.Add, sp.Mul, sp.Sum, Product))
    return text if whole else rf"\left({text}\right)"


def is_array(one: sp.Basic) -> bool:
    """A vector or a matrix, not a number."""
    if isinstance(one, (Dot, Field)):
        return type(one) in ARRAYS
    if isinstance(one, (sp.Sum, sp.Add, sp.Mul)):
        return any(map(is_array, one.args))
    return isinstance(one, Product) or isinstance(one, Slope) and is_array(one.args[1])


def _split(term: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Numbers, and vectors or matrices, of a product."""
    parts = sp.Mul.make_args(term)
    arrays = [part for part in parts if is_array(part)]
    return sp.Mul(*(part for part in parts if part not in arrays)), sp.Mul(*arrays)


def multilinear(product: sp.Expr) -> sp.Expr:
    """Sums and numbers in the factors of a product stand before it."""
    for number, factor in enumerate(product.args):
        def other(one: sp.Expr) -> sp.Expr:
            return multilinear(product.func(*product.args[:number], one, *product.args[number + 1:]))
        factor = sp.expand(factor)
        if factor.is_Add:
            return sp.Add(*map(other, factor.args))
        numbers, arrays = _split(factor)
        if numbers != 1:
            return numbers * other(arrays)
        if isinstance(factor, sp.Sum):
            return sp.Sum(other(factor.function), *factor.limits)
    return product


def _acted(product: Acts) -> sp.Expr:
    matrix, vector = product.args
    if isinstance(matrix, Outer):
        return Dot(vector, matrix.args[1]) * matrix.args[0]
    if isinstance(matrix, Turned) and isinstance(matrix.args[0], Outer):
        return Dot(vector, matrix.args[0].args[0]) * matrix.args[0].args[1]
    return product


def _before_sum(total: sp.Sum) -> sp.Expr:
    if total.function == 0:
        return sp.Integer(0)
    free, bound = total.function.as_independent(*(limit[0] for limit in total.limits), as_Add=False)
    return free * sp.Sum(bound, *total.limits)


LINEAR = Rewriting("linearity", "products of matrices and vectors are linear in their factors", "algebra",
                   of_nodes(Product, multilinear))
OUTER = Rewriting("outer product", "$(u v^\\top) z = (v \\cdot z) u$, and its transpose takes $z$ to $(u \\cdot z) v$",
                  "algebra", of_nodes(Acts, _acted))
TWO_OUTER = Rewriting("two outer products", "$u v^\\top \\cdot y z^\\top = (u \\cdot y)(v \\cdot z)$", "algebra",
                      of_nodes(Dot, lambda e: Dot(e.args[0].args[0], e.args[1].args[0]) * Dot(
                          e.args[0].args[1], e.args[1].args[1]) if all(isinstance(one, Outer) for one in e.args)
                          else e))
OUT_OF_SUMS = Rewriting("out of sums", "it does not depend on what is summed over", "algebra",
                        lambda expression: sp.expand(of_nodes(sp.Sum, _before_sum)(sp.expand(expression))))


def _kernel(product: Dot) -> sp.Expr:
    first, second = product.args
    if isinstance(first, x) and isinstance(second, x):
        return inputs * Kx(*first.args, *second.args, 0)
    named = {phi: Phi, g: G, phik: Phik}.get(type(first))
    if named is None or type(second) is not type(first) or first.args[1:] != second.args[1:]:
        return product
    return width * named(first.args[0], second.args[0], *first.args[1:])


KERNELS = Rewriting("kernels", "$\\Phi$ and $G$ are overlaps of features and of gradients over $N$, $K_x$ of inputs "
                    "over $D$", "depthwise_transfer/fields_and_kernels", of_nodes(Dot, _kernel))


def read(left: sp.Expr, right: sp.Expr, reason: str,
         source: str = "depthwise_transfer/fields_and_kernels") -> Rewriting:
    """Put in what a letter, or a product, is by its definition."""
    return Rewriting("definition", reason, source, lambda expression: expression.xreplace({left: right}))


def insert(left: sp.Expr, right: sp.Expr) -> Rewriting:
    """Put in what was found before."""
    return Rewriting("insert", "found before", "algebra", lambda expression: expression.xreplace({left: right}))


# The chain rule.

def _adjoint(value: sp.Expr, by: sp.Expr, incoming: sp.Expr) -> sp.Expr:
    """The slope in ``by`` of incoming . value; of incoming times value, where that is a number."""
    total = sp.Integer(0)
    for term in sp.Add.make_args(sp.expand(value)):
        numbers, array = term.as_independent(*ARRAYS, as_Add=False)
        total += numbers * _adjoint_of_term(array, by, incoming)
    return total


def _adjoint_of_term(array: sp.Expr, by: sp.Expr, incoming: sp.Expr) -> sp.Expr:
    if array == by:
        return incoming
    if type(array) in SLOPES:
        field, slope = SLOPES[type(array)]
        return slope(*array.args) * _adjoint_of_term(field(*array.args), by, incoming)
    if isinstance(array, Acts):
        matrix, vector = array.args
        own = Outer(incoming, vector) if matrix == by else sp.Integer(0)
        return own + _adjoint_of_term(vector, by, Acts(Turned(matrix), incoming))
    if isinstance(array, Dot):
        first, second = array.args
        return _adjoint_of_term(first, by, incoming * second) + _adjoint_of_term(second, by, incoming * first)
    return sp.Integer(0)


def chain_rule(by: sp.Expr, paths: Mapping[sp.Expr, sp.Expr], of: sp.Expr | None = None) -> Rewriting:
    """Slopes in ``by`` of all, or of ``of``, which depend on it through the keys of ``paths``, whose values are given.

    Raises ``ValueError`` where a value does not depend on ``by``.
    """
    def slope(one: Slope) -> sp.Expr:
        if one.args[1] != by or of not in (None, one.args[0]):
            return one
        return sp.Add(*(_adjoint(value, by, sp.Integer(1) if one.args[0] == through else Slope(one.args[0], through))
                        for through, value in paths.items()))
    for value in paths.values():
        if _adjoint(value, by, sp.Integer(1)) == 0:
            raise ValueError(f"{value}: does not depend on {by}")
    through = ", ".join(f"${sp.latex(one)}$" for one in paths)
    return Rewriting("chain rule", f"${sp.latex(by)}$ acts through {through} alone", "calculus", of_nodes(Slope, slope))


# Recursions in steps.

def unroll(following: sp.Expr, value: sp.Expr, step: sp.Symbol, index: sp.Symbol, start: sp.Expr = sp.Integer(0)
           ) -> Rewriting:
    """X_(t+1) = a X_t + b_t gives X_t = a^(t - start) X_start + sum_(start <= s < t) a^(t-1-s) b_s.

    following: X(t + 1); value: what it is; step: t; index: s. Raises ``ValueError`` where the factor has the step.
    """
    now = following.subs(step, step - 1)
    factor = sp.expand(value).coeff(now)
    source = value.subs(now, 0)
    if sp.expand(value - factor * now - source) != 0 or factor.has(step) or factor == 0:
        raise ValueError(f"{value}: no recursion of first order in {now} with a constant factor")
    total = sp.Sum(factor**(step - 1 - index) * source.subs(step, index), (index, start, step - 1))
    written = factor**(step - start) * now.subs(step, start) + total
    return Rewriting("unroll", "by induction over steps", "algebra", lambda expression: expression.subs(now, written))


def unroll_back(now: sp.Expr, value: sp.Expr, node: sp.Symbol, index: sp.Symbol, end: sp.Expr) -> Rewriting:
    """X_l = X_(l+1) + b_l gives X_l = X_end + sum_(l <= k < end) b_k.

    now: X(l); value: what it is; node: l; index: k. Raises ``ValueError`` where that is not its form.
    """
    source = sp.expand(value - now.subs(node, node + 1))
    if source.has(now.subs(node, node + 1)):
        raise ValueError(f"{value}: no sum of what is one node further and a source")
    written = now.subs(node, end) + sp.Sum(source.subs(node, index), (index, node, end - 1))
    return Rewriting("unroll", "by induction over nodes, from the last one back", "algebra",
                     lambda expression: expression.xreplace({now: written}))


def later(index: sp.Symbol) -> Rewriting:
    """Count the index of sums from one later."""
    def moved(total: sp.Sum) -> sp.Expr:
        limits = [(one, first + 1, last + 1) if one == index else (one, first, last)
                  for one, first, last in total.limits]
        return sp.Sum(total.function.subs(index, index - 1), *limits)
    return Rewriting("count from one later", f"of ${sp.latex(index)}$", "algebra", of_nodes(sp.Sum, moved))
