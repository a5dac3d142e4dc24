"""A program of positions as one whose powers of the depth are the same: two positions written out, then joined.

A count of powers of L knows a vector by its family, and by the matrices that it is random in. The positions of a
sequence share their matrices, so that what one of them brings another brings, too: the last one, which reads itself and
the others, has every term that there is. Joined, the families of all positions are one, with every term once. A sum
over the d coordinates of a head, with d fixed, has no powers of L of its own, so that heads of one coordinate, where it
is nothing, stand for all.

Recurrences over positions must not vanish in the count where positions are alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Iterator

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.core.symbol import Str

from ..errors import NotCovered
from .algebra import multiplied_out
from .blocks import is_linear_in_vectors
from .indices import POSITIONS, p
from .by_position import HeadTurn
from .language import HeadSum, LossDerivative, MatVec, Mean, Member, OfFamily, Outer, Scalar, Vector, kind
from .program import Assign, Loop, Program, Statement, assignments, mapped

TWO = 2  # positions: one that is read, and one that reads itself besides


def one_position(program: Program) -> Program:
    """The program of one position that stands for all. Raises ``ValueError`` where positions are not alike, naming why.

    >>> import tpcalc as tp
    >>> def smoothed(b):
    ...     v = b.let("v", MatVec(b.weights("V"), b.x))
    ...     return b.let_total("total", b.other(v))
    >>> net = tp.Transformer(head_dim=1, positions=3, attention=smoothed, mlp=None, norm=None)
    >>> print(*str(one_position(tp.program(net, tp.SGD(), tp.DepthScaling()))).splitlines()[7:12], sep=chr(10))
      for t = 0, ..., T - 1:
        x[t, 0] := xi[t]*U
        for l = 1, ..., L:
          v[t, l] := V[t, l] @ x[t, l - 1]
          total[t, l] := v[t, l]
    """
    out = _WrittenOut.of(program)
    body = mapped(program.body, lambda s: [Assign(s.target, out.value(s.value))], out.around)
    joined = _Joined(program, out, tuple(assignments(body)))
    sizes = tuple(size for size in program.sizes if size != POSITIONS)
    return replace(program, body=tuple(joined.statements(body)), sizes=sizes,
                   data=tuple(out.without(one) for one in program.data),
                   roles={index: role for index, role in program.roles.items() if index not in out.indices},
                   meaning={one: said for one, said in program.meaning.items() if one != POSITIONS})


@dataclass(frozen=True)
class _WrittenOut:
    """Loops and sums over positions (``indices``), for two of them; slots: places of positions by family's indices."""

    indices: frozenset[sp.Symbol]
    slots: dict[tuple[type, str], tuple[int, ...]]

    @classmethod
    def of(cls, program: Program) -> _WrittenOut:
        indices = frozenset(i for i, role in program.index_roles().items() if role == "position")
        members = [*program.data, *(location.statement.target for location in program.locations())]
        slots = {(type(one), one.name): tuple(n for n, index in enumerate(one.indices) if index in indices)
                 for one in members}
        return cls(indices, {family: locations for family, locations in slots.items() if locations})

    def value(self, value: sp.Expr) -> sp.Expr:
        return value.subs(POSITIONS, TWO).replace(HeadSum, lambda body, *heads: body).replace(
            HeadTurn, lambda body, *turn: body).replace(
            lambda e: isinstance(e, sp.Sum) and any(limit[0] in self.indices for limit in e.limits), self._terms)

    def _terms(self, total: sp.Sum) -> sp.Expr:
        terms = [total.function]
        for index, first, last in total.limits:
            terms = [term.subs(index, number) for term in terms for number in range(int(first), int(last) + 1)]
        return sp.Add(*terms)

    def around(self, loop: Loop, body: tuple[Statement, ...]) -> Iterator[Statement]:
        if loop.index not in self.indices:
            yield replace(loop, body=body)
            return
        for number in range(TWO):
            yield from (statement.at({loop.index: sp.Integer(number)}) for statement in body)

    def positions(self, one: Member) -> tuple[sp.Expr, ...]:
        return tuple(one.indices[location] for location in self.slots.get((type(one), one.name), ()))

    def without(self, one: OfFamily) -> OfFamily:
        """The member without its positions."""
        slots = self.slots.get((type(one), one.name), ())
        return one.at(*(index for location, index in enumerate(one.indices) if location not in slots))


