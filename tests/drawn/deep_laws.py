"""Laws that hold for every training program with layers, whatever its shape: limits and verdicts are right or refused.

Each law takes a program and raises ``AssertionError`` with the program and both numbers where it is broken, or
``Refused`` where tpcalc refuses the program in a sentence.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Callable

import numpy as np
import sympy as sp

from tpcalc._types import Value
from tpcalc.calculus import kets
from tpcalc.lowering.recursions.recursion import Recursion, recursion
from tpcalc.errors import Divergence
from tpcalc.interpreters.steps import check_steps
from tpcalc.limits import LimitRegion, depth_limit
from tpcalc.programs.program import Program
from .drawn_programs import DATA, DeepProgram
from .extrapolation import converges, extrapolate, vanishes
from .refusals import Refused, refused_or
from drawn.rewriting import renamed, with_named_products
from .rolled import read_rolled

DEPTHS, TIED_DEPTHS = (16, 32, 64, 128, 256), (8, 16, 32, 64)
RESOLVED = 0.05  # an extrapolation whose error is a larger part of its value says little


@lru_cache(maxsize=64)
def finite_outputs(example: DeepProgram, depths: tuple[int, ...]) -> np.ndarray:
    """Outputs of a linear program at its point, exactly, shape (depths, steps); infinite where they overflow."""
    found = np.full((len(depths), example.steps), np.inf)
    for row, depth in zip(found, depths):
        try:
            row[:] = read_rolled(example.program, example.sizes(depth), example.data).series("f")
        except Divergence:
            break  # deeper ones overflow too
    return found


def depths_of(example: DeepProgram) -> tuple[int, ...]:
    """Doubled depths that take about a second: products with one matrix for all layers cost more."""
    return TIED_DEPTHS if example.recipe.sweep.tied else DEPTHS


@lru_cache(maxsize=8)
def derived_recursion(example: DeepProgram) -> Recursion:
    """The recursion of a linear program at its point."""
    return recursion(kets(example.at_point()))


@lru_cache(maxsize=8)
def derived_region(example: DeepProgram) -> LimitRegion:
    """The only region of a linear program's depth limit at its point."""
    region, = depth_limit(derived_recursion(example)).regions
    return region


def limit_outputs(region: LimitRegion) -> np.ndarray:
    """The outputs of a region of the drawn programs' data."""
    return np.asarray(region.compile()(DATA["xi"], DATA["y"]).outputs)


def assert_limit_agrees(example: DeepProgram) -> None:
    """Assert that a linear program's depth limit is what its outputs converge to.

    The limit is compared with outputs at doubled depths, divided by the derived power of L and extrapolated with the
    derived rate, to three times the extrapolation's own error; where there is none, outputs must not converge.
    Raises ``Refused`` where the limit is refused, or its equations are.
    """
    region = refused_or(derived_region, example)
    depths = depths_of(example)
    values = finite_outputs(example, depths)
    shown = ", ".join(f"L = {depth}: {row}" for depth, row in zip(depths, values))
    largest = np.max(np.abs(values), axis=1)
    if not region.has_limit:
        assert not converges(values) or "decays" in region.reason and vanishes(largest), (
            f"{example}\n  no limit derived ({region.reason}), yet outputs converge: {shown}")
        return
    exponent = refused_or(lambda: region.exponents)[("f",)]
    if exponent is -sp.oo:
        assert vanishes(largest), f"{example}\n  outputs vanish, as derived; at finite depth {shown}"
        return
    power, rate = float(exponent), float(region.rate)
    found = refused_or(limit_outputs, region)
    assert rate > 0, f"{example}\n  has a limit, with the rate {rate}"
    scaled = values / np.array(depths, dtype=float)[:, None] ** power
    expected, error = extrapolate(depths, scaled, rate)
    size = float(np.max(np.abs(expected)))
    off = float(np.max(np.abs(found - expected)))
    assert off <= 3 * error + 1e-9 * size and (converges(scaled) or off <= RESOLVED * size), (
        f"{example}\n  derived limit {found}\n  extrapolated  {expected} +- {error:.1e} with the derived rate {rate}, "
        f"of outputs divided by L^({power})\n  at finite depth {shown}")
    if error > RESOLVED * size:
        raise Refused(f"not resolved: the extrapolation errs by {error / size:.0e} of the limit")


def assert_names_do_not_matter(example: DeepProgram) -> None:
    """Assert that a linear program's depth limit is the same under other names and with names for all its products.

    Raises ``Refused`` where the limit is refused under all names alike.
    """
    other = renamed(with_named_products(example.at_point()))
    one, two = _summary(lambda: derived_region(example)), _summary(lambda: _region(other))
    assert _same(one, two), f"{example}\n{other}\n  as drawn: {_shown(one)}\n  in other words: {_shown(two)}"
    if isinstance(one, Refused):
        raise one


def _region(program: Program) -> LimitRegion:
    region, = depth_limit(recursion(kets(program))).regions
    return region


def _summary(ask: Callable[[], LimitRegion]) -> Value:
    """What a limit says that does not depend on names, or the refusal."""
    try:
        region = refused_or(ask)
        if not region.has_limit:
            return "no limit"
        outputs = refused_or(limit_outputs, region)
        power = next(value for kind, value in region.exponents.items() if len(kind) == 1)
        return f"rate {region.rate}, f ~ L^({power})", outputs
    except Refused as refusal:
        return refusal


def _shown(summary: Value) -> str:
    return f"refused: {summary}" if isinstance(summary, Refused) else str(summary)


def _same(one: Value, other: Value) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        scale = max(1.0, float(np.max(np.abs(other[1]))))
        return one[0] == other[0] and bool(np.max(np.abs(one[1] - other[1])) < 1e-7 * scale)
    return one == other or isinstance(one, Refused) and isinstance(other, Refused)


def assert_recursion_agrees(example: DeepProgram, depth: int = 4) -> None:
    """Assert that the derived recursion of a linear program, read uncompiled, gives the program's outputs.

    Raises ``Refused`` where the derivation or the kernel refuses.
    """
    compiled = refused_or(refused_or(derived_recursion, example).compile)
    python = replace(compiled, kernel=compiled.kernel.py_func)  # type: ignore[attr-defined]
    xi, y = example.data["xi"], example.data["y"]
    found = refused_or(python, depth, xi, y).outputs
    expected = read_rolled(example.program, example.sizes(depth), example.data).series("f")
    off, size = np.max(np.abs(found - expected)), np.max(np.abs(expected))
    assert off <= 1e-11 * size, f"{example}\n  at L = {depth}: recursion {found}\n  program {expected}"


def assert_steps_hold(example: DeepProgram, depth: int = 2) -> None:
    """Assert that every step of the derivation of a linear program's recursion holds on numbers.

    Raises ``Refused`` where the derivation is refused.
    """
    data = {name: example.data[name] for name in ("xi", "y")}
    for check in refused_or(check_steps, refused_or(derived_recursion, example), example.sizes(depth), data):
        assert check.difference <= 1e-9, (
            f"{example}\n  at L = {depth} a step is off by {check.difference:.1e} {check.problem}\n"
            f"  {check.step}\n  before: {check.step.before}")
