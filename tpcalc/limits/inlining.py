"""Programs without the names that their author chose for intermediate vectors.

A vector that is linear in what it is made of is written out wherever it stands in a sum, one that is another vector
times a number wherever it stands; what nothing reads any more is left out. Two programs that differ in names for
intermediate vectors become one, so that what is counted in them cannot depend on such names.

Trained vectors are written out before: what they were at first, and the sum over steps of what moved them. Kets know
an update of a matrix as a sum over earlier steps; so is one of a vector then, and products with it are products of kets
of these steps with kets of now, whose powers of L are counted like those of any others.

Vectors that one layer makes for itself stand at the layer of the loop that makes them. A backward pass may call what
layer l sends down a vector of layer l - 1. Where no other layer of the pass reads it, that is a choice of names; the
rules compare layers of vectors with layers of matrices, so the choice is taken back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Iterable

import sympy as sp
from sympy.core.symbol import Str

from ..calculus.setting import past_of, solve_indices
from ..errors import NotCovered
from ..programs.algebra import multiplied_out
from ..programs.blocks import is_linear_in_vectors
from ..programs.language import MatVec, Mean, Member, Outer, Vector, kind
from ..programs.indices import made_name, source_of
from ..programs.program import Assign, Location, Loop, Program, Statement, mapped

MOVE = "move"  # what moves a vector in a step is a vector of its own, made of it


def trained_vectors(program: Program) -> tuple[str, ...]:
    """The names of the vectors that a step of the clock makes for the next one."""
    clock = program.clock()
    names = {p.statement.target.name for p in program.locations() if isinstance(p.statement.target, Vector)
             and clock in p.loops and any(index.has(clock.index) and index != clock.index
                                          for index in p.statement.target.indices[:1])} if clock else ()
    return tuple(sorted(names))


@lru_cache(maxsize=4096)
def vector_of(term: sp.Expr) -> str | None:
    """The trained vector whose update brings a term of a ket equation, None where none does."""
    moves = [source_of(MOVE, one.name) for one in term.atoms(Vector)]
    return next(filter(None, moves), None) if isinstance(term, sp.Sum) else None


def trained_vector_rates(program: Program) -> dict[str, sp.Expr]:
    """The number in front of what moves a trained vector in a step, by the vector's name."""
    return {name: _Trained.of(program, name).number for name in trained_vectors(program)}


def with_moves(program: Program) -> Program:
    """The program with its trained vectors as sums over steps, what moves them in a step being vectors of their own.

    Raises ``ValueError`` for a vector that does not begin as a number or to which a step adds what depends on trained
    vectors, and for one that is read otherwise than as a factor of a term, beside no other, or of one in an average.

    >>> import tpcalc as tp
    >>> program = with_moves(tp.program(tp.ResNet(skip=tp.Skip(learned=True)), tp.SGD(), tp.DepthScaling(1, 0)))
    >>> print(*(line.strip() for line in str(program).splitlines()
    ...         if line.strip().startswith(("x[t, l] ", "move("))), sep=chr(10))
    x[t, l] := Sum(-move(a)[s, l]*x[t, l - 1]/L, (s, 0, t - 1)) + x[t, l - 1] + (W[t, l] @ x[t, l - 1])/L
    move(a)[t, l] := dx[t, l]*x[t, l - 1]
    """
    known = {name: _Trained.of(program, name) for name in trained_vectors(program)}
    if not known:
        return program

    def written(s: Assign) -> Iterable[Statement]:
        one = known.get(s.target.name) if isinstance(s.target, Vector) else None
        if one is None:
            yield replace(s, value=_written(program, s, known))
        elif s.target == one.made:
            yield Assign(one.move, one.moves)

    def around(loop: Loop, body: tuple[Statement, ...]) -> Iterable[Statement]:
        return [replace(loop, body=body)] if body else []

    return replace(program, body=mapped(program.body, written, around))


@dataclass(frozen=True)
class _Trained:
    """A trained vector: the member that a step makes, and what all coordinates are at first.

    move, moves, number: the vector that moves it in a step, what that is made of, and the number in front.
    """

    made: Vector
    first: sp.Expr
    move: Vector
    moves: sp.Expr
    number: sp.Expr
    step: sp.Symbol
    past: sp.Symbol

    @classmethod
    def of(cls, program: Program, name: str) -> "_Trained":
        clock = program.clock()
        assert clock is not None
        locations = [p for p in program.locations() if isinstance(target := p.statement.target,
                                                                  Vector) and target.name == name]
        one, first = _of_a_step(program, locations, clock)
        before = one.target.subs(clock.index, clock.index - 1)
        moves = multiplied_out(one.value - before)
        if one.target.indices[0] != clock.index + 1 or {v.name
                                                        for v in moves.atoms(Vector)} & {*trained_vectors(program)}:
            raise _no_rule(program, one)
        number = sp.Mul(*(f for f in sp.Mul.make_args(sp.Add.make_args(moves)[0]) if not f.has(Member, sp.Sum)))
        move = before.func(Str(made_name(MOVE, name)), Str(rf"\Delta {before.args[1]}"), *before.args[2:])
        return cls(one.target, first, move, multiplied_out(moves / number), number, clock.index,
                   past_of(program))

    def at(self, member: Vector, beside: sp.Expr) -> sp.Expr:
        """A member of it times what stands beside it."""
        past = self.past
        found = solve_indices(self.move.indices, (past, *member.indices[1:]), self.move.free_symbols)
        if found is None:
            raise NotCovered(f"{member}: a trained vector of another layer; no rule for it")
        move = self.move.subs(found, simultaneous=True)
        return self.first * beside + sp.Sum(self.number * move * beside, (past, 0, member.indices[0] - 1))


