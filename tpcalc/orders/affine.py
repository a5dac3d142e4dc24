"""Exponents of L: affine forms in parameters, maxima of them, and the exact regions on which these are one form each.

Regions are polyhedra: inequalities with rational coefficients, some of them strict. An exponent is -oo for what
vanishes and +oo for what explodes. A cell is a region with the powers of L of all quantities there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Iterable, Iterator, Mapping, Sequence

import sympy as sp

from .._checks import exponent, symbolic
from .._types import Number
from ..errors import NotCovered
from .quantities import Quantity, Sort


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
        return cls(tuple(map(Fraction, slopes)), Fraction(constant))

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
        return sp.Add(sp.Rational(self.constant), *(sp.Rational(c) * p for c, p in zip(self.slopes, parameters)))

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
    return tuple(Fraction(number) if number.is_Rational else number for number in numbers)


def exact_parameters(values: Mapping[str, Number], parameters: Iterable[sp.Symbol]) -> dict[sp.Symbol, sp.Expr]:
    """Exact numbers of the named parameters; raises ``ValueError`` for unknown names and for what is not real."""
    known = {str(p): p for p in parameters}
    unknown = set(values) - set(known)
    if unknown:
        raise ValueError(f"parameters: got {', '.join(sorted(unknown))}; expected {', '.join(known) or 'none'}")
    numbers = {known[name]: exponent(name, value) for name, value in values.items()}
    for parameter, number in numbers.items():
        if not number.is_number or number.is_real is not True:
            raise ValueError(f"{parameter}: got {number}; expected a real number")
    return numbers


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


@dataclass(frozen=True)
class Exponent:
    """The largest of some affine forms; no forms: -oo; explodes: +oo, faster than every power of L."""

    forms: frozenset[Affine] = frozenset()
    explodes: bool = False

    @classmethod
    def single(cls, form: Affine) -> "Exponent":
        return cls(frozenset((form,)))

    @property
    def vanishes(self) -> bool:
        return not self.forms and not self.explodes

    def times(self, other: "Exponent") -> "Exponent":
        """The exponent of a product."""
        if self.vanishes or other.vanishes:
            return Exponent()
        if self.explodes or other.explodes:
            return EXPLODES
        return Exponent(frozenset(f + g for f in self.forms for g in other.forms))

    def plus(self, other: "Exponent") -> "Exponent":
        """The exponent of a sum in which nothing cancels."""
        return EXPLODES if self.explodes or other.explodes else Exponent(self.forms | other.forms)

    def power(self, factor: Fraction) -> "Exponent":
        """The exponent of a positive power."""
        return Exponent(frozenset(f * factor for f in self.forms), self.explodes)

    def pruned(self, region: Region) -> "Exponent":
        """Without the forms that are nowhere on the region larger than all others."""
        if len(self.forms) < 2:
            return self
        if not region.size:  # numbers
            return Exponent(frozenset((max(self.forms),)), self.explodes)
        return Exponent(_pruned(self.forms, region), self.explodes)

    def at(self, point: Sequence[Fraction]) -> sp.Expr:
        """The value at a point, exact, -oo or oo."""
        if self.explodes:
            return sp.oo
        value = max((f.at(point) for f in self.forms), default=None)
        return -sp.oo if value is None else symbolic(value)

    def expression(self, parameters: Sequence[sp.Symbol]) -> sp.Expr:
        """The exponent as a sympy expression."""
        if self.explodes:
            return sp.oo
        return sp.Max(*(f.expression(parameters) for f in self.forms)) if self.forms else -sp.oo


@lru_cache(maxsize=4096)
def _pruned(forms: frozenset[Affine], region: Region) -> frozenset[Affine]:
    kept: list[Affine] = []
    for form in sorted(forms):  # first against one other form each, which is cheap
        if not any(region.never(form - other, ">") for other in kept):
            kept = [other for other in kept if not region.never(other - form, ">")] + [form]
    for form in list(kept) if len(kept) > 2 else ():
        part = region
        for other in kept:
            part = part if other == form else part.where(form - other, ">")
        if part.is_empty:
            kept.remove(form)
    return frozenset(kept)


EXPLODES = Exponent(explodes=True)


def join(exponents: Iterable[Exponent]) -> Exponent:
    """The exponent of a sum."""
    found = Exponent()
    for one in exponents:
        found = found.plus(one)
    return found


@dataclass(frozen=True)
class Contribution:
    """One term of an equation for ``target``: L^weight times ``factors``, its layers' sums included.

    equation, term: where it stands in the recursion, and the symbolic term; update: it is there because of
    earlier training steps; rule: how it enters; sign: of its coefficient, 0 where that is not known.
    """

    target: Quantity
    weight: Affine
    factors: tuple[Quantity, ...]
    equation: int
    term: sp.Expr
    update: bool
    rule: str
    sign: int = 0


@dataclass(frozen=True)
class Cell:
    """A region on which the same guards hold, and the exponents of all quantities there.

    explosions: (quantity, v) of sweeps that grow like exp(L^v), the first first; all that comes after counts as +oo.
    grows: a positive exponent exceeds that of the training step before; contributions: the terms that were counted.
    forgotten: (quantity, v) of those that forget what is older than L^(1 - v) layers.
    """

    region: Region
    exponents: dict[Quantity, Exponent]
    explosions: tuple[tuple[Quantity, Exponent], ...] = ()
    grows: bool = False
    contributions: tuple[Contribution, ...] = ()
    forgotten: tuple[tuple[Quantity, Exponent], ...] = ()

    def on(self, region: Region) -> "Cell":
        """The cell on a part of its region."""
        exponents = {key: exponent.pruned(region) for key, exponent in self.exponents.items()}
        return replace(self, region=region.reduced(), exponents=exponents)

    def require_forgotten(self, parameters: Sequence[sp.Symbol]) -> None:
        """Raise ``ValueError`` where something forgets where it started, and not all that there is vanishes with it.

        What a sweep forgets still stands in the L^(1 - v) layers next to its start, as gradients do next to the output;
        no rule counts its products with what does not vanish there.
        """
        if self.forgotten and not self.explosions and not all(
                exponent.vanishes for q, exponent in self.exponents.items() if q.sort == Sort.COVARIANCE
                or q.sort == Sort.COEFFICIENT and q.base is not None and q.base.is_initial):
            quantity, rate = self.forgotten[0]
            raise NotCovered(f"{quantity} forgets what is older than L^({1 - rate.expression(parameters)}) layers and "
                             "is fed by what does not; no rule for what these layers add where it starts")

    def is_bounded(self, keys: Sequence[Quantity]) -> bool:
        """Does every one of the quantities stay of order one, or vanish, with growing depth, everywhere on the cell?"""
        return not any(self.of(key).explodes for key in keys) and not self.has_powers(keys)

    def has_powers(self, keys: Sequence[Quantity]) -> bool:
        """Does any of the quantities grow like a power of the depth, somewhere on the cell?"""
        return any(self.region.sign(form) not in ("<", "=", "<=") for key in keys for form in self.of(key).forms)

    def of(self, quantity: Quantity | str, step: int = 0) -> Exponent:
        """The exponent of a quantity, or of the scalar of a name at a step; -oo where it vanishes."""
        key = Quantity.scalar(quantity, step) if isinstance(quantity, str) else quantity
        return self.exponents.get(key, Exponent())

    def weight(self, one: Contribution) -> Exponent:
        """The exponent of a term."""
        return product_of(one, (self.exponents.get(f, Exponent()) for f in one.factors)).pruned(self.region)


def product_of(one: Contribution, factors: Iterable[Exponent]) -> Exponent:
    value = Exponent.single(one.weight)
    for factor in factors:
        value = value.times(factor)
    return value
