"""Programs whose layers are visited several times, with every visit's vectors as families of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Iterator

import sympy as sp
from sympy.core.symbol import Str

from .._checks import instance, whole_number
from .indices import VISITS
from .language import Member
from .made_names import made_name
from .program import Assign, Loop, Program, Statement, mapped
from .read_members import write_out


def visits_apart(program: Program, visits: int) -> Program:
    """The program with the loop over visits written out: x[t, c, l] is x(1)[t, l], x(2)[t, l], ... .

    So a matrix acts on several vectors in a layer, and no index but layers' runs over layers: recursions and limits of
    infinite depth are derived of this form, at a number of visits. visits: how many, instead of N. A program without
    visits stays as it is. Raises ``ValueError`` for what is no program, and no whole number of at least 1.

    >>> import tpcalc as tp
    >>> program = tp.program(tp.ResNet(visits=2), tp.SGD(), tp.DepthScaling(1, 0))
    >>> print(*[line.strip() for line in str(visits_apart(program, 2)).splitlines() if "@ x" in line], sep=chr(10))
    x(1)[t, l] := x(1)[t, l - 1] + (W[t, l] @ x(1)[t, l - 1])/(2*L)
    x(2)[t, l] := x(2)[t, l - 1] + (W[t, l] @ x(2)[t, l - 1])/(2*L)
    """
    instance("program", program, Program)
    visits = whole_number("visits", visits, 1)
    indices = {index for index, role in program.index_roles().items() if role == "visit"}
    if not indices:
        return program
    slots = {(type(one), one.name): k for location in program.locations()
             for one in (location.statement.target, *location.statement.value.atoms(Member))
             for k, index in enumerate(one.indices) if index.free_symbols & indices}

    def named(one: sp.Expr) -> sp.Expr:
        slot = slots.get((type(one), one.name))
        if slot is None:
            return one
        before, visit, after = one.indices[:slot], one.indices[slot], one.indices[slot + 1:]
        made = Str(made_name(one.name, visit)), Str(f"{{{one.args[1]}}}^{{({visit})}}")
        return one.func(*made, one.args[2], *before, *after)

    def written(value: sp.Expr) -> sp.Expr:
        at_number = value.subs(VISITS, visits).replace(
            lambda e: isinstance(e, sp.Sum) and any(limit[0] in indices for limit in e.limits), terms)
        return at_number.replace(lambda e: isinstance(e, Member), named)

    def terms(total: sp.Sum) -> sp.Expr:
        """Those over visits; sums over others stay."""
        over = [limit for limit in total.limits if limit[0] in indices]
        rest = [limit for limit in total.limits if limit[0] not in indices]
        return write_out(sp.Sum(total.function, *rest, *over))

    def around(loop: Loop, body: tuple[Statement, ...]) -> Iterator[Statement]:
        if loop.index not in indices:
            yield replace(loop, body=body)
            return
        for visit in loop.steps({VISITS: sp.Integer(visits)}):
            yield from (inner.at({loop.index: sp.Integer(visit)}) for inner in body)

    body = mapped(mapped(program.body, lambda s: (s,), around),
                  lambda s: (Assign(written(s.target), written(s.value)),))
    return replace(program, body=body, sizes=tuple(size for size in program.sizes if size != VISITS),
                   meaning={one: said for one, said in program.meaning.items() if one != VISITS},
                   roles={index: role for index, role in program.roles.items() if index not in indices})
