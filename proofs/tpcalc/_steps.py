"""Steps that say more than that two polynomials are one: sides that simplify to each other, limits, solutions."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from tpcalc.ledger.proof import Identity


def is_zero(expression: sp.Expr) -> bool:
    """Is it 0 as a quotient of polynomials, logarithms and other functions being letters, and sines of an angle and of
    its half being what they are of the tangent of a quarter?"""
    if not expression.is_commutative:
        return bool(sp.expand(expression) == 0)
    sines = expression.atoms(sp.sin, sp.cos)
    quarter = sp.Symbol("quarter", positive=True)
    sin, cos = 2 * quarter / (1 + quarter**2), (1 - quarter**2) / (1 + quarter**2)
    half = {sp.sin: sin, sp.cos: cos}
    whole = {sp.sin: 2 * sin * cos, sp.cos: cos**2 - sin**2}
    known = {one: (whole if one.args[0].is_Symbol else half)[one.func] for one in sines}
    return bool(sp.expand(sp.numer(sp.together(expression.xreplace(known)))) == 0)


@dataclass(frozen=True)
class Trigonometric(Identity):
    """A step between expressions that are one, of the sines and cosines of one angle and of half of it."""

    def check(self) -> bool:
        return is_zero(self.before - self.after)


@dataclass(frozen=True)
class Simplified(Identity):
    """A step between expressions whose difference simplifies to 0."""

    def check(self) -> bool:
        return bool(sp.simplify(self.before - self.after) == 0)


@dataclass(frozen=True)
class InTheLimit(Identity):
    """A step to the limit in which a size grows."""

    grows: sp.Symbol = sp.Symbol("L", positive=True)

    def check(self) -> bool:
        return bool(sp.simplify(sp.limit(self.before, self.grows, sp.oo) - self.after) == 0)


@dataclass(frozen=True)
class Solved(Identity):
    """A step from what is 0, and has the left side in it, to what the left side is."""

    def check(self) -> bool:
        return bool(self.before.has(self.left) and sp.simplify(self.before.subs(self.left, self.after)) == 0)


@dataclass(frozen=True)
class PutIn(Identity):
    """A step that puts in what symbols stand for."""

    known: tuple[tuple[sp.Symbol, sp.Expr], ...] = ()

    def check(self) -> bool:
        return is_zero((self.before - self.after).xreplace(dict(self.known)))
