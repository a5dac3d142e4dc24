"""Programs with loops of fixed length written out: inputs and outputs as statements of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterator

import sympy as sp

from .program import Assign, Loop, Program, Statement, mapped


def fixed_indices(program: Program) -> dict[sp.Symbol, range]:
    """The indices of role "width" that run over as many values whatever the sizes are, with these values."""
    widths = {index for index, role in program.index_roles().items() if role == "width"}
    ends = {(loop.index, loop.first, loop.last) for location in program.locations() for loop in location.loops}
    ends |= {limit for location in program.locations() for total in location.statement.value.atoms(sp.Sum)
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

    def around(loop: Loop, body: tuple[Statement, ...]) -> Iterator[Statement]:
        if loop.index not in fixed:
            yield replace(loop, body=body)
        for value in fixed.get(loop.index, ()):
            yield from (inner.at({loop.index: value}) for inner in body)

    body = mapped(program.body, lambda s: (Assign(s.target, written(s.value)),), around)
    vectors = [v for one in program.vectors for v in _members(one, fixed)]
    roles = {index: role for index, role in program.roles.items() if index not in fixed}
    return replace(program, vectors=tuple(vectors), body=body, roles=roles)


def _members(one: sp.Expr, fixed: dict[sp.Symbol, range]) -> list[sp.Expr]:
    found = [one]
    for index, values in fixed.items():
        found = [v.subs(index, value) for v in found for value in (values if index in v.free_symbols else values[:1])]
    return found
