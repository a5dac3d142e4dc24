"""Affine forms in the exponents' parameters, with rational coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Mapping, Sequence

import sympy as sp

from .._checks import symbolic
from ..errors import NotCovered


class NotAffine(NotCovered):
    """An exponent that is no affine form with rational coefficients."""


@dataclass(frozen=True, order=True)
class Affine:
    """constant + sum of slopes times parameters; the parameters' names are kept by whoever holds the form."""

    slopes: tuple[Fraction, ...]
    constant: Fraction

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Kept, for exponents are sets of forms."""
        return hash(tuple((c.numerator, c.denominator) for c in (*self.slopes, self.constant)))

    @classmethod
    def of(cls, expression: sp.Expr, parameters: Sequence[sp.Symbol]) -> "Affine":
        """Read an expression; raises ``NotAffine`` where it is not affine with rational coefficients."""
        expanded = sp.expand(expression)
        slopes = [expanded.coeff(p) for p in parameters]
        constant = sp.expand(expanded - sp.Add(*(c * p for c, p in zip(slopes, parameters))))
        if not all(c.is_Rational for c in (*slopes, constant)):
            raise NotAffine(f"exponent {expression}; expected affine forms in "
                            f"{', '.join(map(str, parameters)) or 'nothing'} with rational coefficients")
        return cls(tuple(_fraction(c) for c in slopes), _fraction(constant))

    @classmethod
    def number(cls, value: Fraction | int, size: int) -> "Affine":
        """A constant form in ``size`` parameters."""
        return cls((Fraction(0),) * size, Fraction(value))

    def __add__(self, other: "Affine") -> "Affine":
        return Affine(tuple(a + b for a, b in zip(self.slopes, other.slopes)), self.constant + other.constant)

    def __sub__(self, other: "Affine") -> "Affine":
        return Affine(tuple(a - b for a, b in zip(self.slopes, other.slopes)), self.constant - other.constant)

    def __mul__(self, factor: Fraction | int) -> "Affine":
        return Affine(tuple(a * factor for a in self.slopes), self.constant * factor)

    def at(self, point: Sequence[sp.Expr]) -> sp.Expr:
        """The value at a point, its coordinates in the order of the parameters: fractions, or real sympy numbers."""
        return self.constant + self.rise(point)

    def rise(self, direction: Sequence[sp.Expr]) -> sp.Expr:
        """By how much it grows along a direction, numbers as of a point."""
        return sum((a * d for a, d in zip(self.slopes, direction) if a), Fraction(0))

    @property
    def is_constant(self) -> bool:
        return not any(self.slopes)

    def expression(self, parameters: Sequence[sp.Symbol]) -> sp.Expr:
        """The form as a sympy expression."""
        return sp.Add(_rational(self.constant), *(_rational(c) * p for c, p in zip(self.slopes, parameters)))

    def scaled(self) -> "Affine":
        """The half-plane {form > 0} as a form whose coefficients are whole numbers without a common factor."""
        parts = [c for c in (*self.slopes, self.constant) if c]
        if not parts:
            return self
        factor = Fraction(sp.ilcm(1, *(c.denominator for c in parts)))
        factor /= Fraction(sp.igcd(0, *(int(c * factor) for c in parts)))
        return self * factor


def point_of(values: Mapping[sp.Symbol, sp.Expr], parameters: Sequence[sp.Symbol]) -> tuple[sp.Expr, ...]:
    """Values in the order of the parameters, rational ones as fractions; ``ValueError`` naming one that is missing."""
    missing = [p for p in parameters if p not in values]
    if missing:
        raise ValueError(f"no value for {', '.join(map(str, missing))}; given: {dict(values)}")
    numbers = [symbolic(values[p]) for p in parameters]
    return tuple(_fraction(number) if number.is_Rational else number for number in numbers)


def _fraction(number: sp.Rational) -> Fraction:
    return Fraction(int(number.p), int(number.q))


def _rational(number: Fraction) -> sp.Rational:
    return sp.Rational(number.numerator, number.denominator)
