"""Bounded polytopes by their walls and corners, exact: cut by one half-space after another."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Iterable, Sequence

from .affine import Affine

Point = tuple[Fraction, ...]
GRID = 1009  # a prime, so that no wall of small numbers passes through points of such denominators


@dataclass(frozen=True)
class Polytope:
    """The points on which all walls, affine forms, are at least 0, with their corners.

    >>> square = Polytope.simplex((0, 0), 4).cut(Affine((Fraction(-1), Fraction(0)), Fraction(1)))
    >>> [tuple(map(int, corner)) for corner in square.corners]
    [(0, 0), (0, 4), (1, 0), (1, 3)]
    """

    walls: tuple[Affine, ...]
    corners: tuple[Point, ...]

    @classmethod
    def simplex(cls, least: Sequence[int | Fraction], total: int | Fraction) -> "Polytope":
        """Coordinates of at least ``least``, whose sum is at most ``total``."""
        start = tuple(Fraction(x) for x in least)
        size, room = len(start), Fraction(total) - sum(start)
        units = [tuple(Fraction(i == j) for j in range(size)) for i in range(size)]
        walls = [Affine(unit, -x) for unit, x in zip(units, start)]
        tips = [tuple(x + room * u for x, u in zip(start, unit)) for unit in units]
        return cls((*walls, Affine((Fraction(-1),) * size, Fraction(total))), tuple(sorted([start, *tips])))

    @classmethod
    def box(cls, far: int, size: int) -> "Polytope":
        """Coordinates between -far and far."""
        walls = tuple(Affine(tuple(Fraction(sign * (i == j)) for j in range(size)), Fraction(far))
                      for i in range(size) for sign in (1, -1))
        return cls(walls, tuple(product((Fraction(-far), Fraction(far)), repeat=size)))

    @property
    def is_empty(self) -> bool:
        return not self.corners

    @cached_property
    def center(self) -> Point:
        """A point in the relative interior, on no line of symmetry; of small denominators where it has room."""
        exact, grid = mean(self.corners), GRID
        while not self.described[0] and max(x.denominator for x in exact) > grid:
            near = tuple(Fraction(round(x * grid), grid) for x in exact)
            if all(wall.at(near) > 0 for wall in self.walls):
                return near
            grid *= GRID
        return exact

    def inwards(self, corner: int) -> tuple[Fraction, ...]:
        """A direction in small whole numbers from a corner, given by its number, to the inside of what is not flat."""
        assert not self.described[0]
        exact = [y - x for x, y in zip(self.corners[corner], self.center)]
        largest, fine = max(map(abs, exact)), GRID
        while True:
            near = tuple(Fraction(round(x / largest * fine)) for x in exact)
            if all(self.walls[i].rise(near) > 0 for i in self.touched[corner]):
                return near
            fine *= GRID

    @cached_property
    def touched(self) -> tuple[frozenset[int], ...]:
        """The walls that each corner lies on, by number."""
        return tuple(frozenset(i for i, wall in enumerate(self.walls) if wall.at(corner) == 0)
                     for corner in self.corners)

    def cut(self, form: Affine) -> "Polytope":
        """The part on which a form is at least 0."""
        heights = [form.at(corner) for corner in self.corners]
        kept = [corner for corner, height in zip(self.corners, heights) if height >= 0]
        if len(kept) == len(self.corners):
            return self if form in self.walls or form.is_constant else Polytope((*self.walls, form), self.corners)
        below = [i for i, height in enumerate(heights) if height < 0]
        for i in (i for i, height in enumerate(heights) if height > 0):
            for j in below:
                if self._is_edge(i, j):
                    share = heights[i] / (heights[i] - heights[j])
                    kept.append(tuple(a + share * (b - a) for a, b in zip(self.corners[i], self.corners[j])))
        return Polytope((*self.walls, form), tuple(sorted(set(kept))))

    def _is_edge(self, i: int, j: int) -> bool:
        common = self.touched[i] & self.touched[j]
        return not any(common <= other for k, other in enumerate(self.touched) if k not in (i, j))

    def where(self, forms: Iterable[Affine]) -> "Polytope":
        """The part on which all forms are at least 0."""
        found = self
        for form in forms:
            found = found.cut(form)
        return found

    def contains(self, point: Sequence[Fraction]) -> bool:
        return all(wall.at(point) >= 0 for wall in self.walls)

    @cached_property
    def described(self) -> tuple[tuple[Affine, ...], tuple[Affine, ...]]:
        """Forms that vanish on it, and the walls that it has a facet on, without others that follow from these."""
        on = {wall: frozenset(i for i, corner in enumerate(self.corners) if wall.at(corner) == 0)
              for wall in self.walls}
        everywhere = frozenset(range(len(self.corners)))
        equal = independent([wall for wall in self.walls if on[wall] == everywhere])
        best: dict[frozenset[int], Affine] = {}
        for wall in self.walls:
            if on[wall] and on[wall] != everywhere and not any(on[wall] < other for other in on.values()
                                                               if other != everywhere):
                best.setdefault(on[wall], wall)
        return equal, tuple(best.values())


def mean(corners: Sequence[Point]) -> Point:
    """A point between others, on no line of symmetry."""
    weights = [Fraction(3 + number) for number in range(len(corners))]
    return tuple(sum((w * c[i] for w, c in zip(weights, corners)), Fraction(0)) / sum(weights)
                 for i in range(len(corners[0])))


def independent(forms: Sequence[Affine]) -> tuple[Affine, ...]:
    """Those that do not follow, as equations, from the ones before them."""
    kept, rows = [], list[list[Fraction]]()
    for form in forms:
        row = [*form.slopes, form.constant]
        for other in rows:
            lead = next(i for i, x in enumerate(other) if x)
            row = [x - row[lead] / other[lead] * y for x, y in zip(row, other)]
        if any(row):
            rows.append(row)
            kept.append(form)
    return tuple(kept)
