"""Programs with loops of fixed length written out: inputs and outputs as statements of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterator

import sympy as sp

from .program import Assign, Program, Statement


def fixed_indices(program: Program) -> dict[sp.Symbol, range]:
    """The indices of role "width" that run over as many values whatever the sizes are, with these values."""
    widths = {index for index, role in program.index_roles().items() if role == "width"}
    ends = {(loop.index, loop.first, loop.last) for place in program.places() for loop in place.loops}
    ends |= {limit for place in program.places() for total in place.statement.value.atoms(sp.Sum)
             for limit in map(tuple, total.limits)}
    found = {index: range(int(first), int(last) + 1) for index, first, last in ends
             if index in widths and first.is_Integer and last.is_Integer}
    return {index: values for index, values in found.items()
            if all(end == (index, values[0], values[-1]) for end in ends if end[0] == index)}


def expanded(program: Program) -> Program:
    """The program with the loops and sums over its fixed indices (of inputs, of outputs) written out.

    An initial vector with such an index becomes as many initial vectors. Others, and their loops, stay.

    >>> import tpcalc as tp
    >>> program = tp.program(tp.ResNet(), tp.SGD(1), tp.DepthScaling(), d_in=2)
    >>> program.vectors, expanded(program).vectors
    ((U[j], nV), (U[0], U[1], nV))
    """
    fixed = fixed_indices(program)

    def written(value: sp.Expr) -> sp.Expr:
        return value.replace(lambda e: isinstance(e, sp.Sum) and any(limit[0] in fixed for limit in e.limits), terms)

    def terms(total: sp.Sum) -> sp.Expr:
        (index, *_), = [limit for limit in total.limits if limit[0] in fixed][:1]
        rest = [limit for limit in total.limits if limit[0] != index]
        parts = (total.function.subs(index, value) for value in fixed[index])
        return sp.Add(*(written(sp.Sum(part, *rest) if rest else part) for part in parts))

    def walk(body: tuple[Statement, ...]) -> Iterator[Statement]:
        for statement in body:
            if isinstance(statement, Assign):
                yield Assign(statement.target, written(statement.value))
            elif statement.index not in fixed:
                yield replace(statement, body=tuple(walk(statement.body)))
            else:
                for value in fixed[statement.index]:
                    yield from (_at(inner, statement.index, value) for inner in walk(statement.body))

    vectors = [v for one in program.vectors for v in _members(one, fixed)]
    roles = {index: role for index, role in program.roles.items() if index not in fixed}
    return replace(program, vectors=tuple(vectors), body=tuple(walk(program.body)), roles=roles)


def _members(one: sp.Expr, fixed: dict[sp.Symbol, range]) -> list[sp.Expr]:
    found = [one]
    for index, values in fixed.items():
        found = [v.subs(index, value) for v in found for value in (values if index in v.free_symbols else values[:1])]
    return found


def _at(statement: Statement, index: sp.Symbol, value: int) -> Statement:
    if isinstance(statement, Assign):
        return Assign(statement.target.subs(index, value), statement.value.subs(index, value))
    return replace(statement, body=tuple(_at(inner, index, value) for inner in statement.body))
