"""What a lowered program reads at given sizes, found before it runs: the nest is walked without arrays."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Collection, Mapping

import numpy as np
import sympy as sp

from .._types import Array
from ..programs.language import Matrix, Member, Scalar, Vector
from ..programs.indices import write_out
from .source import Lowered

Location = tuple[int, tuple[int, ...]]  # family and indices that are no axes
LastReads = tuple[tuple[int, int], ...]


class IndexedNumber:
    """A number made of loop indices, once sizes and parameters are known: called with the indices."""

    def __init__(self, expression: sp.Expr, indices: tuple[sp.Symbol, ...]) -> None:
        self.expression, self.indices = expression, indices
        self.known: dict[tuple[int, ...], float] = {}

    def __call__(self, *values: int) -> float:
        if values not in self.known:
            numbers = dict(zip(self.indices, map(sp.Integer, values)))
            found = write_out(self.expression.subs(numbers))
            try:
                self.known[values] = float(found)
            except TypeError:
                raise ValueError(f"{self.expression}: {found} is not a real number") from None
        return self.known[values]


@dataclass(frozen=True)
class LoweringPlan:
    """ends: what is read for the last time, by the statement (number, indices) after which it can be forgotten; given:
    what is read of given vectors and matrices, with the ends of their axes; products: vectors that every given matrix,
    or what it is trained to, multiplies; turned: those of them that its transpose does; rows, matrices: the most
    vectors, and matrices with what sums over their past carry, that are held at a time.
    """

    ends: Mapping[tuple[int, ...], tuple[Location, ...]]
    given: Mapping[Location, LastReads]
    products: Counter[Location]
    turned: Counter[Location]
    rows: int
    matrices: int


def plan_memory(lowered: Lowered, sizes: Mapping[str, int], numbers: list[IndexedNumber],
                shapes: Mapping[str, tuple[int, ...]], keep: Collection[str]) -> LoweringPlan:
    """Walk the nest; keep: the names of families that are never forgotten, besides all scalars. Raises ``ValueError``
    for a statement that reads what is neither given nor assigned before, or data that is not there, naming it."""
    walk = _Walk(lowered, sizes, numbers, shapes)
    lowered.functions[1](walk)
    kept = {i for i, one in enumerate(lowered.names.families) if one[0] is Scalar or str(one[1]) in keep}
    ends: dict[tuple[int, ...], list[Location]] = {}
    for location, at in walk.last.items():
        if location[0] not in kept:
            ends.setdefault(at, []).append(location)
    rows, matrices = walk.most(ends)
    forgotten = {at: tuple(found) for at, found in ends.items()}
    return LoweringPlan(forgotten, walk.given, walk.products, walk.turned, rows, matrices)


class _Walk:
    """What the code that reports reads calls."""

    def __init__(self, lowered: Lowered, sizes: Mapping[str, int], numbers: list[IndexedNumber],
                 shapes: Mapping[str, tuple[int, ...]]) -> None:
        self.lowered, self.sizes, self.numbers, self.shapes = lowered, sizes, numbers, shapes
        self.families = lowered.names.families
        program = lowered.program
        self.givens = [[g for g in (*program.vectors, *program.matrices, *program.data) if g.family_key == one]
                       for one in self.families]
        self.assigned: dict[Location, LastReads] = {}
        self.given: dict[Location, LastReads] = {}
        self.last: dict[Location, tuple[int, ...]] = {}
        self.events: list[tuple[tuple[int, ...], Location]] = []
        self.origins: dict[Location, frozenset[Location]] = {}
        self.products: Counter[Location] = Counter()
        self.turned: Counter[Location] = Counter()
        self.sources: set[Location] = set()
        self.at: tuple[int, ...] = ()
        self.carried: set[tuple[int, ...]] = set()
        self.parts = (slice(0, 1),)

    def holds(self, key: tuple[int, ...]) -> None:
        """A sum of matrices' entries is carried."""
        self.carried.add(key)

    def begin(self, at: tuple[int, ...]) -> None:
        self.at = at
        self.sources = set()

    def need(self, number: int, key: tuple[int, ...], ends: LastReads) -> None:
        location = number, key
        known = self.assigned.get(location)
        if known is None:
            self._require_given(location, ends)
            before = self.given.get(location, ends)
            self.given[location] = tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(before, ends))
        elif known != ends:
            for (low, high), (first, last) in zip(ends, known):
                if low <= high and not first <= low <= high <= last:
                    raise self._missing(location, ends)
        self.last[location] = self.at
        if self.families[number][0] is Matrix:
            self.sources.add(location)

    def made(self, number: int, key: tuple[int, ...], ends: LastReads) -> None:
        location = number, key
        if location in self.assigned or location in self.given:
            raise ValueError(f"program {self.lowered.program.name}: {self._named()} is assigned a second time")
        self.assigned[location] = ends
        self.last[location] = self.at
        self.events.append((self.at, location))
        if self.families[number][0] is Matrix:
            self.origins[location] = frozenset().union(*(self.origins.get(s, {s}) for s in self.sources))

    def multiplied(self, number: int, key: tuple[int, ...], times: int, turned: bool) -> None:
        for origin in self.origins.get((number, key), {(number, key)}):
            self.products[origin] += times
            self.turned[origin] += times * turned

    def data(self, name: str, ends: LastReads, row: bool) -> None:
        shape = self.shapes[name]
        if row and shape and shape[-1] != ends[-1][1] + 1:
            raise ValueError(f"{name}: got data of shape {shape}; expected {ends[-1][1] + 1} along the last axis")
        inside = len(ends) == len(shape) and all(
            low > high or 0 <= low <= high < n for (low, high), n in zip(ends, shape))
        if not inside:
            location = [str(high if not 0 <= high < n else low) for (low, high), n in zip(ends, shape)]
            location += [str(high) for _, high in ends[len(shape):]]
            wanted = f"{name}[{', '.join(location)}]" if ends else f"{name}, a single number,"
            raise ValueError(f"{name}: got data of shape {shape}; expected {wanted}")

    def most(self, ends: Mapping[tuple[int, ...], list[Location]]) -> tuple[int, int]:
        """The most rows of vectors, and matrices, at a time."""
        held: dict[type, int] = {Vector: 0, Matrix: 0, Scalar: 0}
        most: dict[type, int] = {Vector: 0, Matrix: 0}
        size: dict[Location, int] = {}
        for location, given in self.given.items():
            size[location] = self._rows(given)
            held[self.families[location[0]][0]] += size[location]
        for at, location in self.events:
            kind = self.families[location[0]][0]
            size[location] = self._rows(self.assigned[location])
            held[kind] += size[location]
            most[Vector] = max(most[Vector], held[Vector])
            for ended in ends.get(at, ()):
                held[self.families[ended[0]][0]] -= size[ended]
            most[Matrix] = max(most[Matrix], held[Matrix])  # one that ends is written over
        return max(most[Vector], held[Vector]), max(most[Matrix], held[Matrix]) + len(self.carried)

    @staticmethod
    def _rows(ends: LastReads) -> int:
        return int(np.prod([high - low + 1 for low, high in ends], dtype=np.int64))

    def _require_given(self, location: Location, ends: LastReads) -> None:
        for given in self.givens[location[0]]:
            layout = self.lowered.names.layout(given)
            fixed = [i for i, axis in zip(given.indices, layout) if axis is None]
            if len(fixed) == len(location[1]) and all(i == k for i, k in zip(fixed, location[1]) if i.is_number):
                return
        raise self._missing(location, ends)

    def _missing(self, location: Location, ends: LastReads) -> ValueError:
        statement = self.lowered.statement(self.at)
        known = self.assigned.get(location, ends)
        bad = tuple(low if low == high or not first <= low <= last else high
                    for (low, high), (first, last) in zip(ends, known))
        member = self.lowered.member(location, bad)
        return ValueError(f"program {self.lowered.program.name}: {statement} reads "
                          f"{member}, which is neither given nor assigned before")

    def _named(self) -> Member:
        return self.lowered.target(self.at)


def program_numbers(lowered: Lowered, values: Mapping[sp.Symbol, Array], known: int = 0) -> list[IndexedNumber]:
    """The numbers of the program's code, from sizes and parameters, but for the first ones that are known."""
    return [IndexedNumber(expression.subs(values), used) for expression, used in list(lowered.names.numbers)[known:]]