@dataclass(frozen=True)
class _Joined:
    """The statements of all positions as one, where the last stands."""

    program: Program
    out: _WrittenOut
    all: tuple[Assign, ...]

    def statements(self, body: tuple[Statement, ...]) -> Iterator[Statement]:
        last = {self.out.without(one.target): number for number, one in enumerate(self.all)}
        number = -1

        def joined(s: Assign) -> Iterator[Statement]:
            nonlocal number
            number += 1
            target = self.out.without(s.target)
            if last[target] == number:
                yield from self._named(Assign(target, self._value(target)))

        return iter(mapped(body, joined))

    def _value(self, target: Member) -> sp.Expr:
        """Every term that a position has, once; each with the number that the last position has before it."""
        same = [one for one in self.all if self.out.without(one.target) == target]
        found: dict[sp.Expr, sp.Expr] = {}
        own: set[sp.Expr] = set()
        for one in reversed(same):
            at_last = one is same[-1]
            value = multiplied_out(one.value) if one.value.has(Outer, MatVec) else _spread(one.value)
            for term in sp.Add.make_args(value):
                number, rest = self._joined(term).as_coeff_Mul()
                if term == 0:
                    continue
                found.setdefault(rest, number)
                if at_last and all(p == TWO - 1 for v in term.atoms(Member) for p in self.out.positions(v)):
                    own.add(rest)
        if not own.issuperset(found):
            raise NotCovered(f"program {self.program.name}: {target} has a term of one position, "
                             f"{next(iter(set(found) - own))}, that the last one does not have of itself; powers of L "
                             "are counted where a position reads itself as it reads others")
        return sp.Add(*(number * rest for rest, number in found.items()))

    def _joined(self, term: sp.Expr) -> sp.Expr:
        """A term without positions; refused where these made a difference."""
        members = {v: self.out.without(v) for v in term.atoms(Member)}
        joined = term.xreplace(members).replace(LossDerivative, lambda output, t, *rest: LossDerivative(output, t))
        if joined.atoms(Member) != set(members.values()):
            raise NotCovered(f"program {self.program.name}: {term} vanishes where positions are alike; powers of L are "
                             "counted of terms that do not")
        return joined

    def _named(self, s: Assign) -> Iterator[Assign]:
        """The statement, functions that stand in products under names of their own: parts of products are counted."""
        if not isinstance(s.target, Vector):
            yield s
            return
        named: dict[sp.Expr, Vector] = {}
        value = sp.Integer(0)
        for term in _terms(s.value):
            factors = [f for f in sp.Mul.make_args(term) if kind(f) == "vector"]
            inside = set().union(*(f.atoms(Vector) for f in factors if not isinstance(f, Vector)))
            # h times a function of h is one function of h
            function = sp.Mul(*(f for f in factors if not isinstance(f, Vector) or f in inside))
            if inside and len(rest := [f for f in factors if isinstance(f, Vector) and f not in inside]):
                name = f"{s.target.name}_{len(named)}"
                named.setdefault(function, s.target.func(Str(name), Str(name), *s.target.args[2:]))
                term = sp.Mul(named[function], *rest, *(f for f in sp.Mul.make_args(term) if f not in factors))
            value += term
        yield from (Assign(name, function) for function, name in named.items())
        yield Assign(s.target, value)


def _spread(value: sp.Expr) -> sp.Expr:
    """A sum in which numbers stand in front of terms, not of sums of them."""
    parts = [term.as_independent(Member, as_Add=False) for term in sp.Add.make_args(value)]
    return sp.Add(*(number * term for number, rest in parts for term in sp.Add.make_args(rest)))


