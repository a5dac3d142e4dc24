"""The space of exponents' parameters cut into cells on which what is evaluated is affine.

Inside a cell an evaluation tells, of every size, the affine form that it is. Sizes are maxima of affine forms as long
as the same functions are saturated and negative powers are of the same sizes, so that one whose form at an inner point
is its value at all corners of a cell is that form all over it. So is a cell proved by what is evaluated at its corners,
each moved a little inwards; where it differs, the cell is cut along where two forms are equal, or one is zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Callable, Generic, Iterable, Iterator, Sequence, TypeVar

from ..errors import NotCovered
from ..orders.affine import Affine
from ..orders.polytope import Point as Point, Polytope
from .parts import unit_directions

T = TypeVar("T")
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
    """A polytope, closed, with what is asked for inside of it; walls: those that it has a side on."""

    part: Polytope
    found: Evaluated[T]

    @cached_property
    def walls(self) -> tuple[Affine, ...]:
        return tuple(wall.scaled() for wall in self.part.described[1])


def cells(evaluate: Evaluate[T], size: int, common: Callable[[Sequence[T]], T | None] = lambda answers: None
          ) -> list[ParameterCell[T]]:
    """Cells that cover a large box; evaluate: at a point that is thought of as moved along directions; common: what is
    true wherever one of several answers is, for parts that no form divides, None where nothing is."""
    waiting: list[tuple[Polytope, int]] = [(Polytope.box(FAR, size), 0)]
    done: list[ParameterCell[T]] = []
    while waiting:
        if len(waiting) + len(done) > MOST:
            raise NotCovered(f"exponents that are affine on more than {MOST} parts of the space of their parameters; "
                             "no picture of so many")
        part, halved = waiting.pop()
        corners, inner = part.corners, part.center
        found = evaluate(inner, unit_directions(size))
        answers, cut = [found.answer], None
        for number, corner in enumerate(corners):  # no more of them than it takes to find where to cut
            other = evaluate(corner, (part.inwards(number), *unit_directions(size)))
            if other.answer != found.answer:
                answers.append(other.answer)
                cut = next((form for form in _dividing(found, other) if _cuts(form, corners)), None)
                if cut is not None:
                    break
        if len(answers) == 1:
            done.append(ParameterCell(part, found))
            continue
        if cut is None:
            shared = common(answers)
            if shared is not None:
                done.append(ParameterCell(part, replace(found, answer=shared)))
                continue
            if halved >= MOST_PARTS:
                raise NotCovered("exponents that differ between corners of a part of the space of their parameters, "
                                 "where no two of the forms that they have are equal; no rule divides it")
            cut, halved = _half(part), halved + 1
        waiting += [(part.cut(cut), halved), (part.cut(cut * -1), halved)]
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


def _half(part: Polytope) -> Affine:
    """A wall through the middle, across the longest side."""
    corners, size = part.corners, len(part.center)
    lengths = [max(c[i] for c in corners) - min(c[i] for c in corners) for i in range(size)]
    longest = lengths.index(max(lengths))
    return Affine(tuple(Fraction(i == longest) for i in range(size)), -part.center[longest])


def inner_walls(found: Sequence[ParameterCell[T]]) -> list[Affine]:
    """The walls between cells whose answers differ, each once."""
    walls: dict[Affine, None] = {}
    for one, other in combinations(found, 2):
        if one.found.answer == other.found.answer:
            continue
        for wall in one.walls:
            if wall * -1 in other.walls and _is_shared(one.part, other.part):
                walls[max(wall, wall * -1)] = None
    return list(walls)


def _is_shared(one: Polytope, other: Polytope) -> bool:
    """Do two cells on both sides of a wall have more than an edge of it in common?"""
    return len(one.where(other.walls).corners) >= len(one.center)
