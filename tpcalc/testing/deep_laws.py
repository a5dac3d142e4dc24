"""Laws that hold for every training program with layers, whatever its shape: limits and verdicts are right or refused.

Each law takes a program and raises ``AssertionError`` with the program and both numbers where it is broken, or
``Refused`` where tpcalc refuses the program in a sentence.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from ..calculus import kets
from ..codegen.recursion import recursion
from ..errors import Divergence
from ..interpreters.steps import check_steps
from ..limits import DepthLimit, LimitRegion, depth_limit
from ..programs.program import Program
from .drawn_programs import DATA, DeepProgram
from .extrapolation import converges, extrapolate
from .refusals import Refused, refused_or
from .rewriting import renamed, with_named_products
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


def has_limit(example: DeepProgram) -> bool:
    """Do the outputs of a linear program converge, as far as finite depths tell?"""
    return converges(finite_outputs(example, depths_of(example)[:-1]))


def derived_limit(program: Program) -> DepthLimit:
    """The depth limit of a linear program."""
    return depth_limit(recursion(kets(program)))


def limit_outputs(region: LimitRegion) -> np.ndarray:
    """The outputs of a region of the drawn programs' data."""
    return np.asarray(region.compile()(DATA["xi"], DATA["y"]).outputs)


def assert_limit_agrees(example: DeepProgram) -> None:
    """Assert that a linear program's depth limit is what its outputs converge to.

    The limit is compared with outputs at doubled depths, divided by the derived power of L and extrapolated with the
    derived rate, to three times the extrapolation's own error; where there is none, outputs must not converge.
    Raises ``Refused`` where the limit is refused, or its equations are.
    """
    region, = refused_or(derived_limit, example.at_point()).regions
    depths = depths_of(example)
    values = finite_outputs(example, depths)
    shown = ", ".join(f"L = {depth}: {row}" for depth, row in zip(depths, values))
    if region.obstacle is not None and region.obstacle.kind == "decays":
        sizes = np.max(np.abs(values), axis=1)
        falls = sizes[1:] / sizes[:-1]
        assert np.all(np.diff(falls) < 0) and falls[-1] < 1, f"{example}\n  said to decay faster than L^-k: {shown}"
        return
    if not region.has_limit:
        assert not converges(values), f"{example}\n  no limit derived ({region.reason}), yet outputs converge: {shown}"
        return
    power, rate = (float(value) for value in (refused_or(lambda: region.exponents)[("f",)], region.rate))
    found = refused_or(limit_outputs, region)
    assert rate > 0, f"{example}\n  has a limit, with the rate {rate}"
    scaled = values / np.array(depths, dtype=float)[:, None] ** power
    expected, error = extrapolate(depths, scaled, rate)
    size = float(np.max(np.abs(expected)))
    off = float(np.max(np.abs(found - expected)))
    assert off <= 3 * error + 1e-9 * size and (converges(scaled) or off <= RESOLVED * size), (
        f"{example}\n  derived limit {found}\n  extrapolated  {expected} +- {error:.1e} with the derived rate {rate} of "
        f"outputs divided by L^({power})\n  at finite depth {shown}")
    if error > RESOLVED * size:
        raise Refused(f"not resolved: the extrapolation errs by {error / size:.0e} of the limit")


def assert_names_do_not_matter(example: DeepProgram) -> None:
    """Assert that a linear program's depth limit is the same under other names and with names for all its products.

    Raises ``Refused`` where the limit is refused under all names alike.
    """
    base = example.at_point()
    programs = {"as drawn": base, "renamed": renamed(base), "with named products": with_named_products(base)}
    found: dict[str, Any] = {name: _summary(program) for name, program in programs.items()}
    for name, one in found.items():
        same = _same(one, found["as drawn"])
        assert same, f"{example}\n  as drawn: {found['as drawn']}\n  {name}: {one}\n{programs[name]}"
    if isinstance(found["as drawn"], Refused):
        raise found["as drawn"]


def _summary(program: Program) -> Any:
    """What a limit says that does not depend on names, or the refusal."""
    try:
        region, = refused_or(derived_limit, program).regions
        if not region.has_limit:
            return "no limit"
        outputs = refused_or(limit_outputs, region)
        power = next(value for kind, value in region.exponents.items() if len(kind) == 1)
        return f"rate {region.rate}, f ~ L^({power})", outputs
    except Refused as refusal:
        return refusal


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        scale = max(1.0, float(np.max(np.abs(other[1]))))
        return one[0] == other[0] and bool(np.max(np.abs(one[1] - other[1])) < 1e-7 * scale)
    return one == other or isinstance(one, Refused) and isinstance(other, Refused)


def assert_recursion_agrees(example: DeepProgram, depth: int = 4) -> None:
    """Assert that the derived recursion of a linear program, read uncompiled, gives the program's outputs.

    Raises ``Refused`` where the derivation or the kernel refuses.
    """
    derived = refused_or(lambda: recursion(kets(example.program)))
    compiled = refused_or(derived.compile)
    python = replace(compiled, kernel=compiled.kernel.py_func)  # type: ignore[attr-defined]
    data = {name: value for name, value in example.data.items() if name not in ("xi", "y")}
    found = refused_or(python, depth, example.data["xi"], example.data["y"],
                       **{name: data[name] for name in compiled.parameters}).outputs
    expected = read_rolled(example.program, example.sizes(depth), example.data).series("f")
    off, size = np.max(np.abs(found - expected)), np.max(np.abs(expected))
    assert off <= 1e-11 * size, f"{example}\n  at L = {depth}: recursion {found}\n  program {expected}"


def assert_steps_hold(example: DeepProgram, steps: int = 3, depth: int = 3) -> None:
    """Assert that every step of the derivation of a linear program's recursion holds on numbers.

    Raises ``Refused`` where the derivation is refused.
    """
    derived = refused_or(lambda: recursion(kets(example.program)))
    data = {**example.data, "xi": DATA["xi"][:steps], "y": DATA["y"][:steps]}
    for check in refused_or(check_steps, derived, {"T": steps, "L": depth}, data):
        assert check.difference <= 1e-9, (
            f"{example}\n  at T = {steps}, L = {depth} a step is off by {check.difference:.1e} {check.problem}\n"
            f"  {check.step}\n  before: {check.step.before}")
