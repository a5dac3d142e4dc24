"""Numbers for indices, and what is read there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Iterator, Mapping

import sympy as sp
from sympy.core.symbol import Str

from .algebra import replaced
from .language import Member

Values = Mapping[sp.Symbol, sp.Integer]


def at_numbers(expression: sp.Expr, values: Mapping[sp.Symbol, sp.Integer]) -> sp.Expr:
    """Numbers for indices; ``xreplace`` is much faster than ``subs``, but would rename a sum's own index."""
    clash = any(limit[0] in values for total in expression.atoms(sp.Sum) for limit in total.limits)
    return expression.subs(values) if clash else expression.xreplace(values)


def write_out(expression: sp.Expr) -> sp.Expr:
    """Sums over ranges of numbers, term by term; those whose ends are indices of sums around them, after these."""
    def terms(total: sp.Sum) -> sp.Expr:
        *inner, (index, first, last) = total.limits
        if not (first.is_number and last.is_number):
            return total
        body = sp.Sum(total.function, *inner) if inner else total.function
        return write_out(sp.Add(*(at_numbers(body, {index: sp.Integer(k)}) for k in range(int(first), int(last) + 1))))

    return replaced(expression, sp.Sum, terms)


@dataclass(frozen=True)
class ReadMembers:
    """Which members a value reads, found without the value where its indices stand in members alone.

    members: each with the limits of the sums over indices of it; value: where numbers for indices may remove terms, so
    that all of it is asked.
    """

    value: sp.Expr
    members: tuple[tuple[Member, tuple[tuple[sp.Expr, ...], ...]], ...] | None

    @classmethod
    @lru_cache(maxsize=4096)
    def of(cls, value: sp.Expr) -> "ReadMembers":
        """Found once: programs that are rewritten keep most of their values."""
        members = value.atoms(Member)
        limits = {limit for total in value.atoms(sp.Sum) for limit in map(tuple, total.limits)}
        bound = {limit[0] for limit in limits}
        # of their own kind, or what is rebuilt around them would be refused
        hidden = {member: member.func(Str(f"{member.name}_{k}"), *member.args[1:3]) for k, member in enumerate(members)}
        outside = [value.xreplace(hidden), *(total.function.xreplace(hidden) for total in value.atoms(sp.Sum))]
        indices = {s for member in members for s in member.free_symbols} | bound
        within = any(indices & end.free_symbols for limit in limits for end in limit[1:])
        if len(bound) < len(limits) or within or any(indices & one.free_symbols for one in outside):
            return cls(value, None)
        return cls(value, tuple((member, tuple(limit for limit in limits if limit[0] in member.free_symbols))
                                for member in members))

    def at(self, values: Values) -> Iterator[Member]:
        """The members that are read at these values of indices and sizes."""
        if self.members is None:
            yield from write_out(at_numbers(self.value, values)).atoms(Member)
            return
        for member, limits in self.members:
            ranges = (range(int(low.xreplace(values)), int(high.xreplace(values)) + 1) for _, low, high in limits)
            for numbers in product(*ranges):
                yield member.xreplace({**values, **{limit[0]: sp.Integer(k) for limit, k in zip(limits, numbers)}})
