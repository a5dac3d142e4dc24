"""A Gaussian matrix that is met only through its products, sampled product by product.

All brackets are averages over coordinates, <u|v> = u . v / n, so that nothing here scales with the width.
Source: conditioning of Gaussian vectors [gaussian/conditioning]; the form of infinite width is paper B's Definition C.1
[tensor_programs_vi/definition_c1].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import numpy as np

ROUNDINGS = 64  # a vector whose new part is below so many roundings of itself is a combination of known ones


class Rows:
    """Vectors of length n as rows of one array, with room for ``expected`` of them, and for more when they come."""

    def __init__(self, width: int, dtype: type, expected: int = 1) -> None:
        self._room: np.ndarray = np.empty((max(expected, 1), width), dtype=dtype)  # memory is taken when written to
        self.count = 0

    @property
    def filled(self) -> np.ndarray:
        return self._room[:self.count]

    def add(self, vector: np.ndarray) -> None:
        if self.count == len(self._room):
            larger = np.empty((2 * self.count, len(vector)), dtype=self._room.dtype)
            larger[:self.count] = self._room
            self._room = larger
        self._room[self.count] = vector
        self.count += 1

    def brackets(self, vector: np.ndarray) -> np.ndarray:
        """<row|vector> of every row."""
        return self.filled @ vector / vector.dtype.type(len(vector))

    def combined(self, coefficients: np.ndarray) -> np.ndarray:
        """The sum of coefficient times row."""
        return coefficients @ self.filled


class Orthonormal(Rows):
    """Rows with <row|row'> = 1 or 0."""

    def split(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and the part orthogonal to all rows: Gram-Schmidt twice, since once loses digits."""
        first = self.brackets(vector)
        rest = vector - self.combined(first)
        second = self.brackets(rest)
        return first + second, rest - self.combined(second)

    def absorb(self, vector: np.ndarray) -> None:
        """Grow so that the vector is in the span."""
        direction, size = self.direction(vector, self.split(vector)[1])
        if size:
            self.add(direction)

    @staticmethod
    def direction(vector: np.ndarray, rest: np.ndarray) -> tuple[np.ndarray, float]:
        """rest = size * direction; size 0 where the rest of the vector is nothing but rounding."""
        size = norm(rest)
        if not size > ROUNDINGS * np.finfo(vector.dtype).eps * norm(vector):
            return rest, 0.0
        return rest / vector.dtype.type(size), size

    def copy(self, expected: int) -> "Orthonormal":
        """The same rows, with room for so many in all."""
        other = Orthonormal(self._room.shape[1], self._room.dtype.type, max(expected, self.count))
        for row in self.filled:
            other.add(row)
        return other


def norm(vector: np.ndarray) -> float:
    """The root mean square."""
    return float(np.sqrt(vector @ vector / len(vector)))


@dataclass
class Side:
    """Products with a matrix, or with its transpose: basis vectors, and what the matrix makes of them.

    shunned: an orthonormal family, the basis among its span, that what is drawn for the other side is orthogonal to.
    """

    basis: Orthonormal
    images: Rows
    shunned: Orthonormal


class ConditionedMatrix:
    """W with entries N(0, 1/n), given its products so far.

    draw: given an orthonormal family, a vector with entries N(0, 1), projected on the family's complement. sides:
    for products with W and with its transpose.
    """

    def __init__(self, draw: Callable[[Orthonormal], np.ndarray], sides: tuple[Side, Side]) -> None:
        self.draw, self.sides = draw, sides

    def product(self, turned: bool, vector: np.ndarray) -> np.ndarray:
        """W, or its transpose where ``turned``, times the vector."""
        own, other = self.sides[turned], self.sides[not turned]
        coefficients, rest = own.basis.split(vector)
        direction, size = own.basis.direction(vector, rest)
        value = own.images.combined(coefficients)
        if size:
            image = self._image(direction, other)
            own.basis.add(direction)
            own.images.add(image)
            if own.shunned is not own.basis:
                own.shunned.absorb(direction)
            value = value + vector.dtype.type(size) * image
        return value

    def _image(self, direction: np.ndarray, other: Side) -> np.ndarray:
        """W p for a new p: <q|W p> = <W^T q|p> is known for all q met by the transpose, and W p is new beyond them."""
        return other.basis.combined(other.images.brackets(direction)) + self.draw(other.shunned)
