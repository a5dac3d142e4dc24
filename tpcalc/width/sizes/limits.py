"""Averages in the limit of infinite width: which vanish, which are numbers, and what the others are made of.

A product with an initial matrix is a Gaussian vector (its hat) and multiples of earlier vectors (its dot), with the
mean of a derivative in front of each [tensor_programs_vi/ket_equations]. A mean over Gaussian vectors factorizes over
those that are independent; it vanishes where a sign flip of correlated ones turns its sign, is a sum over pairs where
no function is in it, and is a number that is not known, but not zero, elsewhere.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Callable

import numpy as np
import sympy as sp

from ...gaussian.scalar_functions import scalar_function
from ...models.activations import H
from .algebra import Algebra
from .atoms import (FUNCTIONS, Atom, AveragedMatrix, Expected, Function, HatPart, Initial, Joint, Monomial,
                    MatrixProduct, Terms, Total, slot)
from .functions import KINKED, SizeFunctions


class Limits:
    """Limits of averages on one table of atoms, each found once."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra, self.atoms = algebra, algebra.atoms
        self.functions = SizeFunctions(algebra)
        self._values: dict[Monomial, Total] = {}
        self._kets: dict[int, Total] = {}
        self._sources: dict[int, frozenset[int]] = {}
        self._means: dict[Monomial, Total] = {}
        self._grouped: dict[frozenset[int], tuple[frozenset[int], ...]] = {}
        self._parities: dict[tuple[int, frozenset[int]], int] = {}

    def value(self, body: Monomial) -> Total:
        """The limit of an average over coordinates, a sum of numbers of order one."""
        canonical = self.algebra.canonical(body)
        if canonical not in self._values:
            self._values[canonical] = self.expected(self.ket(self.algebra.monomial(canonical)))
        return self._values[canonical]

    # --- kets

    def ket(self, total: Total) -> Total:
        """The sum with hats and dots for products."""
        found = Total()
        for (power, monomial), value in total.terms.items():
            numbers, vectors = self.atoms.split(monomial)
            parts = [self._ket(number) for number in self.atoms.factors(vectors)]
            front = Total({(power, numbers): value})
            found = found + self.algebra.product(front, *parts)
        return found

    def _ket(self, number: int) -> Total:
        if number not in self._kets:
            atom = self.atoms[number]
            rule = KETS.get(type(atom))
            itself = self.algebra.monomial(((number, Fraction(1)),))
            self._kets[number] = itself if rule is None else rule(self, atom)
        return self._kets[number]

    def _ket_of_product(self, atom: MatrixProduct) -> Total:
        return self.algebra.of(HatPart(atom.matrix, atom.turned, atom.vector)) + self._dot(atom)

    def _ket_of_function(self, atom: Function) -> Total:
        return self.functions.named(atom.body, self.ket(Total(dict(atom.argument))))

    def _ket_of_joint(self, atom: Joint) -> Total:
        return self.algebra.of(Joint(atom.body, self._of_kets(atom.arguments)))

    def _dot(self, product: MatrixProduct) -> Total:
        """What a product has besides its Gaussian part, from what was made with the transpose."""
        multiplied = self.ket(self.algebra.monomial(product.vector))
        found = Total()
        for source in sorted(self._sources_of(multiplied)):
            hat = self.atoms[source]
            if isinstance(hat, HatPart) and hat.matrix == product.matrix and hat.turned != product.turned:
                slope = self.expected(self.derivative(multiplied, source))
                found = found + self.algebra.product(slope, self.ket(self.algebra.monomial(hat.vector)))
        return found

    def sources(self, number: int) -> frozenset[int]:
        """The hats and initial vectors that a vector of the limit is a function of."""
        if number not in self._sources:
            atom = self.atoms[number]
            self._sources[number] = (frozenset().union(*(self._sources_of(Total(dict(of))) for of in arguments(atom)))
                                     if isinstance(atom, FUNCTIONS) else frozenset((number,)))
        return self._sources[number]

    def _sources_of(self, total: Total) -> frozenset[int]:
        vectors = {number for _, monomial in total.terms for number, _ in self.atoms.split(monomial)[1]}
        return frozenset().union(*map(self.sources, vectors))

    def derivative(self, total: Total, source: int) -> Total:
        """The derivative in a hat, entry by entry."""
        found = Total()
        for (power, monomial), value in total.terms.items():
            for i, (number, times) in enumerate(monomial):
                if not self.atoms.is_vector(number) or source not in self.sources(number):
                    continue
                left = ((number, times - 1),) if times > 1 else ()
                rest = self.atoms.joined((*monomial[:i], *monomial[i + 1:]), left)
                front = Total({(power, rest): value * times})
                found = found + self.algebra.product(front, self._slope(number, source))
        return found

    def _slope(self, number: int, source: int) -> Total:
        if number == source:
            return self.algebra.number(1)
        atom = self.atoms[number]
        if isinstance(atom, Function):
            argument = Total(dict(atom.argument))
            outer = self.functions.named(sp.diff(atom.body, H), argument)  # twice a delta function for a sign
            return self.algebra.product(outer, self.derivative(argument, source))
        assert isinstance(atom, (Joint, AveragedMatrix))
        found = Total()
        for location, of in enumerate(arguments(atom)):
            inner, body = self.derivative(Total(dict(of)), source), sp.diff(atom.body, slot(location))
            if not inner.vanishes and body != 0:
                found = found + self.algebra.product(self._slope_in(atom, body, location), inner)
        return found

    def _slope_in(self, atom: Joint | AveragedMatrix, body: sp.Expr, location: int) -> Total:
        """The derivative of a function of several vectors in one of them; body: that of its body."""
        if isinstance(atom, Joint):
            return self.algebra.of(Joint(body, atom.arguments))
        right = self.algebra.product(Total(dict(atom.rights[location])), self.algebra.monomial(atom.vector))
        return self._averages(body, atom.lefts, atom.rights, right)

    # --- functions of several outer products

    def averaged(self, body: sp.Expr, lefts: tuple[Terms, ...], rights: tuple[Terms, ...], vector: Monomial
                 ) -> Total | None:
        """The average of a matrix's entries over a vector, None where it vanishes in the limit."""
        atom = AveragedMatrix(body, lefts, rights, vector)
        return None if self._averaged_kets(atom).vanishes else self.algebra.of(atom)

    def _averaged_kets(self, atom: AveragedMatrix) -> Total:
        return self._averages(atom.body, self._of_kets(atom.lefts), self._of_kets(atom.rights),
                              self.ket(self.algebra.monomial(atom.vector)))

    def _averages(self, body: sp.Expr, lefts: tuple[Terms, ...], rights: tuple[Terms, ...], vector: Total) -> Total:
        """Averages over a vector of the limit, term by term, without those that vanish."""
        found = Total()
        for (power, monomial), value in vector.terms.items():
            numbers, vectors = self.atoms.split(monomial)
            if not self._averages_out(body, rights, vectors):
                front = Total({(power, numbers): value})
                found = found + self.algebra.product(front,
                                                     self.algebra.of(AveragedMatrix(body, lefts, rights, vectors)))
        return found

    def _averages_out(self, body: sp.Expr, rights: tuple[Terms, ...], vector: Monomial) -> bool:
        """Does an average over what is on the right turn its sign when some correlated sources turn theirs?"""
        on_the_right = [self._sources_of(Total(dict(of))) for of in (*rights, self.algebra.monomial(vector).key)]
        for flipped in self._groups(frozenset().union(*on_the_right)):
            signs = tuple(self._common_sign(of, flipped) for of in rights)
            if self._sign(vector, flipped) * parity_of_several(body, signs) < 0:
                return True
        return False

    def _common_sign(self, terms: Terms, flipped: frozenset[int]) -> int:
        """What all terms of a sum are multiplied by, 0 where they are not alike."""
        signs = {self._sign(monomial, flipped) for (_, monomial), _ in terms}
        return signs.pop() if len(signs) == 1 else 0

    def _of_kets(self, several: tuple[Terms, ...]) -> tuple[Terms, ...]:
        return tuple(self.ket(Total(dict(of))).key for of in several)

    # --- means

    def expected(self, total: Total) -> Total:
        """The mean of a sum of products of hats, initial vectors and functions of them."""
        found = Total()
        for (power, monomial), value in total.terms.items():
            numbers, vectors = self.atoms.split(monomial)
            found = found + self.algebra.product(Total({(power, numbers): value}), self._mean(vectors))
        return found

    def _mean(self, monomial: Monomial) -> Total:
        if monomial not in self._means:
            self._means[monomial] = self._found_mean(monomial)
        return self._means[monomial]

    def _found_mean(self, monomial: Monomial) -> Total:
        found = self.algebra.number(1)
        for part in self._independent(monomial):
            if found.vanishes or self._is_odd(part):
                return Total()
            factors = list(self.atoms.factors(part))
            if any(isinstance(self.atoms[number], FUNCTIONS) for number in factors):
                found = self.algebra.product(found, self.algebra.of(Expected(part)))
            else:
                found = self.algebra.product(found, self._pairs(factors))
        return found

    def _pairs(self, factors: list[int]) -> Total:
        """The sum over all pairings of Gaussian factors [gaussian/isserlis]."""
        if not factors:
            return self.algebra.number(1)
        first, rest = factors[0], factors[1:]
        found = Total()
        for i, other in enumerate(rest):
            pair = self.covariance(first, other)
            if not pair.vanishes:
                found = found + self.algebra.product(pair, self._pairs(rest[:i] + rest[i + 1:]))
        return found

    def covariance(self, one: int, other: int) -> Total:
        """The covariance of two hats or initial vectors."""
        u, v = self.atoms[one], self.atoms[other]
        if isinstance(u, Initial) or isinstance(v, Initial):
            return self.algebra.number(int(one == other))
        assert isinstance(u, HatPart) and isinstance(v, HatPart)
        if (u.matrix, u.turned) != (v.matrix, v.turned):
            return Total()
        return self.value(self.atoms.joined(u.vector, v.vector))

    def _clusters(self, monomial: Monomial) -> tuple[frozenset[int], ...]:
        """What a product is a function of, in groups that are correlated, directly or through others."""
        return self._groups(frozenset().union(*(self.sources(number) for number, _ in monomial)))

    def _groups(self, sources: frozenset[int]) -> tuple[frozenset[int], ...]:
        if sources not in self._grouped:
            found: list[frozenset[int]] = []
            for source in sorted(sources):
                linked = [c for c in found if any(not self.covariance(source, other).vanishes for other in c)]
                found = [c for c in found if c not in linked] + [frozenset((source,)).union(*linked)]
            self._grouped[sources] = tuple(found)
        return self._grouped[sources]

    def _independent(self, monomial: Monomial) -> list[Monomial]:
        """A product of vectors as products that are independent of each other."""
        groups: list[tuple[set[int], dict[int, Fraction]]] = []
        clusters = self._clusters(monomial)
        for number, power in monomial:
            touched = {i for i, c in enumerate(clusters) if c & self.sources(number)}
            joined = [g for g in groups if g[0] & touched]
            members = {number: power}
            for seen, others in joined:
                touched |= seen
                members |= others
            groups = [g for g in groups if g not in joined] + [(touched, members)]
        return [tuple(sorted(members.items())) for _, members in groups]

    def _is_odd(self, monomial: Monomial) -> bool:
        """Does a product turn its sign when some correlated sources turn theirs?"""
        return any(self._sign(monomial, flipped) < 0 for flipped in self._clusters(monomial))

    def _sign(self, monomial: Monomial, flipped: frozenset[int]) -> int:
        """What a product is multiplied by when some sources turn their signs: 1 or -1, 0 where it is neither."""
        found = 1
        for number, power in monomial:
            if self.atoms.is_vector(number):
                found *= self._parity(number, flipped) ** int(power)
        return found

    def _parity(self, number: int, flipped: frozenset[int]) -> int:
        """What a vector is multiplied by when some sources turn their signs: 1 or -1, 0 where it is neither."""
        atom = self.atoms[number]
        if not isinstance(atom, FUNCTIONS):
            return -1 if number in flipped else 1
        if not self.sources(number) & flipped:
            return 1
        key = (number, flipped)
        if key not in self._parities:
            signs = tuple(self._common_sign(of, flipped) for of in arguments(atom))
            self._parities[key] = (parity_of_several(atom.body, signs) if not isinstance(atom, Function)
                                   else 1 if signs == (1,) else function_parity(atom.body) if signs == (-1,) else 0)
        return self._parities[key]


