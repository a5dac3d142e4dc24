"""What one layer does to the vectors that reach the next one: a matrix, and what enters beside it.

A sweep over layers carries a state: every vector that a later layer reads, one entry for each lag. Terms of a
statement that are a number times such a vector make the matrix, in powers of L; all others (products with matrices,
functions) enter. Sublayers of a layer multiply, lags make a companion matrix.

Slow directions of the map have eigenvalue 1, with vectors that weigh what enters and what is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Iterator, Sequence

import numpy as np
import sympy as sp

from ..errors import NotCovered
from ..orders.quantities import GRID, LAYER_TIME, in_powers
from ..programs.algebra import multiplied_out
from ..programs.language import Member, Vector
from ..programs.program import Assign, Loop, Program, assignments, loops_in, walked

Powers = dict[sp.Expr, sp.Expr]   # exponent of L -> function of layer time


@dataclass(frozen=True)
class LayerState:
    """A vector as the next layer may read it: the member that ``family`` had ``lag`` layers ago, 1 the last one.

    family: the member that a passage of the loop assigns.
    """

    family: Vector
    lag: int

    def __str__(self) -> str:
        return f"{self.family} {self.lag} layers ago"


@dataclass(frozen=True)
class Sweep:
    """A loop over layers that carries vectors.

    loops: the loop and those around it, outermost first; statements: its assignments of vectors that are not lagged
    copies of others, in order; others: what else the body has.
    """

    program: Program
    loops: tuple[Loop, ...]
    depth: sp.Symbol

    @property
    def loop(self) -> Loop:
        return self.loops[-1]

    @property
    def layer(self) -> sp.Symbol:
        return self.loop.index

    @property
    def direction(self) -> int:
        return -1 if self.loop.descending else 1

    @cached_property
    def assignments(self) -> tuple[Assign, ...]:
        """The vectors that one passage assigns."""
        for inner in loops_in(self.loop.body):
            if any(isinstance(s.target, Vector) for s in assignments(inner.body)):
                raise NotCovered(f"program {self.program.name}: a loop over {inner.index} inside the loop over layers "
                                 f"{self.layer}; no rule for streams there")
        return tuple(s for s in assignments(self.loop.body) if isinstance(s.target, Vector))

    @cached_property
    def carried(self) -> tuple[Vector, ...]:
        """The families that a later layer reads, as the members that a passage assigns."""
        found = dict.fromkeys(t for a in self.assignments for t in (self.assigned(v) for v in a.value.atoms(Vector))
                              if t is not None)
        return tuple(t for t in (a.target for a in self.assignments) if t in found and self._most(t) > 0)

    @cached_property
    def states(self) -> tuple[LayerState, ...]:
        return tuple(LayerState(v, lag) for v in self.carried for lag in range(1, self._most(v) + 1))

    def assigned(self, read: Vector) -> Vector | None:
        """The target of this sweep that ``read`` is a member of, at the same step and sample."""
        for a in self.assignments:
            if a.target.same_family(read) and self.lag_of(read, a.target) is not None:
                return a.target
        return None

    def lag_of(self, read: Vector, target: Vector) -> int | None:
        """How many layers before this one ``read`` was assigned; None where it is no such member."""
        lag: sp.Expr = sp.Integer(0)
        for here, there in zip(target.indices, read.indices):
            if self.layer in here.free_symbols:
                lag = self.direction * (here - there)
            elif here != there:
                return None
        if not lag.is_Integer:
            return None
        if lag < 0:
            raise ValueError(f"program {self.program.name}: {read} is read before it is assigned")
        return int(lag)

    def _most(self, target: Vector) -> int:
        lags = [self.lag_of(v,
                            target) for a in self.assignments for v in a.value.atoms(Vector) if v.same_family(target)]
        return max((lag for lag in lags if lag is not None), default=0)

    @cached_property
    def rows(self) -> dict[Vector, "Combination"]:
        """What every vector of a passage is made of, through the state that the passage found and what enters."""
        found: dict[Vector, Combination] = {}
        for a in self.assignments:
            found[a.target] = self._row(a, found)
        return found

    def _row(self, a: Assign, before: dict[Vector, "Combination"]) -> "Combination":
        own: Powers = {sp.Integer(0): sp.Integer(1)}
        row = Combination({}, {a.target: own} if self.entering(a.target) != 0 else {})
        for term in sp.Add.make_args(multiplied_out(a.value)):
            number, read, target = self._carried_by(term)
            if read is None or target is None:
                continue
            powers = dict(in_powers(number, self.layer, self.depth))
            lag = self.lag_of(read, target)
            if lag:
                row = row.plus(Combination({LayerState(target, lag): powers}, {}))
            elif target not in before:
                raise ValueError(f"program {self.program.name}: {a.target} reads {read} before it is assigned")
            else:
                row = row.plus(before[target].times(powers))
        return row

    def _carried_by(self, term: sp.Expr) -> tuple[sp.Expr, Vector | None, Vector | None]:
        """A term as a number times a vector that brings something of the state: (number, vector, its target)."""
        number, read = self._linear(term)
        target = None if read is None else self.assigned(read)
        return (number, read, target) if target in self.bringing else (sp.Integer(1), None, None)

    @cached_property
    def bringing(self) -> frozenset[Vector]:
        """The vectors of a passage that are carried on, or are a number times such a vector among other terms."""
        found = set(self.carried)
        while True:
            more = {a.target for a in self.assignments if a.target not in found
                    for term in sp.Add.make_args(multiplied_out(a.value))
                    for _, read in [self._linear(term)] if read is not None and self.assigned(read) in found}
            if not more:
                return frozenset(found)
            found |= more

    def _linear(self, term: sp.Expr) -> tuple[sp.Expr, Vector | None]:
        """A term as a number times a vector: (number, vector), or (1, None) where something else is in it."""
        number, vector = term.as_independent(Vector, as_Add=False)
        return (number, vector) if isinstance(vector, Vector) and not number.has(Member) else (sp.Integer(1), None)

    def entering(self, target: Vector) -> sp.Expr:
        """The terms of the target's statement that are no number times a vector of the sweep."""
        statement = next(a for a in self.assignments if a.target == target)
        found = []
        for term in sp.Add.make_args(multiplied_out(statement.value)):
            if self._carried_by(term)[1] is None:
                found.append(term)
        return sp.Add(*found)

    @cached_property
    def matrix(self) -> dict[sp.Expr, sp.Matrix]:
        """The map from the state before a passage to the state after it, by powers of L, as functions of layer time."""
        size = len(self.states)
        found: dict[sp.Expr, sp.Matrix] = {sp.Integer(0): sp.zeros(size, size)}
        for i, state in enumerate(self.states):
            if state.lag > 1:
                found[sp.Integer(0)][i, self.states.index(LayerState(state.family, state.lag - 1))] = sp.Integer(1)
                continue
            for source, powers in self.rows[state.family].state.items():
                for exponent, value in powers.items():
                    part = found.setdefault(exponent, sp.zeros(size, size))
                    part[i, self.states.index(source)] += value
        return found

    @cached_property
    def entry(self) -> dict[Vector, dict[sp.Expr, sp.Matrix]]:
        """Where what enters a vector's statement goes: columns over the states after the passage, by powers of L."""
        found: dict[Vector, dict[sp.Expr, sp.Matrix]] = {}
        for i, state in enumerate(self.states):
            if state.lag > 1:
                continue
            for source, powers in self.rows[state.family].entering.items():
                for exponent, value in powers.items():
                    columns = found.setdefault(source, {})
                    columns.setdefault(exponent, sp.zeros(len(self.states), 1))[i] += value
        return found


