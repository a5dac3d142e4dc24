"""Statements about positions of a sequence, in loops over them."""

from __future__ import annotations

from typing import Iterable

import sympy as sp

from ..programs.indices import POSITIONS, m, p
from ..programs.language import Member
from ..programs.program import Assign, Loop, Statement


def at_positions(statements: Iterable[Assign]) -> list[Statement]:
    """Statements for all positions p, or pairs (p, m), that their targets have; those without stay as they are.

    Statements share loops as long as all that they read there is of the own position: what is read of another one has
    been assigned for all before. Nor does a loop assign a family of which it reads other positions, so that all
    positions are one axis of arrays. States that go from position to position have a loop of their own, upwards where
    they are made and downwards where what is sent back to them is.
    """
    found: list[tuple[tuple[sp.Symbol, ...], list[Statement]]] = []
    states, last, of_others = set[tuple[object, ...]](), False, set[str]()
    for one in statements:
        over = _positions(one.target)
        if one.target.has(p + 1) or POSITIONS in one.target.indices:
            states.add(one.target.family_key)
        is_state = one.target.family_key in states and bool(over)
        others = {str(read.name) for read in one.value.atoms(Member)
                  if _positions(read) != over[:len(_positions(read))]}
        alone = others or str(one.target.name) in of_others or last and not is_state
        if not found or found[-1][0] != over or alone:
            found.append((over, []))
            of_others = set()
        of_others |= others
        found[-1][1].append(one)
        last = is_state
    return [statement for over, body in found for statement in _looped(over, body)]


def _positions(member: Member) -> tuple[sp.Symbol, ...]:
    return tuple(index for one in member.indices for index in (p, m) if one in (index, index + 1))


def _looped(over: tuple[sp.Symbol, ...], body: list[Statement]) -> list[Statement]:
    assigned = [one for one in body if isinstance(one, Assign)]
    down = any(p + 1 in read.indices for one in assigned for read in one.value.atoms(Member))
    for index in reversed(over):
        first, last = sp.Integer(0), POSITIONS - 1
        body = [Loop(index, last, first, tuple(body), True) if down else Loop(index, first, last, tuple(body))]
    return body
