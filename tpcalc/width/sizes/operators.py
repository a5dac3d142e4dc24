"""Matrices of a program as what they do to vectors: multiples of initial matrices, and outer products."""

from __future__ import annotations

from dataclasses import dataclass

from ...programs.language import Mat
from .algebra import Algebra
from .atoms import Total


@dataclass(frozen=True)
class Operator:
    """A sum of c W_0 over initial matrices, transposed or not, and of u v^T / n over pairs of vectors."""

    initial: tuple[tuple[Mat, bool, Total], ...] = ()
    outers: tuple[tuple[Total, Total], ...] = ()

    def __add__(self, other: "Operator") -> "Operator":
        initial = {(matrix, turned): c for matrix, turned, c in self.initial}
        for matrix, turned, c in other.initial:
            initial[matrix, turned] = initial.get((matrix, turned), Total()) + c
        return Operator(tuple((*key, c) for key, c in initial.items() if not c.vanishes),
                        (*self.outers, *other.outers))

    def transposed(self) -> "Operator":
        return Operator(tuple((matrix, not turned, c) for matrix, turned, c in self.initial),
                        tuple((v, u) for u, v in self.outers))

    def times(self, algebra: Algebra, number: Total) -> "Operator":
        return Operator(tuple((matrix, turned, algebra.product(number, c)) for matrix, turned, c in self.initial),
                        tuple((algebra.product(number, u), v) for u, v in self.outers))

    def apply(self, algebra: Algebra, vector: Total) -> Total:
        """The product with a vector; of u v^T / n it is u times the average of v and the vector."""
        found = Total()
        for matrix, turned, c in self.initial:
            found = found + algebra.product(c, algebra.apply(matrix, turned, vector))
        for u, v in self.outers:
            found = found + algebra.product(u, algebra.mean(algebra.product(v, vector)))
        return algebra.cut(found)