@dataclass(frozen=True)
class Combination:
    """A vector that one passage of the layers makes, as a combination of the state before it and of what enters."""

    state: dict[LayerState, Powers]
    entering: dict[Vector, Powers]

    def plus(self, other: "Combination") -> "Combination":
        return Combination(_sum(self.state, other.state), _sum(self.entering, other.entering))

    def times(self, powers: Powers) -> "Combination":
        return Combination({s: _product(p, powers) for s, p in self.state.items()},
                           {v: _product(p, powers) for v, p in self.entering.items()})


def _sum(one: dict[sp.Expr, Powers], other: dict[sp.Expr, Powers]) -> dict[sp.Expr, Powers]:
    found = {key: dict(powers) for key, powers in one.items()}
    for key, powers in other.items():
        mine = found.setdefault(key, {})
        for exponent, value in powers.items():
            mine[exponent] = mine.get(exponent, sp.Integer(0)) + value
    return found


def _product(one: Powers, other: Powers) -> Powers:
    found: Powers = {}
    for e, a in one.items():
        for g, b in other.items():
            key = sp.expand(e + g)
            found[key] = sp.expand(found.get(key, sp.Integer(0)) + a * b)
    return found


def sweeps(program: Program, depth: sp.Symbol) -> Iterator[Sweep]:
    """The loops over layers of a program that carry vectors."""
    for loop, around in walked(program.body):
        if isinstance(loop, Loop) and (loop.first.has(depth) or loop.last.has(depth)):
            sweep = Sweep(program, (*around, loop), depth)
            if sweep.carried:
                yield sweep


ON_THE_CIRCLE = 1e-9
LONGEST_PERIOD = 12


class NoStreams(NotCovered):
    """A layer's map that no rule takes to infinite depth; the message names what and why."""


