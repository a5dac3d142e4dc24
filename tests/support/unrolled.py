"""Programs run statement by statement, from given weights: the oracle of lowered programs."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np

from tpcalc.interpreters.vectors import VectorExecution
from tpcalc.programs.language import Matrix, Member
from tpcalc.programs.program import Program


class FromWeights(VectorExecution):
    """``weights``: {family: array over its free indices, from ``first`` on}."""

    weights: Mapping[str, np.ndarray]
    first: Mapping[str, int]

    def normal(self, member: Member, shape: tuple[int, ...]) -> np.ndarray:
        given, = {g for g in (*self.program.vectors, *self.program.matrices) if g.same_family(member)
                  and all(i == j for i, j in zip(g.indices, member.indices) if i.is_number)}
        free = [p for p, i in enumerate(given.indices) if not i.is_number]
        location = tuple(int(member.indices[p]) - self.first.get(member.name, 0) for p in free)
        scale = np.sqrt(self.width) if isinstance(member, Matrix) else 1.0
        return self.weights[member.name][location] * scale


def unrolled(program: Program, sizes: Mapping[Any, int], data: Mapping[Any, Any], width: int,
             weights: Mapping[str, np.ndarray], loss: Any = "mse", first: Mapping[str, int] = {}) -> dict[Member, Any]:
    """Every value that the program assigns or draws, by member."""
    run = FromWeights(program, sizes, data, loss, width, 0)
    run.weights, run.first = weights, first
    run.run()
    return run.assigned
