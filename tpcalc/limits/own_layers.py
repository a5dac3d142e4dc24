"""Vectors that one layer makes for itself, at the layer of the loop that makes them.

A backward pass may call what layer l sends down a vector of layer l - 1. Where no other layer of the pass reads it,
that is a choice of names; the rules compare layers of vectors with layers of matrices, so the choice is taken back.
"""

from __future__ import annotations

from dataclasses import replace
import sympy as sp

from ..programs.language import Vector
from ..programs.program import Assign, Loop, Location, Program, mapped


def at_own_layers(program: Program) -> Program:
    """The program with vectors that only the layer reads which makes them at that layer, wherever they are read."""
    shifts = _shifts(program)

    def moved(e: sp.Expr) -> sp.Expr:
        return e.xreplace({v: v.at(*(sp.expand(i - by) for i, by in zip(v.indices, shift)))
                           for target, shift in shifts for v in e.atoms(Vector) if v.same_family(target)})

    if not shifts:
        return program
    return replace(program, body=mapped(program.body, lambda s: [Assign(moved(s.target), moved(s.value))]))


def _shifts(program: Program) -> list[tuple[Vector, tuple[sp.Expr, ...]]]:
    """Vectors at another layer than their loop's, and by how much, where no layer reads them but their own."""
    everywhere = program.locations()
    locations = [p for p in everywhere if isinstance(p.statement.target, Vector)]
    found: list[tuple[Vector, tuple[sp.Expr, ...]]] = []
    for location in locations:
        target = location.statement.target
        alone = sum(target.same_family(other.statement.target) for other in locations) == 1
        if not alone or not location.loops or any(target.same_family(v) for v in program.vectors):
            continue
        layer = location.loops[-1].index
        shift = tuple(index - layer if layer in index.free_symbols else sp.Integer(0) for index in target.indices)
        if any(shift) and all(by.is_Integer
                              for by in shift) and not _is_carried(target, location.loops[-1], everywhere):
            found.append((target, shift))
    return found


def _is_carried(target: Vector, loop: Loop, locations: list[Location]) -> bool:
    """Does a layer of the loop read the vector of another layer?"""
    return any(v.same_family(target) and v != target
               for p in locations if loop in p.loops for v in p.statement.value.atoms(Vector))
