"""Polyhedral regions of the parameters, exact: inequalities with rational coefficients, some of them strict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Iterable, Iterator, Sequence

import sympy as sp

from .affine import Affine


@dataclass(frozen=True)
class Condition:
    """form > 0 where strict, form >= 0 else."""

    form: Affine
    strict: bool

    def holds(self, point: Sequence[sp.Expr]) -> bool:
        value = self.form.at(point)
        return bool(value > 0 if self.strict else value >= 0)

    def expression(self, parameters: Sequence[sp.Symbol]) -> sp.Expr:
        """The inequality, its constant on the right, its first slope positive."""
        form = self.form.scaled()
        if next((slope for slope in form.slopes if slope), Fraction(1)) < 0:
            left = Affine((form * -1).slopes, Fraction(0)).expression(parameters)
            right = Affine((), form.constant).expression(())
            return sp.Lt(left, right) if self.strict else sp.Le(left, right)
        left = Affine(form.slopes, Fraction(0)).expression(parameters)
        right = -Affine((), form.constant).expression(())
        return sp.Gt(left, right) if self.strict else sp.Ge(left, right)


@dataclass(frozen=True)
class Region:
    """The points of a space of ``size`` parameters where all conditions hold; convex, perhaps of lower dimension."""

    size: int
    conditions: tuple[Condition, ...] = ()

    def where(self, form: Affine, relation: str) -> "Region":
        """The part where ``form`` is "<", "<=", "=", ">=" or ">" zero."""
        up, down = Condition(form, len(relation) == 1), Condition(form * -1, len(relation) == 1)
        added = {"<": (down,), "<=": (down,), ">": (up,), ">=": (up,),
                 "=": (Condition(form, False), Condition(form * -1, False))}[relation]
        return Region(self.size, (*self.conditions, *(c for c in added if c not in self.conditions)))

    @property
    def zero(self) -> Affine:
        """The form that vanishes everywhere."""
        return Affine.number(0, self.size)

    def contains(self, point: Sequence[sp.Expr]) -> bool:
        return all(c.holds(point) for c in self.conditions)

    def point(self) -> tuple[Fraction, ...] | None:
        """A point in the relative interior, None where the region is empty."""
        return _interior_point(self.conditions, self.size)

    @property
    def is_empty(self) -> bool:
        return self.point() is None

    @lru_cache(maxsize=4096)
    def never(self, form: Affine, relation: str) -> bool:
        """Does ``form`` stand in this relation to zero nowhere on the region?"""
        return self.where(form, relation).is_empty

    def sign(self, form: Affine) -> str | None:
        """"<", "=" or ">" where the form has one sign all over the region, "<=", ">=", None where it changes sign."""
        signs = "".join(s for s in "<=>" if not self.never(form, s))
        return signs if len(signs) == 1 else {"<=": "<=", "=>": ">="}.get(signs)

    def split(self, form: Affine) -> Iterator[tuple[str, "Region"]]:
        """The parts that are not empty, by the sign of the form."""
        for relation in "<=>":
            part = self.where(form, relation)
            if not part.is_empty:
                yield relation, part

    def reduced(self) -> "Region":
        """The region without conditions that follow from the others."""
        kept = _tightest(self.conditions)
        for condition in sorted(kept, key=lambda c: c.strict):
            others = Region(self.size, tuple(c for c in kept if c != condition))
            if others.where(condition.form, "<=" if condition.strict else "<").is_empty:
                kept.remove(condition)
        return Region(self.size, tuple(kept))

    def joined(self, other: "Region") -> "Region | None":
        """The points of either of two regions that are not empty, where they are one region; None elsewhere.

        What both keep is the least region with both in it, if there is one; nothing of it may be in neither.
        """
        def kept(one: "Region", another: "Region") -> Iterator[Condition]:
            for condition in one.conditions:
                if another.never(condition.form, "<"):
                    yield Condition(condition.form, condition.strict and another.never(condition.form, "="))

        whole = Region(self.size, tuple(dict.fromkeys((*kept(self, other), *kept(other, self)))))

        def beyond(region: "Region", condition: Condition) -> "Region":
            return region.where(condition.form, "<=" if condition.strict else "<")

        missing = any(not beyond(beyond(whole, first), second).is_empty
                      for first in self.conditions for second in other.conditions)
        return None if missing else whole.reduced()

    @property
    def equations(self) -> tuple[Affine, ...]:
        """Forms that vanish all over the region, none of which follows from those before it."""
        found: list[Affine] = []
        for form in sorted({c.form.scaled() for c in self.conditions if not c.strict}):
            known = Region(self.size)
            for one in found:
                known = known.where(one, "=")
            if self.where(form, ">").is_empty and known.sign(form) != "=":
                found.append(form if form > form * -1 else form * -1)
        return tuple(found)

    def expressions(self, parameters: Sequence[sp.Symbol]) -> tuple[sp.Expr, ...]:
        """Equations and inequalities for people, without redundant ones."""
        equal = self.equations
        known = Region(self.size)
        for form in equal:
            known = known.where(form, "=")
        rest = self.reduced().conditions
        return (*(sp.Eq(Affine(f.slopes, Fraction(0)).expression(parameters), -Affine((), f.constant).expression(()))
                  for f in equal),
                *(c.expression(parameters) for c in rest if known.sign(c.form) != "="))


def _tightest(conditions: Sequence[Condition]) -> list[Condition]:
    """One condition for each direction, so that far fewer have to be compared with each other."""
    found: dict[tuple[Fraction, ...], Condition] = {}
    for c in conditions:
        form = Affine(c.form.slopes, Fraction(0)).scaled()
        first = next((i for i, slope in enumerate(form.slopes) if slope), None)
        scale = Fraction(1) if first is None else form.slopes[first] / c.form.slopes[first]
        one = Condition(c.form * scale, c.strict)
        other = found.setdefault(form.slopes, one)
        if (one.form.constant, not one.strict) < (other.form.constant, not other.strict):
            found[form.slopes] = one
    return [Condition(c.form.scaled(), c.strict) for c in found.values()]


@lru_cache(maxsize=2**14)
def _interior_point(conditions: tuple[Condition, ...], size: int) -> tuple[Fraction, ...] | None:
    return _between({_whole(c.form): c.strict for c in sorted(conditions, key=lambda c: c.strict)}, size)


def _whole(form: Affine) -> tuple[int, ...]:
    """Slopes and constant of a form, in proportion, as whole numbers, which are compared faster than fractions."""
    numbers = (*form.slopes, form.constant)
    scale = math.lcm(*(number.denominator for number in numbers))
    return tuple(int(number * scale) for number in numbers)


def _between(rows: dict[tuple[int, ...], bool], size: int) -> tuple[Fraction, ...] | None:
    """Eliminate the last parameter (Fourier, Motzkin), find a point for the others, then one for it.

    rows: slopes and constants of forms that are positive where they are strict, and not negative else.
    """
    if size == 0:
        return () if all(number > 0 or number == 0 and not strict for (number,), strict in rows.items()) else None
    lower = [(row, strict) for row, strict in rows.items() if row[size - 1] > 0]
    upper = [(row, strict) for row, strict in rows.items() if row[size - 1] < 0]
    without: dict[tuple[int, ...], bool] = {}

    def keep(row: Iterable[int], strict: bool) -> None:
        *slopes, last, constant = row
        whole = (*slopes, constant)
        scale = math.gcd(*whole) or 1
        key = tuple(number // scale for number in whole)
        without[key] = without.get(key, False) or strict

    for row, strict in rows.items():
        if not row[size - 1]:
            keep(row, strict)
    for low, strict_low in lower:
        for high, strict_high in upper:
            up, down = low[size - 1], -high[size - 1]
            keep((down * a + up * b for a, b in zip(low, high)), strict_low or strict_high)
    rest = _between(without, size - 1)
    if rest is None:
        return None
    lows, highs = ([-sum((a * x for a, x in zip(row, rest)), Fraction(row[-1])) / row[size - 1] for row, _ in side]
                   for side in (lower, upper))
    if lows and highs:
        return (*rest, (max(lows) + min(highs)) / 2)
    return (*rest, max(lows) + 1 if lows else min(highs) - 1 if highs else Fraction(0))
