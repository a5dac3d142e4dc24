"""A Gaussian matrix that is met only through its products with blocks of vectors, sampled block by block.

The law, and the draws, are those of vector after vector in the block's order; a block is orthogonalised and multiplied
by a few products of matrices. Vectors are rows; brackets are averages over coordinates, <u|v> = u . v / n, so that
nothing here scales with the width. Source: conditioning of Gaussian vectors [gaussian/conditioning]; the form of
infinite width is paper B's Definition C.1 [tensor_programs_vi/definition_c1].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

import numpy as np
ROUNDINGS = 64  # a vector whose new part is below so many roundings of itself is a combination of known ones


class Block:
    """Rows of length n, with room for ``expected`` of them, and for more when they come."""

    def __init__(self, width: int, dtype: type, expected: int = 1) -> None:
        self._room: np.ndarray = np.empty((max(expected, 1), width), dtype=dtype)  # memory is taken when written to
        self.count = 0

    @property
    def filled(self) -> np.ndarray:
        return self._room[:self.count]

    def add(self, rows: np.ndarray) -> None:
        needed = self.count + len(rows)
        if needed > len(self._room):
            larger = np.empty((max(needed, 2 * self.count), rows.shape[1]), dtype=self._room.dtype)
            larger[:self.count] = self.filled
            self._room = larger
        self._room[self.count:needed] = rows
        self.count = needed

    def brackets(self, rows: np.ndarray) -> np.ndarray:
        """<row|q> of every row given with every row q held, shape (rows, count)."""
        found = rows @ self.filled.T
        found /= rows.dtype.type(rows.shape[1])
        return found


class OrthonormalBlock(Block):
    """Rows with <row|row'> = 1 or 0."""

    def split(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients and parts orthogonal to all rows held: Gram-Schmidt twice, since once loses digits."""
        if not self.count:
            return np.empty((len(rows), 0), dtype=rows.dtype), rows.copy()
        first = self.brackets(rows)
        rest = rows - first @ self.filled
        second = self.brackets(rest)
        rest -= second @ self.filled
        return first + second, rest

    def extended(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Hold the span of the rows too: coefficients in all rows then held, shape (rows, count), and what was added.

        What is left of a row and is nothing but rounding adds nothing.
        """
        old, rest = self.split(rows)
        least = ROUNDINGS * np.finfo(rows.dtype).eps
        if len(rows) == 1:
            size = norm(rest[0])
            if not size > least * norm(rows[0]):
                return old, rest[:0]
            rest /= rows.dtype.type(size)
            self.add(rest)
            coefficients = np.empty((1, self.count), dtype=rows.dtype)
            coefficients[0, :-1], coefficients[0, -1] = old[0], size
            return coefficients, rest
        added = OrthonormalBlock(rows.shape[1], rows.dtype.type, len(rows))
        inner = np.zeros((len(rows), len(rows)), dtype=rows.dtype)
        for j in range(len(rows)):
            part = rest[j:j + 1]
            if added.count:
                inner[j:j + 1, :added.count], part = added.split(part)
            size = norm(part[0])
            if size > least * norm(rows[j]):
                inner[j, added.count] = size
                added.add(part / rows.dtype.type(size))
        self.add(added.filled)
        return np.concatenate([old, inner[:, :added.count]], axis=1), added.filled

    def copy(self, expected: int) -> "OrthonormalBlock":
        """The rows, with room for so many in all."""
        other = OrthonormalBlock(self._room.shape[1], self._room.dtype.type, max(expected, self.count))
        other.add(self.filled)
        return other


def norm(row: np.ndarray) -> float:
    """The root mean square."""
    return float(np.sqrt(row @ row / len(row)))


@dataclass
class BlockSide:
    """Products with a matrix, or with its transpose: basis vectors, and what the matrix makes of them.

    shunned: an orthonormal family, the basis among its span, that what is drawn for the other side is orthogonal to.
    """

    basis: OrthonormalBlock
    images: Block
    shunned: OrthonormalBlock


class BlockMatrix:
    """W with entries N(0, 1/n), given its products so far.

    draw: given an orthonormal family and a number, as many vectors with entries N(0, 1), projected on the family's
    complement. sides: for products with W and with its transpose.
    """

    def __init__(self, draw: Callable[[OrthonormalBlock, int], np.ndarray], sides: tuple[BlockSide, BlockSide]) -> None:
        self.draw, self.sides = draw, sides

    def product(self, turned: bool, rows: np.ndarray) -> np.ndarray:
        """W, or its transpose where ``turned``, times every row."""
        own, other = self.sides[turned], self.sides[not turned]
        coefficients, added = own.basis.extended(rows)
        if len(added):
            # <q|W p> = <W^T q|p> is known for all q met by the transpose, and W p is new beyond them
            images = other.images.brackets(added) @ other.basis.filled
            images += self.fresh(turned, coefficients, len(added))
            own.images.add(images)
            if own.shunned is not own.basis:
                own.shunned.extended(added)
        return coefficients @ own.images.filled

    def fresh(self, turned: bool, coefficients: np.ndarray, number: int) -> np.ndarray:
        """What is new in a product: so many vectors, for the last columns of the rows' coefficients."""
        return self.draw(self.sides[not turned].shunned, number)
