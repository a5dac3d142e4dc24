"""A Gaussian matrix that is met only through its products with blocks of vectors, sampled block by block.

The law, and the draws, are those of vector after vector in the block's order; a block is orthogonalized and multiplied
by a few products of matrices. Vectors are rows; brackets are averages over coordinates, <u|v> = u . v / n, so that
nothing here scales with the width. Source: conditioning of Gaussian vectors [gaussian/conditioning]; the form of
infinite width is Tensor Programs VI's Definition C.1 [tensor_programs_vi/definition_c1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Callable, Sequence

import numpy as np

from .._types import Array
from ..lowering.array_backends import Arrays

ROUNDINGS = 64  # a vector whose new part is below so many roundings of itself is a combination of known ones
SHORT = 0.1  # of a row: a shorter new part has lost a digit of its right angles with what was known


class Block:
    """Rows of length n, with room for ``expected`` of them, and for more when they come.

    arrays: the namespace and precision of the rows, or NumPy's type. Namespaces other than NumPy have no room: not all
    of them write into arrays, so that what is held is joined anew.
    """

    def __init__(self, width: int, arrays: Arrays | type, expected: int = 1) -> None:
        self.arrays = arrays if isinstance(arrays, Arrays) else _numpy(arrays)
        self.width, self.count = width, 0
        if self.arrays.is_numpy:  # memory is taken when written to
            self._room: Array = np.empty((max(expected, 1), width), dtype=self.arrays.precision)
        else:
            self._room = self.arrays.asarray(np.empty((0, width)))

    @property
    def filled(self) -> Array:
        return self._room[:self.count, :]

    def add(self, rows: Array) -> None:
        needed = self.count + rows.shape[0]
        if not self.arrays.is_numpy:
            self._room = self.arrays.joined([self._room, rows], 0)
        else:
            if needed > len(self._room):
                larger = np.empty((max(needed, 2 * self.count), self.width), dtype=self._room.dtype)
                larger[:self.count] = self.filled
                self._room = larger
            self._room[self.count:needed] = rows
        self.count = needed

    def brackets(self, rows: Array) -> Array:
        """<row|q> of every row given with every row q held, shape (rows, count)."""
        found = rows @ self.filled.T
        found /= self.width
        return found


class OrthonormalBlock(Block):
    """Rows with <row|row'> = 1 or 0."""

    def split(self, rows: Array) -> tuple[Array, Array]:
        """Coefficients and parts orthogonal to all rows held: Gram-Schmidt twice, since once loses digits."""
        if not self.count:
            return self.arrays.asarray(np.empty((rows.shape[0], 0))), rows * 1.0
        first = self.brackets(rows)
        rest = rows - first @ self.filled
        second = self.brackets(rest)
        rest -= second @ self.filled
        return first + second, rest

    def extended(self, rows: Array) -> tuple[Array, Array]:
        """Hold the span of the rows too: coefficients in all rows then held, shape (rows, count), and what was added.
        What is left of a row and is nothing but rounding adds nothing."""
        arrays, number = self.arrays, rows.shape[0]
        old, rest = self.split(rows)
        least = ROUNDINGS * arrays.rounding
        if number == 1:
            size = root_mean_square(arrays, rest[0, :])
            if not size > least * root_mean_square(arrays, rows[0, :]):
                return old, rest[:0, :]
            rest /= size
            self.add(rest)
            return arrays.joined([old, arrays.asarray([[size]])], 1), rest
        added, inner, short = gram_schmidt(arrays, rest,
                                           [least * root_mean_square(arrays, rows[j, :]) for j in range(number)])
        if short:  # without this, products with one matrix cease to fit each other, and long training blows up
            again, rest = self.split(added.filled)
            old = old + inner @ again
            added, turned, _ = gram_schmidt(arrays, rest, [0.0] * added.count)
            inner = inner @ turned
        self.add(added.filled)
        return arrays.joined([old, inner], 1), added.filled

    def copy(self, expected: int) -> "OrthonormalBlock":
        """A block of the same rows, with room for so many in all."""
        other = OrthonormalBlock(self.width, self.arrays, max(expected, self.count))
        other.add(self.filled)
        return other


def gram_schmidt(arrays: Arrays, rows: Array, least: Sequence[float]) -> tuple[OrthonormalBlock, Array, bool]:
    """Orthonormal vectors that rows span, coefficients of the rows in them, and whether a new part was short.

    least: what is new in a row adds nothing unless it is longer than this. Where a row is close to those before it, its
    new part is short and is stretched to length one, and so is what rounding left in the row of other vectors, to which
    rows had been made orthogonal: it is to be removed again.
    """
    added, inner, short = OrthonormalBlock(rows.shape[1], arrays, rows.shape[0]), [], False
    for j in range(rows.shape[0]):
        coefficients, part = added.split(rows[j:j + 1, :])
        size = root_mean_square(arrays, part[0, :])
        if size > least[j]:
            short = short or size < SHORT * root_mean_square(arrays, rows[j, :])
            part /= size
            added.add(part)
            coefficients = arrays.joined([coefficients, arrays.asarray([[size]])], 1)
        inner.append(coefficients)
    missing = (np.zeros((1, added.count - one.shape[1])) for one in inner)
    return added, arrays.joined([arrays.joined([one, arrays.asarray(zeros)], 1)
                                 for one, zeros in zip(inner, missing)], 0), short


@lru_cache(maxsize=None)
def _numpy(dtype: type) -> Arrays:
    return Arrays("numpy", dtype)


def root_mean_square(arrays: Arrays, row: Array) -> float:
    """The root mean square."""
    return math.sqrt(arrays.dot(row, row) / row.shape[0])


def of_variance_one(arrays: Arrays, rows: Array) -> Array:
    """Every row over its root mean square."""
    if arrays.is_numpy:
        for row in rows:
            row /= root_mean_square(arrays, row)
        return rows
    return rows / arrays.xp.sqrt(arrays.inner(rows, rows) / rows.shape[1])[:, None]


@dataclass
class BlockProducts:
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

    def __init__(self, draw: Callable[[OrthonormalBlock, int], Array],
                 sides: tuple[BlockProducts, BlockProducts]) -> None:
        self.draw, self.sides = draw, sides

    def product(self, turned: bool, rows: Array) -> Array:
        """W, or its transpose where ``turned``, times every row."""
        own, other = self.sides[turned], self.sides[not turned]
        coefficients, added = own.basis.extended(rows)
        if added.shape[0]:
            # <q|W p> = <W^T q|p> is known for all q met by the transpose, and W p is new beyond them
            images = other.images.brackets(added) @ other.basis.filled
            images += self.fresh(turned, coefficients, added.shape[0])
            own.images.add(images)
            if own.shunned is not own.basis:
                own.shunned.extended(added)
        return coefficients @ own.images.filled

    def fresh(self, turned: bool, coefficients: Array, number: int) -> Array:
        """What is new in a product: so many vectors, for the last columns of the rows' coefficients."""
        return self.draw(self.sides[not turned].shunned, number)
