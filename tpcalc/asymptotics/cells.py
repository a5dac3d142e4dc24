"""The space of exponents' parameters cut into cells on which what is evaluated is affine.

Inside a cell an evaluation tells, of every size, the affine form that it is. Sizes are maxima of affine forms as long
as the same functions are saturated and negative powers are of the same sizes, so that one whose form at an inner point
is its value at all corners of a cell is that form all over it. So is a cell proved by what is evaluated at its corners,
each moved a little inwards; where it differs, the cell is cut along where two forms are equal, or one is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Callable, Generic, Iterable, Iterator, Sequence, TypeVar

from ..errors import NotCovered
from ..orders.affine import Affine
from .values import unit_directions, towards

T = TypeVar("T")
Point = tuple[Fraction, ...]
FAR = 16  # what happens beyond is what happens there: walls between cells come closer than this to the origin
MOST = 2000  # cells
MOST_PARTS = 6  # halvings of a cell that no form divides


@dataclass(frozen=True)
class Evaluated(Generic[T]):
    """What is asked for, and affine forms of sizes by name: what divides cells.

    zeros: the names of forms whose sign matters by itself.
    """

    answer: T
    forms: dict[str, Affine]
    zeros: frozenset[str] = frozenset()


Evaluate = Callable[[Point, Sequence[Point]], Evaluated[T]]


@dataclass(frozen=True)
class ParameterCell(Generic[T]):
    """A polytope, closed, with what is asked for inside of it."""

    walls: tuple[Affine, ...]
    corners: tuple[Point, ...]
    found: Evaluated[T]

    @property
    def inner(self) -> Point:
        return center(self.corners)


def cells(evaluate: Evaluate[T], size: int) -> list[ParameterCell[T]]:
    """Cells that cover a large box; evaluate: at a point that is thought of as moved along directions."""
    box = tuple(Affine(tuple(Fraction(sign * (i == j)) for j in range(size)), Fraction(FAR))
                for i in range(size) for sign in (1, -1))
    waiting: list[tuple[tuple[Affine, ...], int]] = [(box, 0)]
    done: list[ParameterCell[T]] = []
    while waiting:
        if len(waiting) + len(done) > MOST:
            raise NotCovered(f"exponents that are affine on more than {MOST} parts of the space of their parameters; "
                             "no picture of so many")
        walls, halved = waiting.pop()
        corners = tuple(corners_of(walls))
        if not is_full(corners):
            continue
        inner = center(corners)
        found = evaluate(inner, unit_directions(size))
        others = [evaluate(corner, (towards(corner, inner), *unit_directions(size))) for corner in corners]
        differing = [other for other in others if other.answer != found.answer]
        if not differing:
            done.append(ParameterCell(facets(walls, corners), corners, found))
            continue
        cut = next((form for other in differing for form in _dividing(found, other) if _cuts(form, corners)), None)
        if cut is None:
            if halved >= MOST_PARTS:
                raise NotCovered("exponents that differ between corners of a part of the space of their parameters, "
                                 "where no two of the forms that they have are equal; no rule divides it")
            cut, halved = _half(corners), halved + 1
        waiting += [((*walls, cut), halved), ((*walls, cut * -1), halved)]
    return done


def _dividing(one: Evaluated[T], other: Evaluated[T]) -> Iterator[Affine]:
    """Forms that vanish where two evaluations may pass into each other."""
    for name, form in one.forms.items():
        if name in other.forms and form != other.forms[name]:
            yield form - other.forms[name]
    for here, there in ((one, other), (other, one)):
        yield from (here.forms[name] for name in sorted(here.zeros & here.forms.keys()))
    yield from (a - b for a in one.forms.values() for b in other.forms.values() if a != b)


def _cuts(form: Affine, corners: Iterable[Point]) -> bool:
    signs = {(value > 0) - (value < 0) for value in map(form.at, corners)}
    return {1, -1} <= signs


def _half(corners: Sequence[Point]) -> Affine:
    """A wall through the middle, across the longest side."""
    size = len(corners[0])
    lengths = [max(c[i] for c in corners) - min(c[i] for c in corners) for i in range(size)]
    longest = lengths.index(max(lengths))
    return Affine(tuple(Fraction(i == longest) for i in range(size)), -center(corners)[longest])


def center(corners: Sequence[Point]) -> Point:
    """A point inside, on no line of symmetry."""
    weights = [Fraction(3 + number) for number in range(len(corners))]
    return tuple(sum((w * c[i] for w, c in zip(weights, corners)), Fraction(0)) / sum(weights)
                 for i in range(len(corners[0])))


def corners_of(walls: Sequence[Affine]) -> Iterator[Point]:
    """The corners of the polytope on which all forms are at least 0."""
    found = set()
    for some in combinations(walls, len(walls[0].slopes)):
        point = meeting(some)
        if point is not None and point not in found and all(form.at(point) >= 0 for form in walls):
            found.add(point)
            yield point


def meeting(forms: Sequence[Affine]) -> Point | None:
    """The one point where as many forms as there are parameters vanish."""
    rows = [[*form.slopes, -form.constant] for form in forms]
    size = len(rows)
    for i in range(size):
        pivot = next((r for r in range(i, size) if rows[r][i]), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for r in range(size):
            if r != i and rows[r][i]:
                rows[r] = [x - rows[r][i] * y for x, y in zip(rows[r], rows[i])]
    return tuple(row[-1] for row in rows)


def is_full(corners: Sequence[Point]) -> bool:
    """Do points span their space?"""
    if not corners:
        return False
    rows = [list(towards(corners[0], corner)) for corner in corners[1:]]
    rank = 0
    for column in range(len(corners[0])):
        pivot = next((r for r in range(rank, len(rows)) if rows[r][column]), None)
        if pivot is None:
            return False
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        for r in range(rank + 1, len(rows)):
            factor = rows[r][column] / rows[rank][column]
            rows[r] = [x - factor * y for x, y in zip(rows[r], rows[rank])]
        rank += 1
    return True


def facets(walls: Sequence[Affine], corners: Sequence[Point]) -> tuple[Affine, ...]:
    """The walls that a polytope has a side on."""
    size = len(corners[0])
    return tuple(form for form in dict.fromkeys(wall.scaled() for wall in walls)
                 if sum(form.at(corner) == 0 for corner in corners) >= size)


def inner_walls(found: Sequence[ParameterCell[T]]) -> list[Affine]:
    """The walls between cells whose answers differ, each once."""
    size = len(found[0].corners[0])
    walls: dict[Affine, None] = {}
    for one, other in combinations(found, 2):
        if one.found.answer == other.found.answer:
            continue
        for wall in one.walls:
            if wall * -1 in other.walls and is_shared(wall, one, other, size):
                walls[max(wall, wall * -1)] = None
    return list(walls)


def is_shared(wall: Affine, one: ParameterCell[T], other: ParameterCell[T], size: int) -> bool:
    """Do two cells have more than an edge in common on a wall?"""
    both = (*one.walls, *other.walls)
    common = [point for some in combinations([form for form in both if form not in (wall, wall * -1)], size - 1)
              for point in [meeting((wall, *some))] if point is not None and all(form.at(point) >= 0 for form in both)]
    return len(set(common)) >= size
