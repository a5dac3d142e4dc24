"""Two readings of one program agree where both apply."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Callable, Mapping

import numpy as np

from .._types import ProgramData, Sizes, Value
from ..data.losses import AnyLoss
from ..interpreters.given import NotRational
from ..interpreters.program_coefficients import read_program_coefficients
from ..interpreters.vectors import run_program
from ..programs.language import Vector
from ..programs.program import Program
from .programs import ProgramExample

ROUNDING = 1e-12
Values = dict[Value, Value]


def assert_interpreters_agree(program: Program | ProgramExample, sizes: Sizes | None = None, data: ProgramData = {},
                              loss: AnyLoss = "mse",
                              *, seeds: int = 12, width: int = 500, errors: float = 8.0,
                              readings: Mapping[str, Callable[..., Value]] = {}) -> None:
    """Assert that all readings of a linear program give one answer for its scalars and the brackets of its vectors.

    program: a ``tp.Program`` with its sizes and data, or what ``linear_programs()`` draws, which has both.
    The coefficients in floats are compared with those in rationals (skipped where a number is not rational) and with
    ``readings`` to 1e-12 of the largest value, and with the mean over real networks of ``width``, seeds 0, 1, ...,
    to ``errors`` standard errors; the mean has a bias of order 1/width, so that ``seeds`` must stay well below the
    width (0 leaves real networks out).

    readings: by name, functions of (program, sizes, data) whose result has a mapping ``scalars``, or is one, from
    members such as f[0] to numbers; those that both know are compared, at least one.

    Raises ``AssertionError`` naming the reading, the quantity and both values.
    """
    if isinstance(program, ProgramExample):
        if sizes is not None or data:
            raise ValueError("sizes, data: given beside a ProgramExample, which has its own; expected nothing")
        return assert_interpreters_agree(program.program, dict(program.sizes), dict(program.data), loss,
                                         seeds=seeds, width=width, errors=errors, readings=readings)
    if sizes is None:
        raise ValueError("sizes: got None; expected the values of the program's sizes, such as {T: 3}")
    floats = read_program_coefficients(program, sizes, data, loss)
    vectors = floats.vectors
    expected = _values(floats, vectors)
    size = max((abs(value) for value in expected.values()), default=1.0) or 1.0
    try:
        exact = read_program_coefficients(program, sizes, data, loss, exact=True)
    except NotRational:
        pass
    else:
        _assert_within(expected, _values(exact, vectors), "exact", lambda key: ROUNDING * size)
    for name, reading in readings.items():
        result = reading(program, sizes, data)
        theirs: Value = getattr(result, "scalars", result)
        shared = {key: value for key, value in theirs.items() if key in expected}
        if not shared:
            raise AssertionError(f"reading {name!r} gives none of the scalars {sorted(map(str, floats.scalars))}")
        _assert_within(expected, shared, name, lambda key: ROUNDING * size)
    if seeds:
        assert_real_networks_agree(program, sizes, data, loss, expected, vectors, seeds, width, errors, size)


def assert_real_networks_agree(program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss,
                               expected: Values, vectors: tuple[Vector, ...], seeds: int, width: int, errors: float,
                               size: float) -> None:
    """The mean over ``seeds`` networks of every value, to ``errors`` standard errors."""
    runs = [_values(run_program(program, sizes, data, width, seed, loss), vectors) for seed in range(seeds)]
    mean = {key: float(np.mean([run[key] for run in runs])) for key in expected}
    error = {key: float(np.std([run[key] for run in runs], ddof=1)) / np.sqrt(seeds) for key in expected}
    _assert_within(expected, mean, f"mean of {seeds} networks of width {width}",
                   lambda key: errors * error[key] + 1e-9 * size)


def _values(reading: Value, vectors: tuple[Vector, ...]) -> Values:
    """Every scalar and every bracket, by member and by pair of members."""
    pairs = combinations_with_replacement(vectors, 2)
    return {**reading.scalars, **{(u, v): reading.bracket(u, v) for u, v in pairs}}


def _assert_within(expected: Values, found: Values, name: str, allowed: Callable[[Value], float]) -> None:
    for key, value in found.items():
        difference = abs(float(value) - expected[key])
        if not difference <= allowed(key):
            what = "<{}|{}>".format(*key) if isinstance(key, tuple) else str(key)
            raise AssertionError(f"{what}: coefficients {expected[key]!r}, {name} {float(value)!r}; the difference "
                                 f"{difference:.2e} is more than {allowed(key):.2e}")
