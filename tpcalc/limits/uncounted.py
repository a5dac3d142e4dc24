"""What a program may have of which powers of L are not counted, found in its statements."""

from __future__ import annotations

import sympy as sp

from ..errors import NotCovered
from ..programs.language import LossDerivative, MatVec, Mean, Vector
from ..programs.program import Location, Program


def normed_products(program: Program) -> tuple[str, ...]:
    """The names of vectors that a layer makes with a matrix and divides by a power of a mean of their coordinates.

    The stream, read from the layer before, is none of them: what it is divided by grows as it does.
    """
    made: set[str] = set()
    found: dict[str, None] = {}
    for location in program.locations():
        if location.statement.value.has(LossDerivative):  # the way back divides by the same means
            break
        if location.statement.value.has(MatVec) or any(v.name in made for v in _of_own_layer(location)):
            made.add(location.statement.target.name)
        for power in location.statement.value.atoms(sp.Pow):
            if power.base.has(Mean) and power.exp.is_negative:
                inside = {v for v in power.base.atoms(Vector) if v.name in made and v in _of_own_layer(location)}
                found.update(dict.fromkeys(sorted(v.name for v in inside)))
    return tuple(found)


def require_no_explosion(program: Program, explodes: bool) -> None:
    """Raise ``ValueError`` where a program that divides what a matrix makes by its own size is said to explode."""
    normed = normed_products(program)
    if normed and explodes:
        raise NotCovered(f"program {program.name}: {', '.join(normed)}, made by a matrix, is divided by its own size, "
                         "and what is counted of the two apart explodes; whether they do together no rule says; "
                         "expected norms of the stream (norm_position='pre'), or other exponents")


def _of_own_layer(location: Location) -> set[Vector]:
    """The vectors that a statement reads with the indices of its target."""
    return {v for v in location.statement.value.atoms(Vector) if v.indices == location.statement.target.indices}
