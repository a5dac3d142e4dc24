"""Indices and names that programs share, numbers for indices, and what is read there.

Sizes are T (steps), L (depth), B (batch), P (positions of a sequence), N (visits of a layer); indices run over them
and over inputs and outputs. Names of what is made say what it is and of which names it is made, so that
messages speak of the program. Those of a program are identifiers, and these are none: they never meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Iterator, Mapping, NamedTuple

import sympy as sp

from .._checks import symbolic
from .algebra import replaced
from .apart import Apart
from .language import Member

T, L, BATCH, POSITIONS, VISITS = sp.symbols("T L B P N", integer=True, positive=True)
t, l, i, j, o = sp.symbols("t l i j o", integer=True, nonnegative=True)
p, m = sp.symbols("p m", integer=True, nonnegative=True)  # a position, and one that it looks at
c = sp.Symbol("c", integer=True, nonnegative=True)  # a visit: layers are visited in cycles, or one by one


def at_other(expression: sp.Expr) -> sp.Expr:
    """The expression with the two positions in each other's place."""
    return expression.xreplace({p: m, m: p})


def made_name(what: str, *sources: object) -> str:
    """The name of what is made of vectors or matrices by these names.

    >>> made_name("stream_0", "x", "y"), made_name("move", "a")
    ('stream_0(x, y)', 'move(a)')
    """
    return f"{what}({', '.join(map(str, sources))})"


def source_of(what: str, name: str) -> str | None:
    """The name that one was made from, None for names that were made otherwise, or not at all.

    >>> source_of("move", "move(a)"), source_of("move", "move_of_a")
    ('a', None)
    """
    front, _, source = name.partition("(")
    return source.removesuffix(")") if front == what and source else None


def copied_from(name: str) -> str:
    """The name of the program's matrix that one of several layers in one comes from; other names as they are.

    >>> copied_from("W(2)"), copied_from("W")
    ('W', 'W')
    """
    front, _, number = name.partition("(")
    return front if number.removesuffix(")").isdigit() else name


Values = Mapping[sp.Symbol, sp.Integer]


@lru_cache(maxsize=8192)
def _summed_over(expression: sp.Expr) -> frozenset[sp.Symbol]:
    """The indices of the sums in an expression."""
    return frozenset(limit[0] for total in expression.atoms(sp.Sum) for limit in total.limits)


def at_numbers(expression: sp.Expr, values: Mapping[sp.Symbol, sp.Integer]) -> sp.Expr:
    """Numbers for indices; ``xreplace`` is much faster than ``subs``, but would rename a sum's own index."""
    clash = not _summed_over(expression).isdisjoint(values)
    return expression.subs(values) if clash else expression.xreplace(values)


def write_out(expression: sp.Expr) -> sp.Expr:
    """Sums over ranges of numbers, term by term; those whose ends are indices of sums around them, after these."""
    def terms(total: sp.Sum) -> sp.Expr:
        *inner, (index, first, last) = total.limits
        if not (first.is_number and last.is_number):
            return total
        body = sp.Sum(total.function, *inner) if inner else total.function
        parts = [at_numbers(body, {index: sp.Integer(k)}) for k in range(int(first), int(last) + 1)]
        return write_out(total.listed(parts) if isinstance(total, Apart) else sp.Add(*parts))

    return replaced(expression, sp.Sum, terms)


@lru_cache(maxsize=4096)
def _as_sum(index: sp.Expr) -> tuple[int, tuple[tuple[sp.Symbol, int], ...]] | None:
    """An index as a whole number and whole multiples of symbols; None where it is something else."""
    constant, multiples = 0, []
    for term in sp.Add.make_args(index):
        factor, symbol = term.as_coeff_Mul()
        if not factor.is_Integer or not (symbol == 1 or symbol.is_Symbol):
            return None
        if symbol == 1:
            constant += int(factor)
        else:
            multiples.append((symbol, int(factor)))
    return constant, tuple(multiples)


