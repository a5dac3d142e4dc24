"""The power of L with which an expression goes, from those of its symbols."""

from __future__ import annotations

from typing import Callable, Mapping

import sympy as sp

from ..errors import NotCovered

Sizes = Mapping[sp.Expr, sp.Expr]


def leading_power(expression: sp.Expr, sizes: Sizes) -> sp.Expr:
    """p, where ``expression`` goes like L^-p when its symbols go like L^-sizes[symbol], the others like 1.

    Products add, of a sum the largest term counts (terms of one size are not supposed to cancel), signs are of order
    one. Numbers in, a number out; symbols in, a minimum or maximum of affine forms out; oo for an expression that
    is zero. Raises ``ValueError`` for a function that has no power of L by these rules.
    """
    if expression.is_zero:
        return sp.oo
    if expression in sizes:
        return sizes[expression]
    if not any(symbol in sizes for symbol in expression.free_symbols):
        return sp.Integer(0)
    if expression.func in RULES and (expression.func != sp.Pow or expression.exp.is_Rational):
        return RULES[expression.func](expression, sizes)
    raise NotCovered(f"got {expression}; expected sums, products, rational powers, signs, absolute values, tanh, "
                     f"erf and atan: of {expression.func.__name__} no power of L is known")


def _add(powers: list[sp.Expr]) -> sp.Expr:
    """Their sum; what stands beside one minimum or maximum goes into it: a - min(a, e) is max(0, a - e)."""
    total = sp.Add(*powers)
    cases = [term for term in sp.Add.make_args(total) if term.has(sp.Min, sp.Max)]
    if len(cases) != 1:
        return total
    factor, extremum = cases[0].as_coeff_Mul()
    if not isinstance(extremum, (sp.Min, sp.Max)):
        return total
    turned = {sp.Min: sp.Max, sp.Max: sp.Min}[extremum.func] if factor < 0 else extremum.func
    rest = total - cases[0]
    return turned(*(rest + factor * arg for arg in extremum.args))


RULES: dict[type[sp.Expr], Callable[[sp.Expr, Sizes], sp.Expr]] = {
    sp.Mul: lambda e, sizes: _add([leading_power(factor, sizes) for factor in e.args]),
    sp.Add: lambda e, sizes: sp.Min(*(leading_power(term, sizes) for term in e.args)),
    sp.Pow: lambda e, sizes: e.exp * leading_power(e.base, sizes),
    sp.sign: lambda e, sizes: sp.Integer(0),
    sp.Abs: lambda e, sizes: leading_power(e.args[0], sizes),
    # linear in what is small, of order one of what is large
    **dict.fromkeys((sp.tanh, sp.erf, sp.atan), lambda e, sizes: sp.Max(0, leading_power(e.args[0], sizes))),
}
