"""Functions of outer products that are outer products themselves, and the arguments of those that are not."""

from __future__ import annotations

from functools import partial
from typing import Callable

import sympy as sp

from ..programs.algebra import replaced
from ..programs.language import Mean, NonlinearOuter, Outer, Scalar

LinearPart = tuple[tuple[sp.Expr, Outer], ...]


def separated(expression: sp.Expr) -> sp.Expr:
    """The expression with functions of outer products as outer products of functions, where that is so.

    Products, whole powers, signs and absolute values map u v^T to f(u) f(v)^T, other powers where nothing is negative:
    the update of SignSGD for one sample is of rank one.
    """
    return replaced(expression, NonlinearOuter, _separated_whole)


def _separated_whole(node: NonlinearOuter) -> sp.Expr:
    body = _separated(node.body)
    return node if body == node.body else NonlinearOuter(body)


def _separated(body: sp.Expr) -> sp.Expr:
    if isinstance(body, Outer) or not body.has(Outer):
        return body
    parts = tuple(_separated(part) for part in body.args)
    return SEPARATED.get(body.func, body.func)(*parts)


def _product(*parts: sp.Expr) -> sp.Expr:
    """The product of outer products: (u v^T) (y z^T) is (u y) (v z)^T entry by entry."""
    factors = tuple(f for part in parts for f in sp.Mul.make_args(part))
    outers = [f for f in factors if isinstance(f, Outer)]
    joined = [Outer(sp.Mul(*(o.left for o in outers)), sp.Mul(*(o.right for o in outers)))] if outers else []
    return sp.Mul(*(f for f in factors if f not in outers), *joined)


def _power(base: sp.Expr, exponent: sp.Expr) -> sp.Expr:
    number, one = _one_outer(base)
    if one is None or exponent.has(Outer) or not (
            exponent.is_integer or one.left.is_nonnegative and one.right.is_nonnegative):
        return base ** exponent
    return number ** exponent * Outer(one.left ** exponent, one.right ** exponent)


def _sign(function: type[sp.Function], argument: sp.Expr) -> sp.Expr:
    number, one = _one_outer(argument)
    return function(argument) if one is None else function(number) * Outer(function(one.left), function(one.right))


SEPARATED: dict[type, Callable[..., sp.Expr]] = {
    sp.Mul: _product, sp.Pow: _power, sp.sign: partial(_sign, sp.sign), sp.Abs: partial(_sign, sp.Abs)}


def _one_outer(expression: sp.Expr) -> tuple[sp.Expr, Outer | None]:
    """(c, u v^T) where the expression is a number times an outer product, else (1, None)."""
    number, one = expression.as_independent(Outer, as_Add=False)
    return (number, one) if isinstance(one, Outer) else (sp.Integer(1), None)


def split_outer_products(body: sp.Expr) -> tuple[sp.Expr, dict[sp.Symbol, LinearPart]]:
    """phi and its arguments: the largest parts that are sums of numbers times outer products, as symbols. A ``Sum``
    that is still written as one counts as an outer product: it must be a sum of these."""
    found: dict[LinearPart, sp.Symbol] = {}

    def named(part: sp.Basic | LinearPart) -> sp.Basic:
        return found.setdefault(part, sp.Symbol(f"m{len(found)}", real=True)) if isinstance(part, tuple) else part

    def walk(part: sp.Basic) -> sp.Basic | LinearPart:
        if isinstance(part, Outer) or isinstance(part, sp.Sum) and part.has(Outer):
            return ((sp.Integer(1), part),)
        if not part.args or isinstance(part, (Scalar, Mean)):
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
