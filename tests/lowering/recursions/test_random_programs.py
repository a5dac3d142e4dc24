"""Random linear programs: derived symbolically and compiled = read from their unrolled form."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings

import tpcalc as tp
from tpcalc.interpreters import read_program_coefficients
from tpcalc.programs.language import Scalar
from tpcalc.testing import linear_programs
from tpcalc.testing.programs import ProgramExample


@settings(max_examples=25, deadline=None)
@given(example=linear_programs())
def test_compiled_is_coefficients(example: ProgramExample) -> None:
    """Every scalar of every program: several matrices, transposes, reuse, updates, branch multipliers, with loops
    and without."""
    program, sizes, data = example
    recursion = tp.recursion(tp.kets(program))
    assert all(step.check() for step in recursion.derivation.steps)
    compiled = recursion.compile()
    compiled = replace(compiled, kernel=compiled.kernel.py_func)  # type: ignore[attr-defined]
    names = {str(size): int(value) for size, value in sizes.items()}
    wanted = {name: value for name, value in data.items() if name in (*compiled.data, *compiled.parameters)}
    arrays = compiled.evaluate(**names, **wanted, y=np.zeros(1))
    truth = read_program_coefficients(program, sizes, data)
    for member, value in truth.scalars.items():
        assert isinstance(member, Scalar)
        ours = arrays[member.name][tuple(int(i) for i in member.indices) or 0]
        assert abs(ours - float(value)) < 1e-11 * max(1.0, abs(float(value))), (member, str(program))