def _number(index: sp.Expr, values: Mapping[sp.Symbol, int]) -> int | sp.Expr:
    """An index at values of symbols, in whole numbers where it is one; without sympy for sums of multiples."""
    parts = _as_sum(index)
    if parts is not None and all(symbol in values for symbol, _ in parts[1]):
        return parts[0] + sum(factor * values[symbol] for symbol, factor in parts[1])
    found = index.xreplace({symbol: sp.Integer(value) for symbol, value in values.items()})
    return int(found) if found.is_Integer else found


class Numbered(NamedTuple):
    """A member by its family and the numbers of its indices, which is quicker to make and to find than the member."""

    family: tuple[object, ...]
    indices: tuple[int | sp.Expr, ...]

    @classmethod
    def of(cls, member: Member, values: Mapping[sp.Symbol, int]) -> "Numbered":
        return cls(member.family_key, tuple(_number(index, values) for index in member.indices))

    def member(self) -> Member:
        kind, *names = self.family
        found: Member = kind(*names, *map(symbolic, self.indices))  # type: ignore[operator]
        return found


Limits = tuple[tuple[sp.Expr, ...], ...]  # of the sums around a member, the outermost first


@dataclass(frozen=True)
class ReadMembers:
    """Which members a value reads, found without the value where its indices stand in members and ends of sums alone.

    members: each with the limits of the sums around it; value: where numbers for indices may remove terms, so that all
    of it is asked.
    """

    value: sp.Expr
    members: tuple[tuple[Member, Limits], ...] | None

    @classmethod
    @lru_cache(maxsize=4096)
    def of(cls, value: sp.Expr) -> "ReadMembers":
        """Found once: programs that are rewritten keep most of their values."""
        members = dict.fromkeys(_read(value, ()))
        limits = [limit for total in value.atoms(sp.Sum) for limit in map(tuple, total.limits)]
        indices = {s for member, _ in members for s in member.free_symbols} | {limit[0] for limit in limits}
        captured = len({limit[0] for limit in limits}) < len(set(limits))
        return cls(value, None if captured or indices & _outside(value) else tuple(members))

    def at(self, values: Values) -> Iterator[Numbered]:
        """The members that are read at these values of indices and sizes."""
        numbers = {symbol: int(value) for symbol, value in values.items()}
        if self.members is None:
            yield from (Numbered.of(member, {}) for member in write_out(at_numbers(self.value, values)).atoms(Member))
            return
        for member, limits in self.members:
            for inner in _over(limits, numbers):
                yield Numbered.of(member, inner)


def _read(part: sp.Basic, limits: Limits) -> Iterator[tuple[Member, Limits]]:
    """The members in a part of a value, with the limits of the sums around them."""
    if isinstance(part, Member):
        yield part, limits
    elif isinstance(part, sp.Sum):
        inner = (*limits, *reversed([tuple(limit) for limit in part.limits]))
        yield from _read(part.function, inner)
        yield from (one for limit in part.limits for end in limit[1:] for one in _read(end, limits))
    else:
        yield from (one for argument in part.args for one in _read(argument, limits))


def _outside(part: sp.Basic) -> set[sp.Symbol]:
    """The symbols that stand elsewhere than in members, ends of sums and factors that are never 0."""
    if isinstance(part, Member):
        return set()
    if isinstance(part, sp.Sum):
        return _outside(part.function)
    parts = part.args
    if part.is_Mul and part.has(Member):
        parts = tuple(one for one in parts if not _never_vanishes(one))
    return set().union(*map(_outside, parts)) if part.args else set(part.free_symbols)


def _never_vanishes(factor: sp.Expr) -> bool:
    """Is it a power of a positive number, or one over something, without members?"""
    return bool(factor.is_Pow and not factor.has(Member)
                and (factor.base.is_number and factor.base.is_positive or factor.exp.is_negative))


def _over(limits: Limits, numbers: Mapping[sp.Symbol, int]) -> Iterator[Mapping[sp.Symbol, int]]:
    """The values of indices in sums, beside those around them."""
    if not limits:
        yield numbers
        return
    (index, low, high), *inner = limits
    for k in range(int(_number(low, numbers)), int(_number(high, numbers)) + 1):
        yield from _over(tuple(inner), {**numbers, index: k})
