"""A ket's size, taken apart by what it is random in: unknowns by name, exponents as whole numbers, parts by label.

A part is slow where it depends on the residual stream, which is common to many layers, and fresh in the hat-kets that
its own layer draws, matrix by matrix; it has no mean in any of them. Different matrices' hat-kets are independent, so
in a product only what both factors are random in can have a mean: of one source a part without it times one without
it is without it, one with it times one without it has it, and of two with it the product may have it or not. What may
have a source or not is one part: there would be 2^k of k such sources, all of one size.

A label is two sets of bits, what a part is random in for sure and, below, what perhaps; bit 0 is the stream, the last
one the readouts, which no layer draws either: gradients of the first step are linear in them, so that no product of one
with what the forward pass made has a mean. Nothing is random in the readouts alone: it would be a number, and numbers
that change their sign with the readouts are 0. Parts are values by label.

A value is twice an exponent in units, and one less where it is attained by upper bounds alone: of two equal exponents
the one that is attained for sure is the larger. ``INFINITE`` stands for what grows faster than every power, and what
vanishes has no value at all. Where a scale has directions, the digits below a value say how it changes when the point
is moved a little along the first of them, then along the second: ties break as they would at the moved point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Iterable, Iterator, Mapping, NamedTuple, Sequence

import sympy as sp

from ..errors import NotCovered
from ..orders.affine import Affine
from ..orders.quantities import BaseQuantity

KET, CHANGE, DERIVATIVE, SCALAR, SHRINK = "ket", "change", "derivative", "scalar", "shrink"
TURNED = "change of a derivative"


class Unknown(NamedTuple):
    """What exponents are found of: the parts of a ket of a family, of its change since the first step, of its
    derivative in a base ket, or of that one's change, at a step; a scalar by its name; or a negative power of a size,
    of order one at most."""

    sort: str
    step: int
    name: int | str
    base: BaseQuantity | None = None


class Bend(NamedTuple):
    """What a bounded function would add to its value on the leading part, if it went on as it starts."""

    step: int
    name: str
    sources: int


DIGIT = 64  # bits of a lower digit
MOST_DIRECTIONS = 128  # so that finite values are below
INFINITE = 1 << DIGIT * (MOST_DIRECTIONS + 2)
LARGE = INFINITE >> 1  # what is above is infinite
LEAST = -INFINITE
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

    def __post_init__(self) -> None:
        if len(self.directions) > MOST_DIRECTIONS:
            raise NotCovered(f"{len(self.directions)} exponents that move by themselves; expected at most "
                             f"{MOST_DIRECTIONS}")

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


SHIFT = 24
LOW = (1 << SHIFT) - 1
STREAM_BIT = 1
READOUT_BIT = 1 << SHIFT - 1
COMMON = STREAM_BIT | READOUT_BIT  # what no layer draws
MEAN = 0
STREAM = STREAM_BIT << SHIFT
READOUT = COMMON << SHIFT

Label = int
Parts = dict[Label, int]


def label_of(sure: int, maybe: int = 0) -> Label:
    return sure << SHIFT | maybe & ~sure


def sure_of(label: Label) -> int:
    return label >> SHIFT


def possible(label: Label) -> int:
    """All that a part may be random in."""
    return label >> SHIFT | label & LOW


@lru_cache(maxsize=None)
def product_label(a: Label, b: Label) -> Label:
    """What a product is random in: a source that both factors may have can be averaged out, one of one cannot."""
    sure = (sure_of(a) & ~possible(b)) | (sure_of(b) & ~possible(a))
    return label_of(sure, possible(a) | possible(b))


def bits(sources: int) -> Iterator[int]:
    while sources:
        least = sources & -sources
        yield least
        sources ^= least


@lru_cache(maxsize=None)
def random_in(label: Label, among: int) -> tuple[Label, ...]:
    """The parts of a label that are random in one source at least, of some; told apart by the first that they have."""
    if sure_of(label) & among:
        return (label,)
    found, left = [], label & LOW
    for source in bits(left & among):
        left &= ~source
        found.append(label_of(sure_of(label) | source, left))
    return tuple(found)


def contains(outer: Label, inner: Label) -> bool:
    """Is whatever the inner label stands for in the outer one?"""
    return not sure_of(outer) & ~sure_of(inner) and not possible(inner) & ~possible(outer)


def subsets(label: Label) -> Iterator[int]:
    """All that a label stands for, one by one."""
    sure, maybe = sure_of(label), label & LOW
    some = maybe
    while True:
        yield sure | some
        if not some:
            return
        some = some - 1 & maybe


def on_subsets(parts: Mapping[Label, int]) -> dict[int, int]:
    """The largest value for every set of sources: what parts mean, however they are written."""
    found: dict[int, int] = {}
    for label, value in parts.items():
        for one in subsets(label):
            if value > found.get(one, LEAST):
                found[one] = value
    return found


def pruned(parts: Parts) -> Parts:
    """Without labels that another one contains at a value at least as large."""
    if len(parts) < 3:
        return parts
    kept: Parts = {}
    outer: list[tuple[int, int]] = []
    for label, value in sorted(parts.items(), key=lambda one: (-one[1], -(one[0] & LOW).bit_count())):
        sure = label >> SHIFT
        all_of = sure | label & LOW
        for less, more in outer:  # as ``contains``, which is asked most of all
            if not less & ~sure and not all_of & ~more:
                break
        else:
            kept[label] = value
            outer.append((sure, all_of))
    return kept


def product(a: Parts, b: Parts) -> Parts:
    if len(b) == 1 and MEAN in b:
        a, b = b, a
    if len(a) == 1 and MEAN in a:
        number = a[MEAN]
        return b if number == 0 else {label: sum_of_values(value, number) for label, value in b.items()}
    found: Parts = {}
    for one, value in a.items():
        for other, more in b.items():
            label, both = product_label(one, other), sum_of_values(value, more)
            if both > found.get(label, LEAST):
                found[label] = both
    return pruned(found)


def union(many: Iterable[Parts]) -> Parts:
    """The size of a sum, in which nothing cancels."""
    found: Parts = {}
    for one in many:
        for label, value in one.items():
            if value > found.get(label, LEAST):
                found[label] = value
    return pruned(found)


def size_of_parts(parts: Mapping[Label, int]) -> int | None:
    """The largest value, None of what vanishes."""
    return max(parts.values(), default=None)


def is_infinite(parts: Mapping[Label, int]) -> bool:
    return any(value > LARGE for value in parts.values())


def in_stream(label: Label, gain: int) -> list[tuple[Label, int]]:
    """Which parts of a stream a part of a term enters, with what gain over all layers."""
    sure, perhaps = sure_of(label), label & LOW
    found: list[tuple[Label, int]] = []
    if not sure & ~COMMON:  # what it has that no layer draws
        if possible(label) & STREAM_BIT:
            found.append((label_of(STREAM_BIT | sure, perhaps & READOUT_BIT), gain))
        if not sure:
            found.append((MEAN, gain))
    if possible(label) & ~COMMON:
        found.append((fresh_in(STREAM_BIT, label), gain // 2))
    return found


def fresh_in(source: int, label: Label) -> Label:
    """What is random in a source, and linear in a part: random in the readouts as that is."""
    return label_of(source | sure_of(label) & READOUT_BIT, label & READOUT_BIT)


def parts_in_words(label: Label, matrices: Mapping[int, str]) -> str:
    """A label in words, such as "random in the stream, perhaps in W"; matrices: the names of sources by their bits."""
    def named(sources: int) -> str:
        common = {STREAM_BIT: "the stream", READOUT_BIT: "the readout"}
        return ", ".join(common.get(bit) or matrices.get(bit, "?") for bit in bits(sources))

    said = f"random in {named(sure_of(label))}" if sure_of(label) else "a mean" if not label else "a part"
    return said + (f", perhaps in {named(label & LOW)}" if label & LOW else "")