@lru_cache(maxsize=256)
def function_parity(body: sp.Expr) -> int:
    """1 for an even function of ``H``, -1 for an odd one, 0 for neither."""
    if isinstance(body, KINKED):
        return -1 if isinstance(body, sp.sign) else 0
    return scalar_function(body, H).parity


KETS: dict[type, Callable[..., Total]] = {MatrixProduct: Limits._ket_of_product, Function: Limits._ket_of_function,
                                          Joint: Limits._ket_of_joint, AveragedMatrix: Limits._averaged_kets}


def arguments(atom: Atom) -> tuple[Terms, ...]:
    """What a function's entries are functions of; of an average those on the left."""
    if isinstance(atom, Function):
        return (atom.argument,)
    assert isinstance(atom, (Joint, AveragedMatrix))
    return atom.arguments if isinstance(atom, Joint) else atom.lefts


@lru_cache(maxsize=1024)
def parity_of_several(body: sp.Expr, signs: tuple[int, ...]) -> int:
    """What a body is multiplied by when its arguments are, 0 where it is neither 1 nor -1.

    signs: 1, -1, or 0 for arguments of which neither holds. Deltas are even. Told from numbers at drawn points.
    """
    used = [k for k in range(len(signs)) if body.has(slot(k))]
    if any(signs[k] == 0 for k in used):
        return 0
    smooth = body.replace(sp.DiracDelta, lambda *a: sp.exp(-a[0]**2))
    symbols = sorted(smooth.free_symbols, key=str)
    function, turn = sp.lambdify(symbols, smooth, ["scipy", "numpy"]), {slot(k): signs[k] for k in used}
    rng = np.random.default_rng(5)
    ratios = set()
    for _ in range(8):
        point = [float(rng.normal() if s in turn else rng.uniform(0.5, 1.5)) for s in symbols]
        one, other = function(*point), function(*(turn.get(s, 1) * x for s, x in zip(symbols, point)))
        ratios.add(1 if np.isclose(one, other, rtol=1e-9, atol=0) else -1 if np.isclose(one, -other, rtol=1e-9, atol=0)
                   else 0)
    return ratios.pop() if len(ratios) == 1 else 0
