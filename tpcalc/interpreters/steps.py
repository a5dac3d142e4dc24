"""Derivation steps on numbers: does what stood before a step equal what stands after it?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Mapping

import numpy as np
import sympy as sp

from ..calculus.derivation import Step
from ..calculus.equations import KetEquations
from ..calculus.kets import Bracket, Hat, Ket, Response
from ..programs.program import Place, write_out
from .given import sizes_of
from .program_coefficients import ProgramCoefficients, read_program_coefficients


@dataclass(frozen=True)
class StepCheck:
    """The largest difference that one step of a derivation shows on numbers, over all indices of its place.

    difference: relative to the values themselves; cases: how many index values were tried.
    """

    step: Step
    difference: float
    cases: int


def check_steps(equations: KetEquations, sizes: Mapping[Any, int], data: Mapping[Any, Any],
                loss: Any = "mse") -> tuple[StepCheck, ...]:
    """Evaluate every step that leads to a ket or a scalar of a linear program, exactly at infinite width.

    Both sides are read with ``read_program_coefficients`` at every training step, sample and layer of the
    statement they belong to. Steps about matrices are checked where they act. Raises ``ValueError`` for programs
    whose optimizer has a memory that is not a plain sum: their coefficients are not numbers of the program.
    """
    reading = read_program_coefficients(equations.setting.program, sizes, data, loss)
    numeric = sizes_of(equations.setting.program, sizes)
    places = {e.target: e.place for e in equations.equations}
    found = []
    for step in equations.derivation.steps:
        if step.left in places:
            found.append(_check(reading, step, places[step.left], numeric))
    return tuple(found)


def _check(reading: ProgramCoefficients, step: Step, place: Place, sizes: Mapping[sp.Symbol, int]) -> StepCheck:
    worst, cases = 0.0, 0
    for values in _indices(place, dict(sizes)):
        sides = [_evaluate(reading, side, values) for side in (step.left, step.before, step.after)]
        scale = max(1.0, *(float(np.max(np.abs(side), initial=0.0)) for side in sides))
        worst = max(worst, *(float(np.max(np.abs(side - sides[0]), initial=0.0)) / scale for side in sides[1:]))
        cases += 1
    return StepCheck(step, worst, cases)


def _indices(place: Place, values: dict[sp.Symbol, int]) -> Iterator[dict[sp.Symbol, int]]:
    """All values of a place's loops."""
    def walk(depth: int, known: dict[sp.Symbol, int]) -> Iterator[dict[sp.Symbol, int]]:
        if depth == len(place.loops):
            yield known
            return
        loop = place.loops[depth]
        ends = sorted(int(end.subs(known)) for end in (loop.first, loop.last))
        for value in range(ends[0], ends[1] + 1):
            yield from walk(depth + 1, {**known, loop.index: value})

    yield from walk(0, values)


def _evaluate(reading: ProgramCoefficients, side: sp.Expr, values: Mapping[sp.Symbol, int]) -> np.ndarray:
    """Coefficients over all base kets, of a ket expression at given indices; of a number, the number."""
    expression = write_out(side.subs(values))
    numbers = {b: sp.Float(float(reading.bracket(*b.args)), 17) for b in expression.atoms(Bracket)}
    numbers |= {r: sp.Float(_response(reading, r), 17) for r in expression.atoms(Response)}
    plain = expression.xreplace(numbers)
    return reading.value(plain.xreplace({k: k.vector for k in plain.atoms(Ket)})).astype(float)


def _response(reading: ProgramCoefficients, response: Response) -> float:
    """The coefficient of a base ket in a vector; 0 where the base ket does not exist (yet)."""
    base = response.base if isinstance(response.base, Hat) else response.base.vector
    if base not in reading.bases:
        return 0.0
    return float(reading.ket(response.vector)[reading.bases.index(base)])
