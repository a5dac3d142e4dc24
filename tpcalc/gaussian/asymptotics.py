"""How entrywise functions go at the ends of the real line: exp(exponent) times a power of the argument.

Read off the expression node by node, because limits of sums with error functions and exponentials are not found in
general. A sum counts as its largest term, so that what cancels in it is not seen: an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Callable

import sympy as sp

from ..errors import NotCovered
from ..models.activations import H

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


def asymptotes(function: sp.Expr) -> tuple[Asymptote, Asymptote]:
    """What a function of H goes like at oo and at -oo; ``ValueError`` for a function without a rule, naming it."""
    plain = function.rewrite(sp.Heaviside).replace(sp.DiracDelta, lambda *_: sp.Integer(0))
    return _far_out(plain.subs(H, UP)), _far_out(plain.subs(H, -UP))


def _far_out(plain: sp.Expr) -> Asymptote:
    """A function for large arguments, where steps and kinks are passed, the innermost ones first."""
    for _ in range(3):
        plain = plain.replace(sp.Heaviside, lambda a, *_: sp.Heaviside(_sign(a))).replace(sp.sign, _sign).replace(
            sp.Abs, lambda a: a * _sign(a))
    return _at_end(sp.expand(plain))


def _at_end(e: sp.Expr) -> Asymptote:
    """What an expression goes like as the symbol UP goes to infinity."""
    if e.is_zero:
        return ZERO
    return RULES.get(e.func, _unknown)(e) if e.has(UP) else ONE


def _unknown(e: sp.Expr) -> Asymptote:
    raise NotCovered(f"{e.func.__name__}: no rule for how it grows")


def _power(e: sp.Expr) -> Asymptote:
    return _at_end(e.base).to(e.exp) if e.exp.is_Rational else _unknown(e)


def _logarithm(e: sp.Expr) -> Asymptote:
    inside = _at_end(e.args[0])
    if inside.exponent != 0:
        return Asymptote(degree=sp.Integer(sp.degree(inside.exponent, UP)))
    return ONE if inside.degree == 0 else _unknown(e)


def _sum(e: sp.Expr) -> Asymptote:
    """The largest term; 1 - tanh^2 and 1 - erf, whose terms cancel, are known."""
    flat = sp.expand(e)
    if flat != 0:
        limits = flat.subs({f: _sign(f.args[0]) for f in flat.atoms(sp.tanh, sp.erf, sp.sign)
                            if _at_end(f.args[0]).power > 0})
        if limits.is_zero:  # what is left is as small as 1 - tanh, or 1 - erf, of the slowest argument
            return max((_remainder(f) for f in flat.atoms(sp.tanh, sp.erf)), default=ZERO,
                       key=lambda a: a.exponent.subs(UP, 10**6))
    return reduce(Asymptote.plus, map(_at_end, e.args))


def _remainder(f: sp.Expr) -> Asymptote:
    inside = sp.expand(f.args[0] * _sign(f.args[0]))
    return _exponential(sp.exp(-2 * inside if f.func == sp.tanh else -inside**2))


def _exponential(e: sp.Expr) -> Asymptote:
    inside = sp.expand(e.args[0])
    if not inside.is_polynomial(UP):
        if not _at_end(inside).power <= 0:
            raise NotCovered(f"exp({inside}): no rule for how it grows")
        return ONE
    return Asymptote(sp.expand(inside - inside.subs(UP, 0)))


def _sign(e: sp.Expr) -> int:
    """The sign of a polynomial's leading term; ``ValueError`` for anything else."""
    e = sp.expand(e)
    if not e.is_polynomial(UP):
        raise NotCovered(f"{e}: no rule for its sign far out")
    return int(sp.sign(sp.Poly(e, UP).LC())) if e != 0 else 0


RULES: dict[type[sp.Expr], Callable[[sp.Expr], Asymptote]] = {
    type(UP): lambda e: Asymptote(degree=sp.Integer(1)),
    sp.Mul: lambda e: reduce(Asymptote.times, map(_at_end, e.args)),
    sp.Pow: _power,
    sp.Add: _sum,
    **dict.fromkeys((sp.Max, sp.Min), lambda e: _sum(sp.Add(*e.args, evaluate=False))),
    sp.exp: _exponential,
    **dict.fromkeys((sp.sinh, sp.cosh), lambda e: _exponential(sp.exp(e.args[0] * _sign(e.args[0])))),
    sp.log: _logarithm,
    **dict.fromkeys((sp.tanh, sp.erf, sp.sign, sp.atan, sp.sin, sp.cos), lambda e: ONE),
}
