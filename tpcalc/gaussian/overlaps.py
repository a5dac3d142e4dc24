"""Means of functions of one or two jointly Gaussian variables, unevaluated, with Price's theorem as derivatives."""

from __future__ import annotations


import sympy as sp
from sympy.printing.printer import Printer

from ..programs.activations import H
from .expectations import Gaussians, expectation

U, V = sp.symbols("u v", real=True)


class Overlap(sp.Function):
    """E[f^(j)(u) g^(k)(v)], u and v Gaussian without mean.

    args: f, g in the symbol ``H``, j, k, Cov(u, v), Var u, Var v.

    Derivatives are again overlaps: one more of f and of g for the covariance, half of two more for a variance. Those
    of polynomials are polynomials. Source: Price (1958) [gaussian/price].
    """

    nargs = 7

    @classmethod
    def eval(cls, *args: sp.Basic) -> sp.Expr | None:
        f, g, j, k, c, p, q = args
        if not (f.is_polynomial(H) and g.is_polynomial(H)):
            return None
        body = f.diff(H, j).xreplace({H: U}) * g.diff(H, k).xreplace({H: V})
        names = sp.symbols("c", real=True), *sp.symbols("p q", positive=True)
        closed = expectation(body, Gaussians({(U, V): names[0], (U, U): names[1], (V, V): names[2]}))
        return closed.xreplace(dict(zip(names, (c, p, q))))

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        f, g, j, k, *covariances = self.args
        if argindex == 5:
            return Overlap(f, g, j + 1, k + 1, *covariances)
        if argindex in (6, 7):
            return Overlap(f, g, j + 2 * (argindex == 6), k + 2 * (argindex == 7), *covariances) / 2
        raise ValueError(f"argindex: {argindex} given; allowed are 5, 6, 7, the covariance and the variances")

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        f, g, j, k, *_ = self.args
        text = r"\left\langle %s\, %s \right\rangle" % (_latex_of(printer, f, j, "u"), _latex_of(printer, g, k, "v"))
        return text if exp is None else r"%s^{%s}" % (text, exp)


class Mean(sp.Function):
    """E[f^(j)(u)], u Gaussian without mean; args: f in the symbol ``H``, j, Var u. Of polynomials a polynomial, and 0
    where f^(j) is odd."""

    nargs = 3

    @classmethod
    def eval(cls, *args: sp.Basic) -> sp.Expr | None:
        f, j, p = args
        if sp.expand(f.xreplace({H: -H}) + (-1) ** j * f) == 0:
            return sp.Integer(0)
        if not f.is_polynomial(H):
            return None
        name = sp.Symbol("p", positive=True)
        return expectation(f.diff(H, j).xreplace({H: U}), Gaussians({(U, U): name})).xreplace({name: p})

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        f, j, p = self.args
        if argindex != 3:
            raise ValueError(f"argindex: {argindex} given; allowed is 3, the variance")
        return Mean(f, j + 2, p) / 2

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        text = r"\left\langle %s \right\rangle" % _latex_of(printer, self.args[0], self.args[1], "u")
        return text if exp is None else r"%s^{%s}" % (text, exp)


def _latex_of(printer: Printer, f: sp.Expr, order: sp.Integer, name: str) -> str:
    text = printer.doprint(f.xreplace({H: sp.Symbol(name)}))
    return text if order == 0 else r"\partial_{%s}^{%s} %s" % (name, order, text)