def _terms(value: sp.Expr) -> Iterator[sp.Expr]:
    """Terms whose factors are functions of one vector each, as far as sums in products can be written out for that."""
    for term in sp.Add.make_args(value):
        factors = sp.Mul.make_args(term)
        mixed = next((f for f in factors if isinstance(f, sp.Add) and (
            len(f.atoms(Vector)) > 1 or is_linear_in_vectors(f))), None)
        if mixed is None or len(factors) == 1:
            yield term
        else:
            for part in mixed.args:
                yield from _terms(part * sp.Mul(*(f for f in factors if f != mixed)))


Known = dict[str, sp.Expr]  # by name, what a vector or a number of a position is made of


def require_terms_that_stay(what: str, statements: tuple[Assign, ...]) -> None:
    """Raise ``NotCovered`` for a state by which what a matrix makes vanishes where a position is as the one before it
    is, as a difference of both does, naming the statement; statements: of a layer; what: they are of.

    Three positions are written out in what matrices make, of different inputs and of one. What stands in a statement of
    the former has to stand in it of the latter.
    """
    own, before = _positions(statements)
    apart = [sp.Symbol(f"x{number}", real=True) for number in range(3)]
    same = dict.fromkeys(apart, apart[-1])
    left: Known = dict.fromkeys(before, sp.Integer(0))
    for x in apart:
        known = dict(left)
        for one in own:
            value = known[one.target.name] = _written(one.value, known, x)
            if _makers(value) != _makers(sp.expand(value.xreplace(same))):
                raise NotCovered(f"{what}, in which a part of {one.target} vanishes where positions are "
                                 "alike, as a difference of what two of them make does; powers of L are counted of one "
                                 "position that stands for all; expected states of which that is left")
        left = {name: known[state] for name, state in before.items()}


def _makers(value: sp.Expr) -> set[object]:
    """Matrices, averages and heads that stand in it."""
    return {one.func for one in value.atoms(AppliedUndef)}


def _positions(statements: tuple[Assign, ...]) -> tuple[list[Assign], dict[str, str]]:
    """The statements of a position, and by what is read of the one before it the state that it is."""
    before = {one.target.name: one.value.name for one in statements if p + 1 in one.target.indices}
    return [one for one in statements if one.target.name not in before], before


@singledispatch
def _written(value: sp.Expr, known: Known, x: sp.Expr) -> sp.Expr:
    """In functions of the input; matrices, averages and heads are functions too."""
    return value.func(*_arguments(value, known, x)) if value.args else value


def _arguments(value: sp.Expr, known: Known, x: sp.Expr) -> list[sp.Expr]:
    return [_written(one, known, x) for one in value.args if isinstance(one, sp.Expr)]


@_written.register(Vector)
@_written.register(Scalar)
def _member(value: Vector | Scalar, known: Known, x: sp.Expr) -> sp.Expr:
    return known.get(value.name, x)


@_written.register(MatVec)
def _product(value: MatVec, known: Known, x: sp.Expr) -> sp.Expr:
    made = _written(value.vector, known, x)
    return sp.Function(f"W_{value.matrix}", real=True)(made) if made != 0 else made


@_written.register(Mean)
@_written.register(HeadSum)
@_written.register(HeadTurn)
def _linear(value: sp.Expr, known: Known, x: sp.Expr) -> sp.Expr:
    body = _written(value.args[0], known, x)
    return sp.Function(value.func.__name__, real=True)(body) if body != 0 else body


@_written.register(sp.Sum)
@_written.register(sp.Piecewise)
def _opaque(value: sp.Expr, known: Known, x: sp.Expr) -> sp.Expr:
    """As a function of all that stands in it."""
    inside = [_written(one, known, x) for one in sorted(value.atoms(Vector, Scalar), key=sp.default_sort_key)]
    return sp.Function(value.func.__name__, real=True)(*inside) if inside else value
