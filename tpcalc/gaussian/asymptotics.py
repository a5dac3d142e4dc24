"""How entrywise functions go at the ends of the real line: exp(exponent) times a power of the argument.

Read off the expression node by node, because limits of sums with error functions and exponentials are not found in
general. A sum counts as its largest term, so that what cancels in it is not seen: an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import sympy as sp

from ..programs.activations import H

UP = sp.Symbol("u", positive=True)  # the distance from the origin


@dataclass(frozen=True)
class Asymptote:
    """exp(exponent) UP^degree, the exponent a polynomial in UP without constant; zero: it vanishes altogether."""

    exponent: sp.Expr = sp.Integer(0)
    degree: sp.Rational = sp.Integer(0)
    zero: bool = False

    @property
    def decays(self) -> bool:
        """Does it go to zero?"""
        return self.zero or self._leading < 0 or bool(self._leading == 0 and self.degree < 0)

    @property
    def power(self) -> sp.Expr:
        """The power of the argument, -oo for what decays exponentially, oo for what grows so."""
        if self.zero or self._leading < 0:
            return -sp.oo
        return sp.oo if self._leading > 0 else self.degree

    @property
    def _leading(self) -> sp.Expr:
        return sp.Poly(self.exponent, UP).LC() if self.exponent != 0 else sp.Integer(0)

    def times(self, other: "Asymptote") -> "Asymptote":
        return Asymptote(sp.expand(self.exponent + other.exponent), self.degree + other.degree,
                         self.zero or other.zero)

    def plus(self, other: "Asymptote") -> "Asymptote":
        if self.zero or other.zero:
            return other if self.zero else self
        apart = self.times(other.to(sp.Integer(-1)))
        return other if apart.decays else self

    def to(self, power: sp.Rational) -> "Asymptote":
        return Asymptote(sp.expand(self.exponent * power), self.degree * power, self.zero)


ZERO, ONE = Asymptote(zero=True), Asymptote()
BOUNDED = (sp.tanh, sp.erf, sp.sign, sp.atan, sp.sin, sp.cos)


def asymptotes(function: sp.Expr) -> tuple[Asymptote, Asymptote]:
    """What a function of H goes like at oo and at -oo; ``ValueError`` for a function without a rule, naming it."""
    plain = function.rewrite(sp.Heaviside).replace(sp.DiracDelta, lambda *_: sp.Integer(0))
    return _far_out(plain.subs(H, UP)), _far_out(plain.subs(H, -UP))


def _far_out(plain: sp.Expr) -> Asymptote:
    """Where steps and kinks are passed, the innermost ones first."""
    for _ in range(3):
        plain = plain.replace(sp.Heaviside, lambda a, *_: sp.Heaviside(_sign(a))).replace(sp.sign, _sign).replace(
            sp.Abs, lambda a: a * _sign(a))
    return _at_end(sp.expand(plain))


def _at_end(e: sp.Expr) -> Asymptote:
    """As UP goes to infinity."""
    if e.is_zero:
        return ZERO
    if not e.has(UP):
        return ONE
    if e == UP:
        return Asymptote(degree=sp.Integer(1))
    if isinstance(e, sp.Mul):
        return reduce(Asymptote.times, map(_at_end, e.args))
    if isinstance(e, sp.Add):
        return _sum(e)
    if isinstance(e, sp.exp):
        return _exponential(e)
    if isinstance(e, sp.Pow) and e.exp.is_Rational:
        return _at_end(e.base).to(e.exp)
    if isinstance(e, (sp.Max, sp.Min)):
        return _sum(sp.Add(*e.args, evaluate=False))
    if isinstance(e, (sp.sinh, sp.cosh)):
        return _exponential(sp.exp(e.args[0] if _sign(e.args[0]) > 0 else -e.args[0]))
    if isinstance(e, sp.log):
        inside = _at_end(e.args[0])
        if inside.exponent != 0:
            return Asymptote(degree=sp.Integer(sp.degree(inside.exponent, UP)))
        if inside.degree == 0:
            return ONE
    if isinstance(e, BOUNDED):
        return ONE
    raise ValueError(f"{e.func.__name__}: no rule for how it grows")


def _sum(e: sp.Expr) -> Asymptote:
    """The largest term; 1 - tanh^2 and 1 - erf, whose terms cancel, are known."""
    flat = sp.expand(e)
    if flat != 0:
        squares = flat.replace(lambda f: isinstance(f, sp.tanh), lambda f: sp.tanh(f.args[0]))
        limits = squares.subs({f: _sign(f.args[0]) for f in squares.atoms(sp.tanh, sp.erf, sp.sign)
                               if _at_end(f.args[0]).power > 0})
        if limits.is_zero:  # what is left is as small as 1 - tanh, or 1 - erf, of the slowest argument
            return max((_remainder(f) for f in flat.atoms(sp.tanh, sp.erf)), default=ZERO,
                       key=lambda a: a.exponent.subs(UP, 10**6))
    return reduce(Asymptote.plus, map(_at_end, e.args))


def _remainder(f: sp.Expr) -> Asymptote:
    inside = sp.expand(f.args[0] * _sign(f.args[0]))
    return _exponential(sp.exp(-2 * inside if isinstance(f, sp.tanh) else -inside**2))


def _exponential(e: sp.Expr) -> Asymptote:
    inside = sp.expand(e.args[0])
    if not inside.is_polynomial(UP):
        if not _at_end(inside).power <= 0:
            raise ValueError(f"exp({inside}): no rule for how it grows")
        return ONE
    return Asymptote(sp.expand(inside - inside.subs(UP, 0)))


def _sign(e: sp.Expr) -> int:
    """The sign of a polynomial's leading term; ``ValueError`` for anything else."""
    e = sp.expand(e)
    if not e.is_polynomial(UP):
        raise ValueError(f"{e}: no rule for its sign far out")
    return int(sp.sign(sp.Poly(e, UP).LC())) if e != 0 else 0
