"""Layers taken k at a time: a program whose streams alternate between layers as one in which none does.

Layer k (l - 1) + i becomes sublayer i of layer l, with families of its own, so that x[l] = x[l - 2] + ... is two
streams that meet in every layer. The depth is then a multiple of k.
"""

from __future__ import annotations

from dataclasses import replace

import sympy as sp
from sympy.core.symbol import Str

from ..errors import NotCovered
from ..programs.language import Matrix, Member, Vector
from ..programs.program import Assign, Loop, Program, Statement, assignments, loops_in
from ..programs.indices import made_name


def interleaved(program: Program, depth: sp.Symbol, k: int) -> Program:
    """The program with k of its layers in one, ``depth`` being the number of these.

    Raises ``ValueError`` for loops over layers that are not all from the same first one to L or back, for sums over
    layers inside a statement, and for data with a layer index.
    """
    start = min((end for p in program.locations() for loop in p.loops for end in (loop.first, loop.last)
                 if end.is_Integer and (loop.first.has(depth) or loop.last.has(depth))), default=sp.Integer(1))

    def outside(s: Assign) -> tuple[Statement, ...]:
        if s.value.has(sp.Sum):
            raise NotCovered(f"program {program.name}: a sum over layers in {s}; streams that alternate between layers "
                             "are taken apart where every layer has matrices of its own")
        return (Assign(_renamed(s.target, None), _scaled(_renamed(s.value, None))),)

    def over_layers(loop: Loop) -> tuple[Statement, ...]:
        ends = (depth, start) if loop.descending else (start, depth)
        if (loop.first, loop.last) != ends or any(loops_in(loop.body)):
            raise NotCovered(f"program {program.name}: a loop over {loop.index} from {loop.first} to {loop.last}; "
                             "streams that alternate between layers are taken apart where every loop over layers runs "
                             f"from {start} to {depth} or back")
        order = range(k, 0, -1) if loop.descending else range(1, k + 1)
        body = []
        for i in order:
            at = {loop.index: k * (loop.index - 1) + i}  # a shift of layers is one of order 1/L
            here = (loop.index, i)
            body += [Assign(_renamed(s.target, here), _scaled(_renamed(s.value, here), at))
                     for s in assignments(loop.body)]
        ends = (depth, sp.Integer(1)) if loop.descending else (sp.Integer(1), depth)
        return (replace(loop, first=ends[0], last=ends[1], body=tuple(body)),)

    def unrolled(s: Statement) -> tuple[Statement, ...]:
        if isinstance(s, Assign):
            return outside(s)
        if s.first.has(depth) or s.last.has(depth):
            return over_layers(s)
        return (replace(s, body=tuple(one for inner in s.body for one in unrolled(inner))),)

    def _scaled(value: sp.Basic, at: dict[sp.Symbol, sp.Expr] | None = None) -> sp.Expr:
        """L -> k L and l -> k (l - 1) + i outside of members' indices."""
        if isinstance(value, Member) or not value.args:
            return {**(at or {}), depth: k * depth}.get(value, value)
        return sp.expand_power_base(value.func(*(_scaled(part, at) for part in value.args)))

    def _renamed(value: sp.Expr, at: tuple[sp.Symbol, int] | None) -> sp.Expr:
        return value.xreplace({m: _member(m, at) for m in value.atoms(Member)})

    def _member(m: Member, at: tuple[sp.Symbol, int] | None) -> sp.Expr:
        if not isinstance(m, (Vector, Matrix)) or not int(m.args[2]):
            if any(i.has(depth) or at is not None and i.has(at[0]) for i in m.indices):
                raise NotCovered(f"program {program.name}: {m} has a layer among its indices; streams that alternate "
                                 "between layers are taken apart for vectors and matrices whose layer is a superscript")
            return m
        location = m.indices[-1]
        if at is not None and location.has(at[0]):
            block, shift = at[0], int(location - at[0]) + at[1]
        elif location.has(depth):
            block, shift = depth, int(location - depth) + k
        else:
            block, shift = sp.Integer(0), int(location - start + 1) + k
        number = (shift - 1) % k + 1
        name, latex = made_name(m.name, number), r"{%s}_{(%d)}" % (m.args[1], number)
        return m.func(Str(name), Str(latex), m.args[2], *m.indices[:-1], block + (shift - number) // k)

    matrices: list[Matrix] = []
    for m in program.matrices:
        layered = isinstance(m, Matrix) and int(m.args[2]) and not m.indices[-1].is_number
        if not layered:
            matrices.append(m)
            continue
        index = m.indices[-1]
        matrices += [_member(m, (index, i)).at(*m.indices[:-1], index) for i in range(1, k + 1)]  # type: ignore
    body = tuple(u for s in program.body for u in unrolled(s))
    return replace(program, body=body, matrices=tuple(matrices))
