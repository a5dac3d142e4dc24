"""What sums of powers of the width are made of: numbers and vectors of order one, each a value with a number.

A vector of a program is a sum of products: a rational, a power of n, random or given numbers of order one (or of order
n^-1/2, an average that vanishes in the limit), and entrywise products of vectors of order one. All algebra is exact at
finite width, but for what is dropped because it is smaller than the leading term by more than a window.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Iterator, Union

import sympy as sp

from ...orders.affine import Affine
from ...models.activations import H
from ...programs.language import Matrix, Vector

Monomial = tuple[tuple[int, Fraction], ...]   # (number of an atom, power), sorted
Key = tuple[Affine, Monomial]                 # a power of n, and what it multiplies
Terms = tuple[tuple[Key, Fraction], ...]      # of a sum, as a value that can be hashed


@dataclass(frozen=True)
class Given:
    """A number that a program is given, or a constant that is not rational, then with its value: of order one."""

    name: str
    value: float | None = None


@dataclass(frozen=True)
class CoordinateAverage:
    """The average over coordinates of a product of vectors, at finite width."""

    body: Monomial


@dataclass(frozen=True)
class NumberFunction:
    """A function of numbers, over its own power of n; what: its text, which says what it is a function of."""

    what: str
    of: Terms


@dataclass(frozen=True)
class Expected:
    """A mean in the limit of infinite width whose value is not known: functions are in it."""

    body: Monomial


@dataclass(frozen=True)
class Noise:
    """What an average differs by from its limit, times n^(1/2): random, of order one."""

    body: Monomial


@dataclass(frozen=True)
class Initial:
    """An initial vector, entries N(0, 1)."""

    vector: Vector


@dataclass(frozen=True)
class MatrixProduct:
    """An initial matrix, or its transpose, times a product of vectors."""

    matrix: Matrix
    turned: bool
    vector: Monomial


@dataclass(frozen=True)
class HatPart:
    """The Gaussian part of such a product in the limit: Gaussian, with the covariance of what is multiplied."""

    matrix: Matrix
    turned: bool
    vector: Monomial


@dataclass(frozen=True)
class Function:
    """A function of ``H``, entry by entry, of a vector of order one; argument: its terms."""

    body: sp.Expr
    argument: Terms


@dataclass(frozen=True)
class Joint:
    """A function of several vectors of order one, by entries: body in ``slot(0)``, ...; arguments: terms of each."""

    body: sp.Expr
    arguments: tuple[Terms, ...]


@dataclass(frozen=True)
class AveragedMatrix:
    """Entries of a matrix that is a function of outer products, averaged over a vector.

    Entry i is the mean over j of body(u_0i v_0j, u_1i v_1j, ...) x_j, where lefts are the u and rights the v.
    """

    body: sp.Expr
    lefts: tuple[Terms, ...]
    rights: tuple[Terms, ...]
    vector: Monomial


Atom = Union[Given, CoordinateAverage, NumberFunction, Expected, Noise, Initial, MatrixProduct, HatPart, Function,
             Joint, AveragedMatrix]
FUNCTIONS = (Function, Joint, AveragedMatrix)
VECTORS = (Initial, MatrixProduct, HatPart, *FUNCTIONS)


def slot(number: int) -> sp.Symbol:
    """The symbol of an argument in the body of a function of several."""
    return sp.Symbol(f"g{number}", real=True)


@dataclass(frozen=True)
class Total:
    """A sum of terms: rationals by power of n and monomial; rest: powers of n that bound what was dropped."""

    terms: dict[Key, Fraction] = field(default_factory=dict)
    rest: frozenset[Affine] = frozenset()

    def __add__(self, other: "Total") -> "Total":
        terms = dict(self.terms)
        for key, value in other.terms.items():
            total = terms.get(key, Fraction(0)) + value
            if total:
                terms[key] = total
            else:
                terms.pop(key, None)
        return Total(terms, self.rest | other.rest)

    def times(self, number: Fraction | int) -> "Total":
        """The sum times a rational."""
        if not number:
            return Total()
        return Total({key: value * number for key, value in self.terms.items()}, self.rest)

    def __sub__(self, other: "Total") -> "Total":
        return self + other.times(-1)

    @property
    def key(self) -> Terms:
        """The terms in an order of their own, as a value that can be hashed."""
        return tuple(sorted(self.terms.items()))

    @property
    def vanishes(self) -> bool:
        """Is it nothing, exactly?"""
        return not self.terms and not self.rest


class Atoms:
    """The atoms that have been met, by number."""

    def __init__(self) -> None:
        self.all: list[Atom] = []
        self._numbers: dict[Atom, int] = {}

    def number(self, atom: Atom) -> int:
        if atom not in self._numbers:
            self._numbers[atom] = len(self.all)
            self.all.append(atom)
        return self._numbers[atom]

    def __getitem__(self, number: int) -> Atom:
        return self.all[number]

    def is_vector(self, number: int) -> bool:
        return isinstance(self.all[number], VECTORS)

    def order(self, number: int) -> int:
        """2 for vectors of signs, whose square is one, and 1 for steps, whose square they are themselves; else 0."""
        atom = self.all[number]
        if not isinstance(atom, Function):
            return 0
        return 2 if isinstance(atom.body, sp.sign) else 1 if isinstance(atom.body, sp.Heaviside) else 0

    def sech_of_tanh(self, number: int) -> int | None:
        """The number of sech(g) where the atom of the given number is tanh(g); None for other atoms.

        sech(g) gets a number here if it has none: tanh(g)^2 is 1 - sech(g)^2.
        """
        atom = self.all[number]
        if not isinstance(atom, Function) or not isinstance(atom.body, sp.tanh):
            return None
        return self.number(Function(sp.sech(atom.body.args[0]), atom.argument))

    def split(self, monomial: Monomial) -> tuple[Monomial, Monomial]:
        """The numbers and the vectors of a monomial."""
        numbers = tuple(factor for factor in monomial if not self.is_vector(factor[0]))
        return numbers, tuple(factor for factor in monomial if self.is_vector(factor[0]))

    def joined(self, one: Monomial, other: Monomial) -> Monomial:
        """The product of two monomials."""
        if not one or not other:
            return one or other
        powers = dict(one)
        for number, power in other:
            powers[number] = powers.get(number, Fraction(0)) + power
        for number in list(powers):
            kind = self.order(number)
            if kind:
                powers[number] = powers[number] % 2 if kind == 2 else Fraction(1)
            ramp = self._ramp(number) if kind == 1 else None
            if ramp in powers:  # max(h, 0) has its step in it
                powers[number] = Fraction(0)
        return tuple(sorted((number, power) for number, power in powers.items() if power))

    def _ramp(self, number: int) -> int | None:
        """The ramp beside a step, if there is one."""
        atom = self.all[number]
        assert isinstance(atom, Function)
        return self._numbers.get(Function(sp.Max(H, 0), atom.argument))

    def factors(self, monomial: Monomial) -> Iterator[int]:
        """The vectors of a monomial, each as often as it occurs."""
        for number, power in monomial:
            for _ in range(int(power)):
                yield number
