"""Data and targets of the passes of a training, as arrays."""

from __future__ import annotations

from typing import Mapping

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike

from ..._checks import finite_array
from ...calculus.setting import Setting
from ...programs.language import LossDerivative
from ...programs.program import Program


def numbers_by_pass(setting: Setting, inputs: ArrayLike, targets: ArrayLike, data: Mapping[str, ArrayLike]
                    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A program's data by name, and targets: an axis for every index that the program's numbers have.

    Raises ``ValueError`` for what does not fit.
    """
    program = setting.program
    names = [scalar.name for scalar in program.data]
    if set(data) != set(names[1:]):
        raise ValueError(f"data: got {sorted(data)}; expected {sorted(names[1:])}")
    y = finite_array("targets", targets)
    arrays = {name: finite_array(name, value) for name, value in zip(names, (inputs, *data.values()))}
    output = next(node for location in program.locations() for node in location.statement.value.atoms(LossDerivative))
    lengths = _lengths(program)
    sizes = dict(zip((lengths[index][1] for index in output.indices), y.shape))
    for name, array, indices in [("targets", y, output.indices), *((one.name, arrays[one.name], one.indices)
                                                                   for one in program.data)]:
        expected = tuple(sizes.get(size, size) for _, size in map(lengths.__getitem__, indices))
        if array.shape != expected or not array.size:
            shape = ", ".join(f"{size} {role}" for (role, _), size in zip(map(lengths.__getitem__, indices), expected))
            raise ValueError(f"{name}: got shape {array.shape} and targets of shape {y.shape}; expected {shape}")
    return arrays, y


def _lengths(program: Program) -> dict[sp.Symbol, tuple[str, sp.Expr]]:
    """What an index counts, and how many there are: a number, or a symbol of the program's."""
    words = {"clock": "steps", "sample": "samples", "width": "coordinates"}
    found = {}
    ranges = [(one.index, *one.bounds) for location in program.locations() for one in location.loops]
    ranges += [limits for location in program.locations() for one in location.statement.value.atoms(sp.Sum)
               for limits in one.limits]
    roles = program.index_roles()
    for index, first, last in ranges:
        size = last - first + 1
        found[index] = words.get(roles.get(index, ""), "numbers"), int(size) if size.is_Integer else size
    return found
