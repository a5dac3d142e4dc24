"""Kets: the random variables that the coordinates of a program's vectors become at infinite width.

A ket is a real random variable, so kets add and multiply as ordinary commuting expressions; what has
rules of its own is written with the classes below. Source: paper B, Definition C.1 and appendices E, F.
"""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy.core.sorting import default_sort_key

from ..programs.language import MatVec, Moment, Vec


class _Random(sp.Expr):
    is_commutative = True
    is_real = True

    vector = property(lambda self: self.args[0])


class Ket(_Random):
    """|v>, the limit of a vector."""

    def _sympystr(self, printer: Any) -> str:
        return f"|{printer.doprint(self.vector)}>"

    def _latex(self, printer: Any) -> str:
        return rf"| {printer.doprint(self.vector)} \rangle"


class Hat(_Random):
    """The hat part of |W y>: Gaussian, as if W were independent of y."""

    def _sympystr(self, printer: Any) -> str:
        return f"hat|{printer.doprint(self.vector)}>"

    def _latex(self, printer: Any) -> str:
        return rf"| {printer.doprint(self.vector)} \hat{{\rangle}}"


class Dot(_Random):
    """The dot part of |W y>: what y owes to W through earlier products with its transpose."""

    def _sympystr(self, printer: Any) -> str:
        return f"dot|{printer.doprint(self.vector)}>"

    def _latex(self, printer: Any) -> str:
        return rf"| {printer.doprint(self.vector)} \dot{{\rangle}}"


class Base(_Random):
    """The generic base ket: r = -1 an initial vector (number b), r >= 0 the hat-ket of product b at step r, layer m."""

    def __new__(cls, *args: Any) -> sp.Expr:
        return super().__new__(cls, *map(sp.sympify, args))

    def _sympystr(self, printer: Any) -> str:
        return "beta[%s]" % ", ".join(printer.doprint(i) for i in self.args)

    def _latex(self, printer: Any) -> str:
        r, b, m = (printer.doprint(i) for i in self.args)
        return rf"\beta_{{{r},{b}}}^{{{m}}}"


class Bracket(sp.Expr):
    """<u|v>, the expectation of the product of two kets: a number; symmetric."""

    is_commutative = True
    is_real = True

    def __new__(cls, u: sp.Expr, v: sp.Expr) -> sp.Expr:
        return super().__new__(cls, *sorted((u, v), key=default_sort_key))

    def _sympystr(self, printer: Any) -> str:
        u, v = (printer.doprint(i) for i in self.args)
        return f"<{u}|{v}>"

    def _latex(self, printer: Any) -> str:
        u, v = (printer.doprint(i) for i in self.args)
        return rf"\langle {u} | {v} \rangle"


class Response(sp.Expr):
    """d|v> / d beta, the expected derivative of a ket in a base ket (a ``Hat``, a ``Base`` or an initial ``Ket``)."""

    is_commutative = True
    is_real = True

    vector = property(lambda self: self.args[0])
    base = property(lambda self: self.args[1])

    def _sympystr(self, printer: Any) -> str:
        return f"d|{printer.doprint(self.vector)}>/d{printer.doprint(self.base)}"

    def _latex(self, printer: Any) -> str:
        return rf"\frac{{\partial | {printer.doprint(self.vector)} \rangle}}{{\partial {printer.doprint(self.base)}}}"


class Gamma(sp.Expr):
    r"""Gamma_{t,r,a,b}(l/L, m/L): the coefficient of base ket (r, b, m) in vector family a at step t, node l.

    Scaled by sqrt(L) for r >= 0. args: t, r, a, b, l, m; m is 0 where r = -1. Source: paper B, appendix C.3.
    """

    is_commutative = True
    is_real = True

    def __new__(cls, *args: Any) -> sp.Expr:
        return super().__new__(cls, *map(sp.sympify, args))

    def _sympystr(self, printer: Any) -> str:
        t, r, a, b, l, m = (printer.doprint(i) for i in self.args)
        return f"Gamma[{t},{r},{a},{b}]({l}; {m})"

    def _latex(self, printer: Any) -> str:
        t, r, a, b = (printer.doprint(i) for i in self.args[:4])
        place = _layer_time(printer, self.args[4])
        if self.args[1] != -1:
            place += "," + _layer_time(printer, self.args[5])
        return rf"\Gamma_{{{t},{r},{a},{b}}}\left({place}\right)"


class Covariance(sp.Expr):
    """C_{t,s,b}(l/L): the covariance of the hat-kets of product b of layer l at steps t and s; args: t, s, b, l."""

    is_commutative = True
    is_real = True

    def __new__(cls, *args: Any) -> sp.Expr:
        return super().__new__(cls, *map(sp.sympify, args))

    def _sympystr(self, printer: Any) -> str:
        t, s, b, l = (printer.doprint(i) for i in self.args)
        return f"C[{t},{s},{b}]({l})"

    def _latex(self, printer: Any) -> str:
        t, s, b = (printer.doprint(i) for i in self.args[:3])
        return rf"C_{{{t},{s},{b}}}\left({_layer_time(printer, self.args[3])}\right)"


def _layer_time(printer: Any, layer: sp.Expr) -> str:
    """l / L, or 0 and 1 at the ends."""
    depth = sp.Symbol("L", integer=True, positive=True)
    ratio = layer / depth
    return printer.doprint(ratio) if ratio.is_number else rf"\tfrac{{{printer.doprint(layer)}}}{{L}}"


def ket(expression: sp.Expr) -> sp.Expr:
    """The ket of an entrywise vector expression (every vector becomes its ket), or the limit of a scalar one."""
    if isinstance(expression, (Vec, MatVec)):
        return Ket(expression)
    if isinstance(expression, Moment):
        factors = sp.Mul.make_args(expression.args[0])
        if len(factors) == 2 and all(isinstance(v, (Vec, MatVec)) for v in factors):
            return Bracket(*factors)
        raise ValueError(f"{expression}: this version takes the average of a product of two vectors")
    if not expression.has(Vec, MatVec):
        return expression
    return expression.func(*map(ket, expression.args))
