"""Exponents as whole numbers, so that sums and maxima of them are sums and maxima of whole numbers.

A value is twice an exponent in units, and one less where it is attained by upper bounds alone: of two equal exponents
the one that is attained for sure is the larger. ``INFINITE`` stands for what grows faster than every power, and what
vanishes has no value at all. Where a scale has directions, the digits below a value say how it changes when the point
is moved a little along the first of them, then along the second: ties break as they would at the moved point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Sequence

import sympy as sp

from ..errors import NotCovered
from ..orders.affine import Affine

INFINITE = 1 << 1000
LARGE = INFINITE >> 1  # what is above is infinite
LEAST = -INFINITE
DIGIT = 64  # bits of a lower digit
LARGEST_DIGIT = 1 << DIGIT - 16  # of one factor, so that those of a product fit into a digit
PARTS = 64  # of a unit, for halves of halves


def sum_of_values(a: int, b: int) -> int:
    """The value of a product: exponents add, and a bound times anything is a bound."""
    return INFINITE if a > LARGE or b > LARGE else a + b + (a & b & 1)


def exponent_of(value: int) -> int:
    """The exponent in units, without whether it is a bound."""
    return value + 1 >> 1


@dataclass(frozen=True)
class Scale:
    """The whole numbers of exponents at a point.

    directions: along which the point is moved a little, one infinitely less than the one before; fine: a multiple of
    all denominators of the forms that are read.
    """

    point: tuple[Fraction, ...]
    directions: tuple[tuple[Fraction, ...], ...] = ()
    fine: int = 1

    @cached_property
    def unit(self) -> int:
        """The value of the exponent one."""
        return self._main << DIGIT * len(self.directions)

    @cached_property
    def _main(self) -> int:
        return 4 * PARTS * self.fine * math.lcm(2, *(x.denominator for x in self.point))

    @cached_property
    def _steps(self) -> tuple[tuple[Fraction, ...], ...]:
        """The directions as whole numbers."""
        return tuple(tuple(x * math.lcm(1, *(y.denominator for y in one)) for x in one) for one in self.directions)

    def of(self, form: Affine) -> int:
        """The value of an affine form."""
        digits = [(form.at(self.point), self._main)]
        digits += [(form.rise(step), 2 * PARTS * self.fine) for step in self._steps]
        found = 0
        for place, (number, unit) in enumerate(digits):
            digit = Fraction(number) * unit
            if digit.denominator != 1:
                raise NotCovered(f"{number}: an exponent that is no multiple of 1/{unit}; no rule for powers so fine")
            if place and abs(digit) > LARGEST_DIGIT:
                raise NotCovered(f"{number}: an exponent changes by so much, or so fine a part of it, along a "
                                 "direction; no rule for directions so far from those of the parameters")
            found = (found << DIGIT) + int(digit)
        return found

    def number(self, value: int | None) -> sp.Expr:
        """The exponent of a value, exact; -oo where there is none."""
        if value is None:
            return -sp.oo
        return sp.oo if value > LARGE else sp.Rational(self._digits(value)[0], self._main // 2)

    def fraction(self, value: int) -> Fraction:
        """The exponent of a finite value, exact."""
        return Fraction(self._digits(value)[0], self._main // 2)

    def form(self, value: int) -> Affine:
        """The affine form that a finite value is of, where the last directions are those of the parameters."""
        main, *digits = self._digits(value)
        found = tuple(Fraction(digit, PARTS * self.fine) for digit in digits[len(digits) - len(self.point):])
        return Affine(found, Fraction(main, self._main // 2) - sum(
            (a * x for a, x in zip(found, self.point)), Fraction(0)))

    def has_digits(self, value: int) -> bool:
        """Are all lower digits those of products, and not what parts of higher ones leave behind?"""
        return value > LARGE or all(abs(digit) < LARGEST_DIGIT << 8 for digit in self._digits(value)[1:])

    def _digits(self, value: int) -> list[int]:
        left, found = exponent_of(value), []
        for _ in self.directions:
            digit = (left + (1 << DIGIT - 1)) % (1 << DIGIT) - (1 << DIGIT - 1)
            found.append(digit)
            left = left - digit >> DIGIT
        return [left, *found[::-1]]


def unit_directions(size: int) -> tuple[tuple[Fraction, ...], ...]:
    """The directions of all parameters."""
    return tuple(tuple(Fraction(i == j) for j in range(size)) for i in range(size))


def towards(point: Sequence[Fraction], inner: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """The direction from one point to another."""
    return tuple(y - x for x, y in zip(point, inner))
