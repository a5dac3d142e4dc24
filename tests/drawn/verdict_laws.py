"""Laws of verdicts: exponents of L are the slopes that training shows, and no name changes them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Mapping, Sequence

import numpy as np
import sympy as sp

from tpcalc._types import Fields, Number, Value
from tpcalc.calculus import kets
from tpcalc.verdicts.classify import classify
from tpcalc.verdicts.exponents import exponents_of
from tpcalc.verdicts.verdict import Verdict
from tpcalc.lowering.recursions.recursion import recursion
from tpcalc.errors import Divergence
from reference.particles import run_particles
from tpcalc.limits import depth_limit
from tpcalc.scaling import DepthScaling
from tpcalc.optimizers import SGD
from tpcalc.models import ResNet
from tpcalc.training.builders import program as training_of
from tpcalc.programs.language import LossDerivative, MatVec, Member, Vector
from tpcalc.programs.program import Program
from .deep_blocks import drawn_net
from .drawn_programs import Recipe, with_numbers
from .extrapolation import explodes, falls, powers_of_corrections, slope, vanishes
from .refusals import Refused, refused_or
from drawn.rewriting import with_named_products
from .rolled import MOST_KETS, read_rolled

TASK = {"xi": [0.5, 0.5], "y": [-0.25, -0.25]}  # a small step: large ones show their powers at larger depths only
CLEAR = sp.Rational(1, 8)
SAMPLES, BATCHES = 4096, 2
OTHERS = (1, 2, 3)  # seeds that a drawn size which is off is drawn with again: of 1500 some are off by three errors
SLACK = 0.05
NAMES = ("x at initialization", "h at initialization", "change of f", "change of x", "change of h")


def trained_program(net: ResNet | Program, alpha: Number, gamma: Number) -> Program:
    """The training by SGD that a verdict is about, with numbers for the depth scaling."""
    if isinstance(net, ResNet):
        net = training_of(net, SGD(1.0), DepthScaling(alpha, gamma))
    else:
        numbers = {s: value for s in _symbols(net) for name, value in (("alpha", alpha), ("gamma", gamma))
                   if s.name == name}
        net = with_numbers(net, numbers)
    return net


def _symbols(program: Program) -> set[sp.Symbol]:
    return set().union(*(location.statement.value.free_symbols for location in program.locations()))


def measured_sizes(program: Program, depth: int, exact: bool, seed: int = 0) -> dict[str, float]:
    """Root mean squares over coordinates after two steps on one input, by the names that a verdict gives them.

    x is the vector that the output reads; h are the products with matrices on the way there, the largest of the last
    two layers, for streams may alternate, and of one in the first half, for optimizers may differ.
    exact: read a linear program exactly; others are sampled. Raises ``Divergence`` where a value is not finite.
    """
    sizes = {size: depth if size.name == "L" else 2 for size in program.sizes}
    products, x = _forward(program)
    ends = {size: sp.Integer(value) for size, value in sizes.items()}

    def member(v: Vector, step: int, below: int) -> Member:
        layer = v.indices[1]
        return v.at(step, (ends[layer] if layer in ends else depth) - below)

    locations = [(x, 0), *((v, below) for v in products for below in (0, 1, depth - depth // 4))]
    pairs = {(v, below): (member(v, 0, below), member(v, 1, below)) for v, below in locations}
    if exact:
        reading = read_rolled(program, sizes, TASK)
        kets = {at: [reading.vector(m.name, *map(int, m.indices)) for m in pair] for at, pair in pairs.items()}
        start = {at: reading.size(a) for at, (a, b) in kets.items()}
        change = {at: reading.size(b - a) for at, (a, b) in kets.items()}
        f = reading.series("f")
    else:
        run = run_particles(program, sizes, TASK, SAMPLES, seed, BATCHES)
        start = {at: np.sqrt(run.bracket(a, a)) for at, (a, b) in pairs.items()}
        change = {at: np.sqrt(run.bracket(b - a, b - a)) for at, (a, b) in pairs.items()}
        f = run.series("f")
    return dict(zip(NAMES,
                    (start[x, 0], max(start[location] for location in locations[1:]), abs(f[1] - f[0]), change[x, 0],
                     max(change[location] for location in locations[1:]))))


def _forward(program: Program) -> tuple[list[Vector], Vector]:
    """The products before the loss, and the vector of the last layer that the output reads."""
    products: list[Vector] = []
    for location in program.locations():
        statement = location.statement
        if statement.value.has(LossDerivative):
            break
        if isinstance(statement.value, MatVec):
            products.append(statement.target)
        if statement.target.name == "f":
            x = next(v for v in statement.value.atoms(Vector) if len(v.indices) > 1)
    return products, x


def depths_for(program: Program, exact: bool, deepest: int = 1024) -> list[int]:
    """The deeper half of 2^4, ..., 2^10, and halfway between them, or as far as ``deepest`` and products allow.

    Sampled to 2^8 at most.
    """
    products = sum(isinstance(node, MatVec) for location in program.locations()
                   for node in sp.preorder_traversal(location.statement.value))
    largest = min(deepest, MOST_KETS // (4 * products)) if exact else min(deepest, 256)
    top = int(np.log2(largest))
    powers = [2**k for k in range(top - 3, top + 1)]
    return sorted({*powers, *(3 * power // 2 for power in powers[:-1])})


@lru_cache(maxsize=64)
def walls(net: ResNet) -> tuple[tuple[tuple[sp.Rational, ...], sp.Rational], ...]:
    """The lines of the plane that its regions lie between, as (slopes, constant) of forms that vanish on them."""
    forms = {c.form.scaled() for region, _ in exponents_of(net) for c in region.conditions}
    return tuple((tuple(map(sp.Rational, form.slopes)), sp.Rational(form.constant)) for form in forms)


def is_clear(point: Sequence[sp.Rational], lines: Sequence[tuple[tuple[sp.Rational, ...], sp.Rational]]) -> bool:
    """Is a point on every line, or at least 1/8 away from it?"""
    def distance(slopes: tuple[sp.Rational, ...], constant: sp.Rational) -> sp.Expr:
        length = sp.sqrt(sum(s**2 for s in slopes))
        return abs(sum(s * p for s, p in zip(slopes, point)) + constant) / length if length else sp.Integer(0)
    return all(d == 0 or d >= CLEAR for d in (distance(*line) for line in lines))


def assert_verdict_agrees(net: ResNet | Program, point: tuple[Value, Value], is_linear: bool, shown: str = "",
                          deepest: int = 1024) -> Mapping[str, tuple[Value, float, float]]:
    """Assert that a verdict's exponents are the slopes of what training shows; returns (derived, slope, error) by name.

    Slopes are fitted over the deeper half of the depths, with the derived rate as a correction, and may be off by 0.05
    or three standard errors; an exponent that is a bound may be larger. Sizes that are drawn and off are drawn with
    three other seeds, too, and have to be off in the mean. Raises ``Refused`` where there is no verdict.
    """
    verdict = refused_or(classify, *point, net)
    plain = trained_program(net, *point)
    program = with_named_products(plain)
    depths = depths_for(program, is_linear, deepest)
    rows = _rows(program, depths, is_linear)
    corrections = _corrections(plain, point, is_linear)
    found: dict[str, tuple[Value, float, float]] = {}
    unresolved: list[str] = []
    again: list[list[dict[str, float]]] = []
    for name in NAMES:
        sizes = np.array([row[name] for row in rows])
        derived = verdict.exponents[name]
        message = f"{shown or net}\n  at {point}: {verdict.name}\n  {name}: derived L^({derived}), measured "
        message += ", ".join(f"L = {depth}: {size:.5g}" for depth, size in zip(depths, sizes))
        if derived is sp.oo and _is_bound(verdict, name):
            continue
        if derived in (sp.oo, -sp.oo) or not np.all(np.isfinite(sizes)) or not np.all(sizes > 0):
            doubled = sizes[::2]
            if derived is not sp.oo and not np.any(sizes) and _is_bound(verdict, name):
                continue
            if derived is -sp.oo and not vanishes(doubled) and falls(doubled):
                unresolved.append(name)  # exp(-L^(1/4)) is not told from a power that falls beside it
                continue
            assert explodes(doubled) if derived is sp.oo else derived is -sp.oo and vanishes(doubled), message
            continue
        s, error, is_resolved = _resolved(depths, sizes, corrections, is_linear)
        if is_resolved and not is_linear and _is_off(verdict, name, s, error):
            again = again or [rows, *(_rows(program, depths, is_linear, seed) for seed in OTHERS)]
            sizes = np.exp(np.mean([[np.log(row[name]) for row in several] for several in again], axis=0))
            s, error, is_resolved = _resolved(depths, sizes, corrections, is_linear)
        if not is_resolved:  # the power that is fitted is not that of the deepest networks
            unresolved.append(name)
            continue
        found[name] = (derived, s, error)
        assert not _is_off(verdict, name, s, error), f"{message}, slope {s:.3f} +- {error:.3f}"
    if unresolved:
        raise Refused(f"not resolved: powers of {', '.join(unresolved)} still change at {depths[-1]} layers")
    return found


def _rows(program: Program, depths: list[int], exact: bool, seed: int = 0) -> list[dict[str, float]]:
    """Sizes by name at every depth, infinite where they are not finite."""
    rows: list[dict[str, float]] = []
    for depth in depths:
        try:
            rows.append(measured_sizes(program, depth, exact, seed))
        except Divergence:
            rows.append(dict.fromkeys(NAMES, np.inf))
    return rows


def _resolved(depths: list[int], sizes: np.ndarray, corrections: list[float], is_linear: bool
              ) -> tuple[float, float, bool]:
    """The slope, its error, and whether the deepest networks have it, too, where sizes are drawn."""
    s, error = slope(depths, sizes, corrections)
    end = np.log(sizes[-1] / sizes[-3]) / np.log(depths[-1] / depths[-3])
    return s, error, is_linear or abs(s - end) <= SLACK


def _is_off(verdict: Verdict, name: str, s: float, error: float) -> bool:
    """Is a slope another one than the exponent, or above it where that is a bound?"""
    far, allowed = s - float(verdict.exponents[name]), max(SLACK, 3 * error)
    return bool(far > allowed or far < -allowed and not _is_bound(verdict, name))


def _is_bound(verdict: Verdict, name: str) -> bool:
    """Is the exponent labeled as an upper bound?"""
    return name in verdict.bounds


def _corrections(program: Program, point: tuple[Any, Any], is_linear: bool) -> list[float]:
    """The powers of L that may correct squares of sizes: of a linear program sums of its limit's rate and of 1, which
    sums over layers have; of others the first two of the smallest that noise and updates add up to, and 1."""
    rates = {1.0}
    if is_linear:
        try:
            region, = refused_or(lambda: depth_limit(recursion(kets(program)))).regions
            rates |= {float(region.rate)} if region.has_limit else set()
        except Refused:
            pass
    else:
        scale = DepthScaling(*point)
        rates |= {abs(float(power)) for power in (scale.noise_exponent, scale.drift_exponent)}
    found = sorted(rate for rate in rates if 0 < rate <= 1)
    return powers_of_corrections(found[0], 4 if is_linear else 2)  # more are lost in noise


def assert_verdict_ignores_names(recipe: Recipe) -> Verdict:
    """Assert that a drawn block has one verdict, whatever its vectors and matrices are called, with a name for its last
    product or without. Raises ``Refused`` where there is none under any name."""
    nets = {"as drawn": drawn_net(recipe), "in other words": drawn_net(recipe, "q", not recipe.named)}
    found: Fields = {}
    for name, net in nets.items():
        try:
            verdict = refused_or(classify, *recipe.point, net)
            found[name] = {"verdict": verdict.name, **verdict.exponents}
        except Refused as refusal:
            found[name] = refusal
    first = found["as drawn"]
    for name, one in found.items():
        same = one == first or isinstance(one, Refused) and isinstance(first, Refused)
        assert same, f"{recipe}\n  as drawn: {first}\n  {name}: {one}"
    if isinstance(first, Refused):
        raise first
    return refused_or(classify, *recipe.point, nets["as drawn"])
