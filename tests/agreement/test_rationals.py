"""Random linear programs in rationals, where nothing is rounded, against the same programs in floats."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from tpcalc.interpreters.program_coefficients import read_program_coefficients
from tpcalc.testing import linear_programs
from tpcalc.testing.programs import ProgramExample

ROUNDING = 1e-13  # of the largest value
MANY = int(os.environ.get("TPCALC_PROGRAMS", "10000"))


def largest_error(example: ProgramExample) -> float | None:
    """Over scalars and brackets of all vectors, relative to the largest; None where there is nothing to compare."""
    floats = read_program_coefficients(*example)
    exact = read_program_coefficients(*example, exact=True)
    vectors = floats.vectors
    pairs = [(floats.scalars[name], exact.scalars[name]) for name in floats.scalars]
    pairs += [(floats.bracket(one, two), exact.bracket(one, two))
              for i, one in enumerate(vectors) for two in vectors[:i + 1]]
    if not pairs:
        return None
    one, two = np.array(pairs, dtype=float).T
    assert np.all(np.isfinite(one))
    return float(np.max(np.abs(one - two)) / (np.max(np.abs(two)) or 1.0))


@settings(max_examples=40)
@given(linear_programs())
def test_floats_are_the_rationals(example: ProgramExample) -> None:
    error = largest_error(example)
    assert error is None or error < ROUNDING


@pytest.mark.slow
def test_ten_thousand_programs() -> None:
    """Prints how many were compared, how many had nothing to compare, and the largest error."""
    errors: list[float | None] = []

    @settings(max_examples=MANY, suppress_health_check=list(HealthCheck))
    @given(linear_programs())
    def compared(example: ProgramExample) -> None:
        errors.append(largest_error(example))
        assert errors[-1] is None or errors[-1] < ROUNDING

    compared()
    found = [error for error in errors if error is not None]
    print(f"\n{len(errors)} programs, {len(found)} compared, largest error {max(found):.1e} of the largest value")
    assert len(found) > 0.9 * MANY
