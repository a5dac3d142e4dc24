"""Programs in which products with Gaussian matrices are drawn one by one, given those before.

A network of width n is a function of averages over its coordinates alone then, and exactly that network, at any n: all
that a coordinate draws are independent N(0, 1), and what a product takes from the products before it are averages.

Source: conditioning of Gaussian vectors [gaussian/conditioning]; in blocks, for one network, ``conditioned_blocks``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Sequence

import sympy as sp

from .._types import ProgramData, Sizes, Value
from ..data.losses import AnyLoss
from ..programs.language import Matrix, Vector
from ..programs.program import Program
from .execution import Execution, MatrixOperator
from .given import Number

NOTHING = 1e-24  # of the square of a vector: what is left of it is rounding


class DrawnProducts(Execution):
    """A reading says what vectors and numbers are; of a matrix it knows orthonormal vectors q and their images."""

    def __init__(self, program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss) -> None:
        super().__init__(program, sizes, data, loss)
        self.known: dict[tuple[Matrix, bool], list[tuple[Any, Any]]] = {}

    @abstractmethod
    def drawn(self) -> Value:
        """A vector with independent entries N(0, 1)."""

    @abstractmethod
    def combined(self, terms: Sequence[tuple[Number, Value]]) -> Value:
        """A sum of vectors times numbers."""

    @abstractmethod
    def new_part(self, rest: Value, vector: Value) -> tuple[Number, Value] | None:
        """The root mean square of what is new in a vector, and this over it; None where it is nothing but rounding."""

    def drawn_image(self, matrix: Matrix, turned: bool) -> Value:
        """The draw behind what a matrix, or its transpose, makes of a new vector."""
        return self.drawn()

    def initial_vector(self, vector: Vector) -> Value:
        return self.drawn()

    def apply(self, operator: MatrixOperator, vector: Value, expression: sp.Expr) -> Value:
        terms = [term for (matrix, turned), c in operator.initial.items()
                 for term in self._product(c, matrix, turned, vector)]
        terms += [(c * self.against(vector, v), u) for c, u, v in operator.outers]
        return self.combined(terms) if terms else self.constant(0.0)

    def product(self, matrix: Matrix, turned: bool, expression: sp.Expr, vector: Value, bra: Value) -> Value:
        return self.combined(self._product(1.0, matrix, turned, vector))

    def _product(self, c: Any, matrix: Matrix, turned: bool, vector: Value) -> list[tuple[Number, Value]]:
        """c times an initial matrix times a vector, by orthonormal vectors q and their images: a new one has an
        independent image, but for what the products of the transpose say of it."""
        own, other = (self.known.setdefault((matrix, one), []) for one in (turned, not turned))
        shares: list[Any] = [self.against(q, vector) for q, _ in own]
        found = [(c * share, image) for share, (_, image) in zip(shares, own)]
        new = self.new_part(self.combined([(1.0, vector), *((-1.0 * share, q) for share, (q, _) in zip(shares, own))]),
                            vector)
        if new is None:
            return found or [(0.0, vector)]
        size, q = new
        fresh = self.drawn_image(matrix, turned)
        image = self.combined([(1.0, fresh), *((self.against(known, q) + -1.0 * self.against(p, fresh), p)
                                               for p, known in other)])
        own.append((q, image))
        return [*found, (c * size, image)]
