"""Functions on layer time [0, 1] that a recursion's coefficients and covariances become at infinite depth.

A coefficient Gamma(p, q) jumps where the vector's layer time p passes that of its base ket, q; at p = q it is read
from one side. Source: Tensor Programs VI, Proposition C.4.
"""

from __future__ import annotations

import sympy as sp
from sympy.core.sorting import default_sort_key
from sympy.printing.printer import Printer

from .._checks import symbolic
from ..programs.language import Real, Scalar

P, Q, INNER = sp.symbols("p q p'", real=True)
GAMMA = r"\Gamma"


class AnyCoefficient(Real):
    """A coefficient of either kind; its first args are a, b, t, r."""

    number = property(lambda self: self.args[1])
    step = property(lambda self: self.args[3])

    def renumbered(self, number: sp.Expr) -> sp.Expr:
        """The coefficient over base kets of another number b."""
        return self.func(self.args[0], number, *self.args[2:])


class Coefficient(AnyCoefficient):
    """Gamma_{t,r,a,b}(p, q), of vector family a at layer time p, step t, over base ket b of step r at layer time q.

    args: a, b, t, r, p, q, side: where p = q, -1 for the limit p -> q from the left, 1 from the right, else 0;
    scaled: 1 where divided by its power of L. Step r = -1 stands for initial vector b, which has no q.
    """

    legend = (r"\Gamma_{t,r,a,b}(p,q)", "the limit of the coefficient, at layer times $p = l / L$ and $q = m / L$; "
              "with a tilde, of the coefficient over its power of $L$")
    side = property(lambda self: int(self.args[6]))
    scaled = property(lambda self: bool(self.args[7]))

    def _sympystr(self, printer: Printer) -> str:
        a, b, t, r, p, q, side = map(printer.doprint, self.args[:7])
        locations = [p + {"-1": "-", "1": "+"}.get(side, "")] + ([] if self.step == -1 else [q])
        return f"Gamma{'~' if self.scaled else ''}[{t},{r},{a},{b}]({', '.join(locations)})"

    def _latex(self, printer: Printer) -> str:
        a, b, t, r, p, q, side = map(printer.doprint, self.args[:7])
        first = p if side == "0" else rf"{{{p}}}^{{{'-' if side == '-1' else '+'}}}"
        locations = [first] + ([] if self.step == -1 else [q])
        return rf"{_head(GAMMA, self.scaled)}_{{{t},{r},{a},{b}}}\left({','.join(locations)}\right)"


class OwnCoefficient(AnyCoefficient):
    """Gamma_{t,r,a,b} of a vector made afresh in every layer over a base ket of its own layer, a function of p.

    Divided by its power of L. args: a, b, t, r, p.
    """

    def _sympystr(self, printer: Printer) -> str:
        a, b, t, r, p = map(printer.doprint, self.args)
        return f"Gamma_own[{t},{r},{a},{b}]({p})"

    def _latex(self, printer: Printer) -> str:
        a, b, t, r, p = map(printer.doprint, self.args)
        return rf"{GAMMA}_{{{t},{r},{a},{b}}}^{{\circ}}\left({p}\right)"


class CovarianceFunction(Real):
    """C_{t,s,b}(p): the covariance of two hat-kets of one matrix; symmetric. args: b, b', t, s, p, scaled."""

    legend = (r"C_{t,s,b}(p)", "the limit of the covariance, at layer time $p$")

    def __new__(cls, *args: sp.Basic) -> sp.Expr:
        b, c, t, s, p, scaled = map(symbolic, args)
        if (default_sort_key(c), default_sort_key(t)) < (default_sort_key(b), default_sort_key(s)):
            b, c, t, s = c, b, s, t
        return super().__new__(cls, b, c, t, s, p, scaled)

    def _sympystr(self, printer: Printer) -> str:
        b, c, t, s, p = map(printer.doprint, self.args[:5])
        return f"C{'~' if self.args[5] else ''}[{t},{s},{b if b == c else f'{b}-{c}'}]({p})"

    def _latex(self, printer: Printer) -> str:
        b, c, t, s, p = map(printer.doprint, self.args[:5])
        return rf"{_head('C', bool(self.args[5]))}_{{{t},{s},{b if b == c else f'{b} {c}'}}}\left({p}\right)"


class Indicator(Real):
    """1 where p lies to the right of q (sign 1) or to its left (sign -1), else 0. args: p, q, sign."""

    legend = (r"\mathbb{I}", "1 where what stands below it holds, else 0")
    sign = property(lambda self: int(self.args[2]))

    def _sympystr(self, printer: Printer) -> str:
        p, q = map(printer.doprint, self.args[:2])
        return f"1[{p} {'>=' if self.sign > 0 else '<='} {q}]"

    def _latex(self, printer: Printer) -> str:
        p, q = map(printer.doprint, self.args[:2])
        relation = r"\geq" if self.sign > 0 else r"\leq"
        return rf"\mathbb{{I}}_{{{p} {relation} {q}}}"


def scaled_scalar(scalar: Scalar) -> Scalar:
    """The scalar divided by its power of L."""
    name, text = str(scalar.args[0]), str(scalar.args[1])
    return symbolic(scalar.func(type(scalar.args[0])(f"{name}~"), type(scalar.args[0])(rf"\tilde{{{text}}}"),
                                *scalar.args[2:]))


def _head(letter: str, scaled: bool) -> str:
    return rf"\tilde{{{letter}}}" if scaled else letter