def _of_a_step(program: Program, locations: list[Location], clock: Loop) -> tuple[Assign, sp.Expr]:
    """The statement by which a step makes a trained vector, and the number that all coordinates are at first."""
    later = [p.statement for p in locations if clock in p.loops]
    first = [p.statement.value for p in locations if clock not in p.loops]
    if len(later) != 1 or len(first) != 1 or not first[0].is_number:
        raise _no_rule(program, later[0])
    return later[0], first[0]


def _no_rule(program: Program, one: Assign) -> NotCovered:
    return NotCovered(f"program {program.name}: the vector {one.target} = {one.value} is trained, and no rule counts "
                      "powers of L of what it multiplies; expected vectors that begin as a number, to which a step "
                      "adds what depends on no trained vector, as gradient descent without momentum and decay does")


def _written(program: Program, s: Assign, known: dict[str, _Trained]) -> sp.Expr:
    """A statement's value with trained vectors written out, those in averages too, which are linear in them."""
    def reads(value: sp.Expr) -> bool:
        return any(v.name in known for v in value.atoms(Vector))

    def of_terms(value: sp.Expr) -> sp.Expr:
        return sp.Add(*(_term(program, s, term, known) for term in sp.Add.make_args(multiplied_out(value))))

    if not reads(s.value):
        return s.value
    averages = {mean: _averaged(of_terms(mean.args[0])) for mean in s.value.atoms(Mean) if reads(mean)}
    if any(mean.args[0].has(Mean) for mean in averages):
        averages = {}  # one inside of another: the terms are refused
    return of_terms(s.value.xreplace(averages))


def _averaged(value: sp.Expr) -> sp.Expr:
    """The average of sums over steps, step by step."""
    sums = [term for term in sp.Add.make_args(value) if isinstance(term, sp.Sum)]
    return sp.Add(*(sp.Sum(Mean(one.function), *one.limits) for one in sums), Mean(value - sp.Add(*sums)))


def _term(program: Program, s: Assign, term: sp.Expr, known: dict[str, _Trained]) -> sp.Expr:
    """A term with its trained vector written out; raises ``NotCovered`` where that is no factor, or one of several."""
    trained = [v for v in term.atoms(Vector) if v.name in known]
    if not trained:
        return term
    member, *others = trained
    beside = sp.Mul(*(f for f in sp.Mul.make_args(term) if f != member))
    if others or beside.has(member) or member not in sp.Mul.make_args(term) or beside.has(sp.Sum):
        raise NotCovered(f"program {program.name}: {s.target} = {s.value} reads the trained vector {member} in "
                         f"{term}, and no rule counts powers of L of that; expected products with it, of "
                         "which each is a term of its own")
    return known[member.name].at(member, beside)


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


def at_own_layers(program: Program) -> Program:
    """The program with vectors that only the layer reads which makes them at that layer, wherever they are read."""
    shifts = _shifts(program)

    def moved(e: sp.Expr) -> sp.Expr:
        return e.xreplace({v: v.at(*(sp.expand(i - by) for i, by in zip(v.indices, shift)))
                           for target, shift in shifts for v in e.atoms(Vector) if v.same_family(target)})

    if not shifts:
        return program
    return replace(program, body=mapped(program.body, lambda s: [Assign(moved(s.target), moved(s.value))]))


def _shifts(program: Program) -> list[tuple[Vector, tuple[sp.Expr, ...]]]:
    """Vectors at another layer than their loop's, and by how much, where no layer reads them but their own."""
    everywhere = program.locations()
    locations = [p for p in everywhere if isinstance(p.statement.target, Vector)]
    found: list[tuple[Vector, tuple[sp.Expr, ...]]] = []
    for location in locations:
        target = location.statement.target
        alone = sum(target.same_family(other.statement.target) for other in locations) == 1
        if not alone or not location.loops or any(target.same_family(v) for v in program.vectors):
            continue
        layer = location.loops[-1].index
        shift = tuple(index - layer if layer in index.free_symbols else sp.Integer(0) for index in target.indices)
        if any(shift) and all(by.is_Integer
                              for by in shift) and not _is_carried(target, location.loops[-1], everywhere):
            found.append((target, shift))
    return found


def _is_carried(target: Vector, loop: Loop, locations: list[Location]) -> bool:
    """Does a layer of the loop read the vector of another layer?"""
    return any(v.same_family(target) and v != target
               for p in locations if loop in p.loops for v in p.statement.value.atoms(Vector))
