"""Matrices of a program as what they do to vectors: multiples of initial matrices, and outer products."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from ...orders.affine import Affine
from ...programs.language import Matrix
from .algebra import HALF, Algebra
from .atoms import Terms, Total


@dataclass(frozen=True)
class Entries:
    """c psi(u_0 v_0^T, u_1 v_1^T, ...) / n, entry by entry, of a body psi in ``slot(0)``, ... and c, a number."""

    front: Total
    body: sp.Expr
    lefts: tuple[Terms, ...]
    rights: tuple[Terms, ...]

    @property
    def key(self) -> tuple[sp.Expr, tuple[Terms, ...], tuple[Terms, ...]]:
        """What it is a multiple of."""
        return self.body, self.lefts, self.rights

    def apply(self, algebra: Algebra, vector: Total) -> Total:
        """The product with a vector; of what averages out in the limit a bound, its fluctuation."""
        found = Total({}, algebra.product(self.front, Total({}, vector.rest)).rest)
        for key, value in vector.terms.items():
            numbers, vectors = algebra.atoms.split(key[1])
            number = algebra.product(self.front, Total({(key[0], numbers): value}))
            average = algebra.limits.averaged(self.body, self.lefts, self.rights, vectors)
            if average is None:
                bound = algebra.bounds(number)
                assert bound is not None
                found = found + Total({}, frozenset((bound - algebra.powers.number(HALF),)))
            else:
                found = found + algebra.product(number, average)
        return found


@dataclass(frozen=True)
class OperatorSize:
    """A sum of c W_0 over initial matrices, transposed or not, of u v^T / n over pairs of vectors, and of functions.

    rest: powers of n that bound the Frobenius norm of what was dropped.
    """

    initial: tuple[tuple[Matrix, bool, Total], ...] = ()
    outers: tuple[tuple[Total, Total], ...] = ()
    entries: tuple[Entries, ...] = ()
    rest: frozenset[Affine] = frozenset()

    def __add__(self, other: "OperatorSize") -> "OperatorSize":
        initial = {(matrix, turned): c for matrix, turned, c in self.initial}
        for matrix, turned, c in other.initial:
            initial[matrix, turned] = initial.get((matrix, turned), Total()) + c
        return OperatorSize(tuple((*key, c) for key, c in initial.items() if not c.vanishes),
                            (*self.outers, *other.outers), (*self.entries, *other.entries), self.rest | other.rest)

    def transposed(self) -> "OperatorSize":
        return OperatorSize(tuple((matrix, not turned, c) for matrix, turned, c in self.initial),
                            tuple((v, u) for u, v in self.outers),
                            tuple(Entries(one.front, one.body, one.rights, one.lefts) for one in self.entries),
                            self.rest)

    def times(self, algebra: Algebra, number: Total) -> "OperatorSize":
        return OperatorSize(tuple((matrix, turned, algebra.product(number, c)) for matrix, turned, c in self.initial),
                            tuple((algebra.product(number, u), v) for u, v in self.outers),
                            tuple(replace(one, front=algebra.product(number, one.front)) for one in self.entries),
                            algebra.product(number, Total({}, self.rest)).rest)

    def apply(self, algebra: Algebra, vector: Total) -> Total:
        """The product with a vector; of u v^T / n it is u times the average of v and the vector."""
        found = Total()
        for matrix, turned, c in self.initial:
            found = found + algebra.product(c, algebra.apply(matrix, turned, vector))
        for u, v in self.outers:
            found = found + algebra.product(u, algebra.mean(algebra.product(v, vector)))
        for one in self.entries:
            found = found + one.apply(algebra, vector)
        bound = algebra.bounds(vector)
        if bound is not None:
            found = found + Total({}, frozenset(power + bound for power in self.rest))
        return algebra.cut(found)
