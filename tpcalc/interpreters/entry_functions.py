"""Functions of the entries of outer products, met by their products alone: no n x n array is ever whole.

(phi(u v^T) / n) z is, in coordinate i, the average over j of phi(u_i v_j) z_j: an average over coordinates at finite
width, and over a second, independent copy of the kets at infinite width
[tensor_programs_vi/nonlinear_outer_product]. Particles are coordinates, so that both are one sum over pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import sympy as sp

from ..programs.language import Moment, NonlinearOuter, Outer, Scal
from .given import Number
from .vectors import numpy_function

BLOCK = 2**16  # entries at a time: they stay in a processor's cache
Terms = tuple[tuple[Number, np.ndarray, np.ndarray], ...]
LinearPart = tuple[tuple[sp.Expr, Outer], ...]


@dataclass(frozen=True)
class EntryFunction:
    """The matrix phi(A_1, A_2, ...) / n, phi entrywise, where A_k is the sum of its terms c u v^T.

    phi: of ``names``, first those of ``numbers`` and then one for every A_k; sums: the terms of A_k. A product takes
    time O(n^2), and memory O(n) a term. It can be sent between processes.
    """

    phi: sp.Expr
    names: tuple[sp.Symbol, ...]
    numbers: tuple[Number, ...]
    sums: tuple[Terms, ...]

    @property
    def T(self) -> "EntryFunction":  # noqa: N802, as NumPy's
        return replace(self, sums=tuple(tuple((c, v, u) for c, u, v in terms) for terms in self.sums))

    def __matmul__(self, vector: np.ndarray) -> np.ndarray:
        n, product = len(vector), np.empty_like(vector)
        function = numpy_function(self.phi, self.names)
        left = [np.array([u for _, u, _ in terms]) for terms in self.sums]
        right = [np.array([c * v for c, _, v in terms]) for terms in self.sums]
        for start in range(0, n, max(BLOCK // n, 1)):
            rows = slice(start, start + max(BLOCK // n, 1))
            entries = function(*self.numbers, *(u[:, rows].T @ v for u, v in zip(left, right)))
            product[rows] = entries @ vector / n
        return product


def separated(expression: sp.Expr) -> sp.Expr:
    """The same with functions of outer products as outer products of functions, where that is so.

    Products, whole powers, signs and absolute values map u v^T to f(u) f(v)^T, other powers where nothing is negative:
    the update of SignSGD for one sample is of rank one.
    """
    if not expression.has(NonlinearOuter):
        return expression
    return expression.replace(lambda e: isinstance(e, NonlinearOuter), _separated_whole)


def _separated_whole(node: NonlinearOuter) -> sp.Expr:
    body = _separated(node.body)
    return node if body == node.body else NonlinearOuter(body)


def _separated(body: sp.Expr) -> sp.Expr:
    if isinstance(body, Outer) or not body.has(Outer):
        return body
    parts = tuple(_separated(part) for part in body.args)
    if isinstance(body, sp.Mul):
        return _product(parts)
    number, one = _one_outer(parts[0])
    if one is None:
        return body.func(*parts)
    if isinstance(body, sp.Pow) and not parts[1].has(Outer):
        if parts[1].is_integer or one.left.is_nonnegative and one.right.is_nonnegative:
            return number ** parts[1] * Outer(one.left ** parts[1], one.right ** parts[1])
    if isinstance(body, (sp.sign, sp.Abs)):
        return body.func(number) * Outer(body.func(one.left), body.func(one.right))
    return body.func(*parts)


def _product(parts: tuple[sp.Expr, ...]) -> sp.Expr:
    """Of outer products: (u v^T) (y z^T) is (u y) (v z)^T entry by entry."""
    factors = tuple(f for part in parts for f in sp.Mul.make_args(part))
    outers = [f for f in factors if isinstance(f, Outer)]
    joined = [Outer(sp.Mul(*(o.left for o in outers)), sp.Mul(*(o.right for o in outers)))] if outers else []
    return sp.Mul(*(f for f in factors if f not in outers), *joined)


def _one_outer(expression: sp.Expr) -> tuple[sp.Expr, Outer | None]:
    """(c, u v^T) where the expression is a number times an outer product, else (1, None)."""
    factors = sp.Mul.make_args(expression)
    inside = [f for f in factors if f.has(Outer)]
    if len(inside) != 1 or not isinstance(inside[0], Outer):
        return sp.Integer(1), None
    return sp.Mul(*(f for f in factors if f not in inside)), inside[0]


def split(body: sp.Expr) -> tuple[sp.Expr, dict[sp.Symbol, LinearPart]]:
    """phi and its arguments: the largest parts that are sums of numbers times outer products, as symbols."""
    found: dict[LinearPart, sp.Symbol] = {}

    def named(part: sp.Basic | LinearPart) -> sp.Basic:
        return found.setdefault(part, sp.Symbol(f"m{len(found)}", real=True)) if isinstance(part, tuple) else part

    def walk(part: sp.Basic) -> sp.Basic | LinearPart:
        if isinstance(part, Outer):
            return ((sp.Integer(1), part),)
        if not part.args or isinstance(part, (Scal, Moment)):
            return part
        parts = [walk(p) for p in part.args]
        linear = [p for p in parts if isinstance(p, tuple)]
        rest = [p for p in parts if not isinstance(p, tuple)]
        if isinstance(part, sp.Add) and linear:
            terms = tuple(term for p in linear for term in p)
            return sp.Add(named(terms), *rest) if rest else terms
        if isinstance(part, sp.Mul) and len(linear) == 1 and not any(r.has(*found.values()) for r in rest):
            return tuple((sp.Mul(*rest, c), outer) for c, outer in linear[0])
        return part.func(*map(named, parts)) if parts != list(part.args) else part

    phi = named(walk(body))
    return phi, {symbol: part for part, symbol in found.items()}
