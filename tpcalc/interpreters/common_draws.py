"""Draws that networks of different depths share: what layer l of L_0 2^j draws, refined as the depth doubles.

A row is keyed by what it is for (the family of matrices, the side, the number of the product) and its layer. At the
coarsest depth all rows are independent; a row of a coarser depth is the sum of the two that refine it, over sqrt 2, as
increments of a Brownian motion over layer time are. So particles, or real networks of one width, differ from depth to
depth by the depth and little else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Sequence

import numpy as np

from ..errors import NotCovered
from ..programs.language import Matrix
from .conditioned_blocks import OrthonormalBlock

Key = tuple[int, ...]  # what the rows are for
PER_ROW = 8  # samples needed for every row of an orthonormal frame
MOST_ROWS = 1024  # of a frame, which takes their square times the samples
MOST_NUMBERS = 2**27  # in all frames


@dataclass(frozen=True)
class Refinement:
    """A depth as a number of doublings of the coarsest one: ``coarsest * 2**level`` layers."""

    coarsest: int
    level: int

    @property
    def depth(self) -> int:
        return self.coarsest * 2**self.level

    @classmethod
    def of(cls, depth: int, coarsest: int) -> "Refinement":
        """Raises ``ValueError`` where the depth is no doubling of the coarsest."""
        level = max(depth // coarsest, 1).bit_length() - 1
        if coarsest * 2**level != depth:
            raise NotCovered(f"depth: got {depth} with coarsest={coarsest}; expected coarsest times a power of 2, "
                             "so that depths can share their draws")
        return cls(coarsest, level)

    def location(self, matrix: Matrix, matrices: Sequence[Matrix]) -> tuple[Key, int, int]:
        """What a matrix's draws are keyed by but for side and call, their level and their layer. Matrices without a
        layer are alike at all depths. Families go by their place in the program: names mean nothing."""
        family = next(i for i, one in enumerate(matrices) if one.same_family(matrix))
        numbers = tuple(int(i) for i in matrix.indices)
        if int(matrix.args[2]) and 1 <= numbers[-1] <= self.depth:
            return (family, *numbers[:-1]), self.level, numbers[-1] - 1
        return (family, *numbers), 0, 0


class SharedDraws:
    """Rows of N(0, 1) draws of length ``width`` for every key, depth ``coarsest * 2**level`` and layer, from 0 on.

    seed: whole numbers; rows depend on them, on the key, level and layer alone, and not on the order of asking.
    """

    def __init__(self, width: int, dtype: type, seed: Sequence[int]) -> None:
        self.width, self.dtype, self.seed = width, dtype, tuple(seed)
        self._pairs: dict[tuple[Key, int], tuple[int, np.ndarray]] = {}

    def row(self, key: Key, level: int, layer: int) -> np.ndarray:
        """The draw for a layer at a level."""
        if not level:
            return self.innovation(key, 0, layer)
        half, second = divmod(layer, 2)
        known = self._pairs.get((key, level))
        if known is None or known[0] != half:
            parent, detail = self.row(key, level - 1, half), self.innovation(key, level, half)
            known = half, np.stack([parent + detail, parent - detail]) / self.dtype(np.sqrt(2))
            self._pairs[key, level] = known  # the other child is asked for next, forward or backward
        return known[1][second]

    def innovation(self, key: Key, level: int, location: int) -> np.ndarray:
        """What is new at a level: a row of the coarsest depth, or half the difference of two that refine one."""
        generator = np.random.default_rng([*self.seed, level, location, *key])
        return generator.standard_normal(self.width, dtype=self.dtype)


class FramedDraws(SharedDraws):
    """Common draws that are orthonormal as averages over samples: one frame, orthogonal to what is given, for all keys.

    A linear program then sees exactly the covariances of infinite width, at every depth. keys: those that are framed;
    level: the finest; coarsest: layers at level 0. A level whose rows are too many for one frame, more than 1 in
    ``PER_ROW`` samples or ``MOST_ROWS``, is orthonormal key by key, each to its own coarser rows; one that is too large
    for that, or for ``MOST_NUMBERS``, is left as it is drawn.
    """

    def __init__(self, samples: int, seed: Sequence[int], keys: Sequence[Key], coarsest: int, level: int,
                 given: OrthonormalBlock) -> None:
        super().__init__(samples, np.float64, seed)
        self.locations = {key: location for location, key in enumerate(keys)}
        self.frames: list[np.ndarray] = []  # by level, shape (keys, innovations, samples)
        held = [given.copy(given.count)]  # one frame for all keys, or one for each
        for number in range(level + 1):
            rows, new = coarsest * 2**number, coarsest * 2**max(number - 1, 0)
            if PER_ROW * rows > samples or len(keys) * rows * samples > MOST_NUMBERS:
                break
            if len(held) == 1 and len(keys) * rows > min(samples / PER_ROW, MOST_ROWS):
                held = [self._own(location, given) for location in range(len(keys))]
            drawn = np.random.default_rng([*self.seed, number]).standard_normal((len(keys) * new, samples))
            parts = [orthonormal(frame, part) for frame, part in zip(held, np.split(drawn, len(held)))]
            self.frames.append(np.concatenate(parts).reshape(len(keys), new, samples))

    def _own(self, location: int, given: OrthonormalBlock) -> OrthonormalBlock:
        """What a key has drawn so far."""
        found = given.copy(given.count)
        for frame in self.frames:
            found.add(frame[location])
        return found

    def innovation(self, key: Key, level: int, location: int) -> np.ndarray:
        if key in self.locations and level < len(self.frames):
            return self.frames[level][self.locations[key], location]
        return super().innovation(key, level, location)


def orthonormal(held: OrthonormalBlock, rows: np.ndarray) -> np.ndarray:
    """Independent rows made orthonormal, and orthogonal to all that is held, which then holds them too."""
    for _ in (0, 1):  # once loses digits
        rows = held.split(rows)[1]
        gram = rows @ rows.T / rows.shape[1]
        rows = np.linalg.inv(np.linalg.cholesky(gram)) @ rows
    held.add(rows)
    return rows


def draw_keys(calls: Mapping[Key, tuple[int, int]]) -> list[Key]:
    """The keys of so many products with matrices, and with their transposes."""
    return [(*matrix, side, call) for matrix, counts in sorted(calls.items())
            for side, count in enumerate(counts) for call in range(count)]
