"""Programs without the names that their author chose for intermediate vectors.

A vector that is linear in what it is made of is written out wherever it stands in a sum, one that is another vector
times a number wherever it stands; what nothing reads any more is left out. Two programs that differ in names for
intermediate vectors become one, so that what is counted in them cannot depend on such names.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Iterable

import sympy as sp

from ..calculus.setting import solve_indices
from ..programs.algebra import multiplied_out
from ..programs.blocks import is_linear_in_vectors
from ..programs.language import MatVec, Outer, Vector, kind
from ..programs.program import Assign, Loop, Location, Program, Statement, mapped
from ..programs.made_names import source_of
from .trained_vectors import MOVE


def without_names(program: Program) -> Program:
    """The program with its linear intermediate vectors written out, until none is left that can be.

    Multiples of other vectors go first: written out as sums, two names of one vector would be two vectors.
    """
    while True:
        readable = _Readable.of(program)
        for chosen in (readable.multiples, readable):
            body = _pruned(_inlined(program.body, chosen), program)
            if body != program.body:
                break
        else:
            return program
        program = replace(program, body=body)


@dataclass(frozen=True)
class _Readable:
    """Assignments whose value may stand in place of their target: by the family of the target."""

    locations: tuple[Location, ...]

    @classmethod
    def of(cls, program: Program) -> "_Readable":
        locations = program.locations()
        vectors = [p for p in locations if isinstance(p.statement.target, Vector)]
        alone = [p for p in vectors if sum(p.statement.target.same_family(q.statement.target) for q in vectors) == 1]
        given = [p for p in alone if not any(p.statement.target.same_family(v) for v in program.vectors)
                 and source_of(MOVE, p.statement.target.name) is None]
        return cls(tuple(p for p in given if _is_generic(p) and is_linear_in_vectors(p.statement.value)
                         and not any(v.same_family(p.statement.target) for v in p.statement.value.atoms(Vector))))

    @property
    def multiples(self) -> "_Readable":
        """The assignments of a number times another vector alone."""
        return replace(self, locations=tuple(p for p in self.locations if _multiple(p.statement.value)[1] is not None))

    def value(self, member: Vector, at: tuple[Loop, ...]) -> sp.Expr | None:
        """What the member is made of: by name where the loops around the reader assigned it in the same passage, and
        anywhere where it is a number times another vector."""
        for location in self.locations:
            target, value = location.statement.target, location.statement.value
            if target == member and location.loops == at[:len(location.loops)]:
                return value
            if target.same_family(member) and _multiple(value)[1] is not None:
                found = solve_indices(target.indices, member.indices, set(location.indices))
                if found is not None:
                    return value.subs(found, simultaneous=True)
        return None


def _is_generic(location: Location) -> bool:
    """Are the target's indices the loops' own, perhaps shifted, so that one passage assigns one member?"""
    return all(any((index - i).is_Integer for index in location.statement.target.indices) for i in location.indices)


def _inlined(body: Iterable[Statement], readable: _Readable, loops: tuple[Loop, ...] = ()) -> tuple[Statement, ...]:
    found: list[Statement] = []
    named: dict[sp.Expr, sp.Expr] = {}  # functions of vectors that have a name go by it wherever they stand
    for statement in body:
        if isinstance(statement, Loop):
            found.append(replace(statement, body=_inlined(statement.body, readable, (*loops, statement))))
            continue
        value = _written_out(statement.value, readable, loops).xreplace(named)
        found.append(Assign(statement.target, value))
        if isinstance(statement.target, Vector) and value.has(Vector) and not is_linear_in_vectors(value):
            named.setdefault(value, statement.target)
    return tuple(found)


def _written_out(value: sp.Expr, readable: _Readable, loops: tuple[Loop, ...]) -> sp.Expr:
    if not value.atoms(Vector):
        return value
    for vector in sorted(value.atoms(Vector), key=sp.default_sort_key):
        made_of = readable.value(vector, loops)
        if made_of is None:
            continue
        number, other = _multiple(made_of)
        if other is not None:
            value = value.xreplace({vector: other}) if number == 1 else with_multiple(value, vector, number, other)
        elif kind(value) == "vector":
            value = sp.Add(*(_in_term(term, vector, made_of) for term in sp.Add.make_args(multiplied_out(value))))
    return value


def _multiple(value: sp.Expr) -> tuple[sp.Expr, Vector | None]:
    """A value as (number, vector) where it is a number times a vector."""
    number, vector = value.as_independent(Vector, as_Add=False)
    return (number, vector) if isinstance(vector, Vector) and number.is_number else (sp.Integer(1), None)


def with_multiple(value: sp.Expr, vector: Vector, number: sp.Expr, other: Vector) -> sp.Expr:
    """The value with ``number * other`` in the place of a vector, numbers in front of products and outer products."""
    def rebuilt(e: sp.Expr) -> sp.Expr:
        if isinstance(e, MatVec):
            return number * MatVec(e.matrix, other) if e.vector == vector else e.xreplace({vector: number * other})
        return sp.Mul(*(number for side in e.args if side == vector),
                      Outer(*(other if side == vector else side.xreplace({vector: number * other}) for side in e.args)))

    whole = {e: sp.Dummy() for e in value.atoms(MatVec, Outer) if e.has(vector)}
    return value.xreplace(whole).xreplace({vector: number * other}).xreplace(
        {name: rebuilt(e) for e, name in whole.items()})


def _in_term(term: sp.Expr, vector: Vector, made_of: sp.Expr) -> sp.Expr:
    """A term with the vector written out, where it is a factor and the other factors are numbers, not sums over steps:
    a product of two sums is no term."""
    factors = sp.Mul.make_args(term)
    if vector not in factors or any(f.has(Vector) and (kind(f) != "scalar" or f.has(sp.Sum))
                                    for f in factors if f != vector):
        return term
    return multiplied_out(sp.Mul(*(f for f in factors if f != vector)) * made_of)


def _pruned(body: tuple[Statement, ...], program: Program) -> tuple[Statement, ...]:
    """Without assignments of vectors that nothing reads: families, and members before the first layer read."""
    written = replace(program, body=body) if body != program.body else program
    read = [(v, p.loops) for p in written.locations() for v in p.statement.value.atoms(Vector)]

    def kept(s: Assign) -> Iterable[Statement]:
        if not isinstance(s.target, Vector) or any(_may_be(s.target, v, loops) for v, loops in read):
            yield s

    return mapped(body, kept, lambda loop, inner: [replace(loop, body=inner)] if inner else [])


def _may_be(member: Vector, read: Vector, loops: tuple[Loop, ...]) -> bool:
    """Can ``read``, within its loops, be the member?"""
    if not member.same_family(read) or len(member.indices) != len(read.indices):
        return False
    for mine, theirs in zip(member.indices, read.indices):
        low = high = theirs
        for loop in reversed(loops):
            first, last = loop.bounds
            low, high = low.subs(loop.index, first), high.subs(loop.index, last)
        if not mine.free_symbols & {loop.index for loop in loops} and (
                (low - mine).is_positive or (mine - high).is_positive):
            return False
    return True
