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
    positions are one axis of arrays.
    """
    found: list[tuple[tuple[sp.Symbol, ...], list[Statement]]] = []
    of_others = set[str]()
    for one in statements:
        over = _positions(one.target)
        others = {str(read.name) for read in one.value.atoms(Member)
                  if _positions(read) != over[:len(_positions(read))]}
        if not found or found[-1][0] != over or others or str(one.target.name) in of_others:
            found.append((over, []))
            of_others = set()
        of_others |= others
        found[-1][1].append(one)
    return [statement for over, body in found for statement in _looped(over, body)]


def _positions(member: Member) -> tuple[sp.Symbol, ...]:
    return tuple(index for index in member.indices if index in (p, m))


def _looped(over: tuple[sp.Symbol, ...], body: list[Statement]) -> list[Statement]:
    for index in reversed(over):
        body = [Loop(index, sp.Integer(0), POSITIONS - 1, tuple(body))]
    return body
