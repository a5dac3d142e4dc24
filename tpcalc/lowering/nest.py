"""Which loops of a program can be array axes, and the program with these loops innermost.

A loop whose iterations read nothing of each other runs its statements one after the other, each for all its indices at
once: the index becomes an axis of the arrays. So do the indices of sums. What does not qualify stays a loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Iterator, Mapping, Union

import sympy as sp

from ..programs.language import LossDerivative, Matrix, Member, NonlinearOuter, Outer, is_linear_in_outers
from ..programs.program import Assign, Loop, Location, Program, Statement

Family = tuple[type, sp.Basic, sp.Basic, sp.Basic]
Bounds = tuple[sp.Expr, sp.Expr]
Layout = tuple[Union[Bounds, None], ...]


@dataclass(frozen=True)
class Leaf:
    """A statement with the loops that became axes, outermost first."""

    assign: Assign
    axes: tuple[Loop, ...]
    statements = 1

    def in_order(self) -> Statement:
        """The statement in loops of its own."""
        statement: Statement = self.assign
        for loop in reversed(self.axes):
            statement = Loop(loop.index, *loop.bounds, (statement,))
        return statement


@dataclass(frozen=True)
class Nest:
    """A loop that runs, over what it holds."""

    loop: Loop
    body: tuple["Lines", ...]

    @property
    def statements(self) -> int:
        return sum(line.statements for line in self.body)

    def in_order(self) -> Statement:
        """The loop over what it holds, in order."""
        return replace(self.loop, body=tuple(line.in_order() for line in self.body))


Lines = Union[Leaf, Nest]


@dataclass(frozen=True)
class Axes:
    """Which loops and sums are axes; layouts: of every family that is assigned, the bounds of every index that is one.

    loops: by identity, since loops over one symbol may differ; sums: (position of the statement, index) that are none.
    """

    loops: frozenset[int]
    plain_sums: frozenset[tuple[int, sp.Symbol]]
    layouts: dict[Family, Layout]

    def of(self, location: Location) -> tuple[Loop, ...]:
        return tuple(loop for loop in location.loops if id(loop) in self.loops)

    def is_axis(self, position: int, index: sp.Symbol) -> bool:
        """Is the index of a sum in the statement at a position an axis?"""
        return (position, index) not in self.plain_sums


def find_axes(program: Program) -> Axes:
    """The most loops and sums that can be axes: all of them, less those that something speaks against."""
    locations = program.locations()
    loops = {id(loop): loop for location in locations for loop in location.loops}
    assigned: dict[int, dict[Family, Member]] = {}
    for location in locations:
        for one in location.loops:
            assigned.setdefault(id(one), {})[location.statement.target.family_key] = location.statement.target
    kept: set[int] = set(loops)
    plain: set[tuple[int, sp.Symbol]] = set()
    while True:
        axes = Axes(frozenset(kept), frozenset(plain), _layouts(locations, kept))
        bad = set().union(*(_against(program, locations, assigned, location, axes) for location in locations))
        if not bad:
            return axes
        kept -= {one for one in bad if isinstance(one, int)}
        plain |= {one for one in bad if not isinstance(one, int)}


def _layouts(locations: list[Location], kept: set[int]) -> dict[Family, Layout]:
    """By the first statement that assigns a family; others are held against it."""
    found: dict[Family, Layout] = {}
    for location in locations:
        found.setdefault(location.statement.target.family_key, _layout(location, kept))
    return found


def _layout(location: Location, kept: set[int]) -> Layout:
    bounds = {loop.index: loop.bounds for loop in location.loops if id(loop) in kept}
    return tuple(bounds.get(index) for index in location.statement.target.indices)


@lru_cache(maxsize=4096)
def _atoms(value: sp.Expr) -> tuple[set[sp.Sum], set[NonlinearOuter], set[Member | LossDerivative]]:
    """What is asked of a value again and again, while fewer and fewer loops are taken for axes."""
    return value.atoms(sp.Sum), value.atoms(NonlinearOuter), value.atoms(Member, LossDerivative)


def _against(program: Program, locations: list[Location], assigned: Mapping[int, Mapping[Family, Member]],
             location: Location, axes: Axes) -> set:
    """The loops and sums that cannot be axes because of one statement; assigned: what is, by loop around it."""
    own = {loop.index: id(loop) for loop in axes.of(location)}
    target, value = location.statement.target, location.statement.value
    totals, functions, members = _atoms(value)
    bad: set = set()
    for loop in axes.of(location):
        inner = location.loops[[one is loop for one in location.loops].index(True) + 1:]
        if (isinstance(target, Matrix) or target.indices.count(loop.index) != 1
                or any(i != loop.index and i.has(loop.index) for i in target.indices)
                or not (loop.first.free_symbols | loop.last.free_symbols) <= set(program.sizes)
                or any(one.first.has(loop.index) or one.last.has(loop.index) for one in inner)):
            bad.add(id(loop))
    bad |= _clashes(program, locations, location, axes)
    sums = {s: (location.position, s) for total in totals for s, *_ in total.limits}
    names: dict[sp.Symbol, int | tuple] = {**own, **{s: key for s, key in sums.items()
                                                     if axes.is_axis(location.position, s)}}
    for s in set(sums) & {loop.index for loop in location.loops}:  # one name for two things
        bad |= {sums[s], *(id(loop) for loop in location.loops if loop.index == s)}
    for total in totals:
        for s, low, high in total.limits:
            bad |= {names[v] for v in (low.free_symbols | high.free_symbols) & set(names)}
        if total.function.has(Outer, NonlinearOuter) and not is_linear_in_outers(total.function):
            bad |= {sums[s] for s, *_ in total.limits}
    for node in functions:
        bad |= {own[v] for v in node.free_symbols & set(own)}
        bad |= {names[v] for v in node.atoms(sp.Symbol) & set(names) - _summed_inside(node)}
    for member in members:
        bad |= _misread(program, member, names, axes)
    for loop in axes.of(location):  # what is assigned in a loop is read there at its own index
        inside = assigned[id(loop)]
        for member in members:
            if isinstance(member, Member) and member.family_key in inside:
                where = inside[member.family_key].indices
                if loop.index in where and member.indices[where.index(loop.index)] != loop.index:
                    bad.add(id(loop))
    return bad & (axes.loops | {key for key in sums.values()}) - axes.plain_sums


def _summed_inside(node: sp.Basic) -> set[sp.Symbol]:
    return {s for total in node.atoms(sp.Sum) for s, *_ in total.limits}


def _clashes(program: Program, locations: list[Location], location: Location, axes: Axes) -> set:
    """Loops over axes of a family that another statement, or what is given, lays out differently."""
    target, bad = location.statement.target, set()
    ours = _layout(location, set(axes.loops))
    theirs = axes.layouts[target.family_key]
    for p, index in enumerate(target.indices):
        given = any(g.same_family(target) and p < len(g.indices) and g.indices[p].is_number
                    for g in (*program.vectors, *program.matrices, *program.data))
        if given or len(ours) != len(theirs) or ours[p] != theirs[p]:
            bad |= {id(loop) for other in locations if other.statement.target.family_key == target.family_key
                    for loop in axes.of(other)
                    if p < len(other.statement.target.indices) and other.statement.target.indices[p] == loop.index}
    return bad


def _misread(program: Program, node: sp.Expr, names: dict, axes: Axes) -> set:
    """Axes that stand where an array has none, inside of an index, or twice."""
    found = [set(i.free_symbols) & set(names) for i in node.indices]
    bad = {names[v] for v in set().union(*found) if sum(v in one for one in found) > 1}
    for p, (index, inside) in enumerate(zip(node.indices, found)):
        plain = index in names
        has_axis = isinstance(node, LossDerivative) or not isinstance(node,
                                                                      Matrix) and _has_axis(program, node, p, axes)
        if inside and not (plain and has_axis):
            bad |= {names[v] for v in inside}
    return bad


def _has_axis(program: Program, member: Member, position: int, axes: Axes) -> bool:
    layout = axes.layouts.get(member.family_key)
    if layout is not None:
        return position < len(layout) and layout[position] is not None
    return is_given_axis(program, member, position)


def is_given_axis(program: Program, member: Member, position: int) -> bool:
    """May any number stand at the index, in a vector or in data that is given and never assigned?"""
    given = [g for g in (*program.vectors, *program.data) if g.same_family(member) and position < len(g.indices)]
    return bool(given) and not any(g.indices[position].is_number for g in given)


def distributed(program: Program, axes: Axes) -> tuple[Lines, ...]:
    """The nest in which every axis belongs to single statements."""
    def walk(body: tuple[Statement, ...], over: tuple[Loop, ...]) -> Iterator[Lines]:
        for statement in body:
            if isinstance(statement, Assign):
                yield Leaf(statement, over)
            elif id(statement) in axes.loops:
                yield from walk(statement.body, (*over, statement))
            else:
                yield Nest(statement, tuple(walk(statement.body, over)))
    return tuple(walk(program.body, ()))


def lowered_order(program: Program) -> Program:
    """The program in the order in which its lowered form runs: loops that are axes around single statements.

    It means the program itself; unrolled readings that draw while they run draw in this order.
    """
    body = tuple(line.in_order() for line in distributed(program, find_axes(program)))
    return Program(program.name, program.vectors, program.matrices, program.data, body, program.sizes, program.meaning)