@dataclass(frozen=True)
class Slow:
    """The slow subspace of a matrix M(p) on a sweep's state.

    read: (size, m), what each entry of the state is made of, as functions of layer time p; weigh: (m, size), how what
    enters counts in each stream; weigh read = 1. relax: (size, size), the sum over later layers of what fast modes keep
    of what enters them. explodes: an eigenvalue lies outside the unit disk somewhere on [0, 1].
    """

    read: sp.Matrix
    weigh: sp.Matrix
    relax: sp.Matrix
    explodes: bool = False

    @property
    def streams(self) -> int:
        return int(self.read.shape[1])


def slow_subspace(matrix: sp.Matrix, states: Sequence[object]) -> Slow:
    """The eigenvectors of eigenvalue 1, where all others lie inside the unit disk.

    Raises ``NoStreams`` for other eigenvalues of modulus 1, for a Jordan block at 1, and where the multiplicity of 1
    changes with layer time, naming the vectors that make the map.
    """
    size, what = matrix.shape[0], ", ".join(map(str, states))
    lam = sp.Dummy("lambda")
    polynomial = sp.Poly(sp.together((lam * sp.eye(size) - matrix).det(method="berkowitz")), lam)
    multiplicity = 0
    while size and sp.simplify(polynomial.eval(1)) == 0:
        polynomial, multiplicity = sp.Poly(sp.cancel(sp.quo(polynomial, sp.Poly(lam - 1, lam)).as_expr()), lam), (
            multiplicity + 1)
    moduli = [np.abs(np.roots([complex(c.subs(LAYER_TIME, p)) for c in polynomial.all_coeffs()])) for p in GRID]
    largest = max((float(m.max()) for m in moduli if len(m)), default=0.0)
    if largest > 1 + ON_THE_CIRCLE:
        return Slow(sp.zeros(size, 0), sp.zeros(0, size), sp.zeros(size, size), explodes=True)
    if largest > 1 - ON_THE_CIRCLE:
        raise NoStreams(f"the layers' map of {what} has an eigenvalue of modulus 1 besides 1; no rule for what turns "
                        "or alternates from layer to layer")
    moved = (matrix - sp.eye(size)).applyfunc(sp.cancel)
    right, left = moved.nullspace(), moved.T.nullspace()
    if len(right) < multiplicity:
        raise NoStreams(f"the layers' map of {what} has a Jordan block of eigenvalue 1: they add up each other like "
                        "powers of L; no rule for that")
    if not multiplicity:
        return Slow(sp.zeros(size, 0), sp.zeros(0, size), (sp.eye(size) - matrix).inv())
    read = sp.Matrix.hstack(*map(_scaled, right)).applyfunc(sp.cancel)
    rows = sp.Matrix.hstack(*left).T
    weigh = ((rows * read).inv() * rows).applyfunc(sp.cancel)
    projector = (read * weigh).applyfunc(sp.cancel)
    relax = ((sp.eye(size) - matrix + projector).inv() * (sp.eye(size) - projector)).applyfunc(sp.cancel)
    for entry in (*read, *weigh, *relax):
        _require_smooth(entry, what)
    return Slow(read, weigh, relax)


def period(matrix: sp.Matrix) -> int:
    """The least k with which all eigenvalues of modulus 1 of a constant matrix become 1 in its k-th power, 1 where none
    needs it or no k up to 12 does."""
    if matrix.has(LAYER_TIME) or not matrix.shape[0]:
        return 1
    lam = sp.Dummy("lambda")
    rest = sp.Poly((lam * sp.eye(matrix.shape[0]) - matrix).det(method="berkowitz"), lam)
    orders = [1]
    for k in range(2, LONGEST_PERIOD + 1):
        if sp.gcd(rest, sp.Poly(sp.cyclotomic_poly(k, lam), lam)).degree() > 0:
            orders.append(k)
    together = int(sp.ilcm(*orders)) if len(orders) > 1 else 1
    return together if together <= LONGEST_PERIOD else 1


def _scaled(column: sp.Matrix) -> sp.Matrix:
    """The column with its first entry that does not vanish somewhere set to 1, so that nothing is divided by zero."""
    for entry in column:
        if entry != 0 and all(entry.subs(LAYER_TIME, p) != 0 for p in GRID):
            return (column / entry).applyfunc(sp.cancel)
    return column


def _require_smooth(entry: sp.Expr, what: str) -> None:
    _, under = sp.fraction(sp.together(entry))
    if under.has(LAYER_TIME):
        roots = np.roots([float(c) for c in sp.Poly(under, LAYER_TIME).all_coeffs()])
        inside = [r for r in roots if abs(r.imag) < ON_THE_CIRCLE and -ON_THE_CIRCLE <= r.real <= 1 + ON_THE_CIRCLE]
        if inside:
            raise NoStreams(f"the layers' map of {what} changes its slow directions at layer time "
                            f"{Fraction(float(inside[0].real)).limit_denominator(1000)}; no rule for that")
