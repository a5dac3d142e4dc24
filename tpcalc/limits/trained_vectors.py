"""Trained vectors written out: what they were at first, and the sum over steps of what moved them.

Kets know an update of a matrix as a sum over earlier steps. Written out, a vector that is trained is one too: products
with it are products of kets of these steps with kets of now, whose powers of L are counted like those of any others.
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
from ..programs.language import Mean, Member, Vector
from ..programs.program import Assign, Loop, Location, Program, Statement, mapped
from ..programs.made_names import made_name, source_of

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
