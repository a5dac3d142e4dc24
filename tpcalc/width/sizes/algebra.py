"""Sums of powers of the width multiplied, averaged and cut, on one table of atoms."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Iterable

from ...errors import NotCovered
from ...orders.affine import Affine
from ...programs.language import Matrix
from .atoms import Atom, Atoms, Key, CoordinateAverage, Monomial, MatrixProduct, Total
from .powers import AffinePowers

if TYPE_CHECKING:
    from .limits import Limits

HALF = Fraction(1, 2)
MOST_TERMS = 1500


class Cancellation(NotCovered):
    """The leading terms cancel, or may cancel, or what was dropped may be larger than what is left.

    at_most: a power of n that the size does not exceed, None where none is known.
    """

    def __init__(self, message: str, at_most: Affine | None = None) -> None:
        super().__init__(message)
        self.at_most = at_most


class Algebra:
    """What sums need to be multiplied: the table of atoms, how powers compare, and the window.

    window: terms that are smaller than the largest of their sum by more than this power of n are dropped, and bounded.
    """

    limits: "Limits"

    def __init__(self, powers: AffinePowers, window: Fraction) -> None:
        self.powers, self.window, self.atoms = powers, window, Atoms()
        self._canonical: dict[Monomial, Monomial] = {}

    # --- making sums

    def number(self, value: Fraction | int) -> Total:
        return Total({(self.powers.number(0), ()): Fraction(value)} if value else {})

    def power(self, form: Affine) -> Total:
        """n to a power."""
        return Total({(form, ()): Fraction(1)})

    def of(self, atom: Atom) -> Total:
        return self.monomial(((self.atoms.number(atom), Fraction(1)),))

    def monomial(self, monomial: Monomial) -> Total:
        return Total({(self.powers.number(0), monomial): Fraction(1)})

    # --- sizes of terms

    def atom_order(self, number: int) -> Fraction:
        """The power of n of an atom: -1/2 for averages that vanish in the limit."""
        atom = self.atoms[number]
        return -HALF if isinstance(atom, CoordinateAverage) and self.limits.value(atom.body).vanishes else Fraction(0)

    def bound(self, key: Key) -> Affine:
        """The power of n of a term."""
        shift = sum((power * self.atom_order(number) for number, power in key[1]), Fraction(0))
        return key[0] + self.powers.number(shift) if shift else key[0]

    def bounds(self, total: Total) -> Affine | None:
        """The power of n of the largest term, cancellations aside; None for nothing at all."""
        return self.powers.largest([*map(self.bound, total.terms), *total.rest])

    def cut(self, total: Total) -> Total:
        """The sum without terms that are smaller than the largest by more than the window."""
        if len(total.terms) < 2 and not total.rest:
            return total
        top = self.powers.largest(map(self.bound, total.terms))
        if top is None:
            return Total({}, self._one(total.rest))
        kept, rest = {}, set(total.rest)
        for key, value in total.terms.items():
            bound = self.bound(key)
            if self.powers.sign(bound - top + self.powers.number(self.window)) < 0:
                rest.add(bound)
            else:
                kept[key] = value
        if len(kept) > MOST_TERMS:
            raise Cancellation(f"more than {MOST_TERMS} terms of comparable size; too many to tell which lead")
        return Total(kept, self._one(rest))

    def _one(self, rest: Iterable[Affine]) -> frozenset[Affine]:
        top = self.powers.largest(rest)
        return frozenset() if top is None else frozenset((top,))

    # --- operations

    def product(self, *totals: Total) -> Total:
        found = self.number(1)
        for total in totals:
            found = self._two(found, total)
        return found

    def _two(self, one: Total, other: Total) -> Total:
        if one.vanishes or other.vanishes:
            return Total()
        terms: dict[Key, Fraction] = {}
        for (f, u), a in one.terms.items():
            for (g, v), b in other.terms.items():
                for monomial, sign in self._reduced(self.atoms.joined(u, v)):
                    key = (f + g, monomial)
                    terms[key] = terms.get(key, Fraction(0)) + a * b * sign
        rest: set[Affine] = set()
        if one.rest or other.rest:
            first, second = self.bounds(one), self.bounds(other)
            assert first is not None and second is not None
            rest = {r + second for r in one.rest} | {r + first for r in other.rest}
        return self.cut(Total({key: value for key, value in terms.items() if value}, frozenset(rest)))

    def _reduced(self, monomial: Monomial) -> list[tuple[Monomial, int]]:
        """The product with 1 - sech^2 for every tanh^2, so that what is equal looks alike."""
        for number, power in monomial:
            other = self.atoms.sech_of_tanh(number) if power >= 2 else None
            if other is not None:
                rest = self.atoms.joined(tuple(f for f in monomial if f[0] != number),
                                         ((number, power - 2),) if power > 2 else ())
                squared = self.atoms.joined(rest, ((other, Fraction(2)),))
                return [*self._reduced(rest), *((m, -sign) for m, sign in self._reduced(squared))]
        return [(monomial, 1)]

    def to(self, total: Total, power: int) -> Total:
        return self.product(*(total,) * power)

    def apply(self, matrix: Matrix, turned: bool, vector: Total) -> Total:
        """An initial matrix, or its transpose, times a vector; its norm is of order one."""
        terms: dict[Key, Fraction] = {}
        for (power, monomial), value in vector.terms.items():
            numbers, vectors = self.atoms.split(monomial)
            atom = self.atoms.number(MatrixProduct(matrix, turned, vectors))
            key = (power, self.atoms.joined(numbers, ((atom, Fraction(1)),)))
            terms[key] = terms.get(key, Fraction(0)) + value
        return Total(terms, vector.rest)

    def mean(self, vector: Total) -> Total:
        """The average over coordinates."""
        terms: dict[Key, Fraction] = {}
        for (power, monomial), value in vector.terms.items():
            numbers, vectors = self.atoms.split(monomial)
            if vectors:
                atom = self.atoms.number(CoordinateAverage(self.canonical(vectors)))
                numbers = self.atoms.joined(numbers, ((atom, Fraction(1)),))
            key = (power, numbers)
            terms[key] = terms.get(key, Fraction(0)) + value
        return self.cut(Total({key: value for key, value in terms.items() if value}, vector.rest))

    def canonical(self, body: Monomial) -> Monomial:
        """One of all ways to write an average: that of (W u) v is that of u (W^T v)."""
        if body not in self._canonical:
            found, queue = {body}, [body]
            while queue:
                one = queue.pop()
                for number, power in one:
                    atom = self.atoms[number]
                    if isinstance(atom, MatrixProduct) and power == 1:
                        rest = tuple(factor for factor in one if factor[0] != number)
                        moved = self.atoms.number(MatrixProduct(atom.matrix, not atom.turned, rest))
                        other = self.atoms.joined(atom.vector, ((moved, Fraction(1)),))
                        if other not in found:
                            found.add(other)
                            queue.append(other)
            self._canonical.update(dict.fromkeys(found, min(found)))
        return self._canonical[body]
