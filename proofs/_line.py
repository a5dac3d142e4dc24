"""The network of Program 1, its derivation, and ways to evaluate it that the entries share."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, Iterable

import numpy as np
import sympy as sp

import tpcalc as tp
from tpcalc.derivations.derivation import Derivation, Step
from tpcalc.interpreters.program_coefficients import ProgramCoefficients, read_program_coefficients

from ._rewriting import Rewriting

PRINTED = Rewriting("as printed", "nothing is rewritten", "the statement", lambda value: value)
NET, OPT = tp.ResNet("linear"), tp.SGD(lr=1.0)
HALF = sp.Rational(1, 2)
DEPTH_MUP = tp.DepthScaling(HALF, HALF)
ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)
GENERAL = tp.DepthScaling(ALPHA, GAMMA)

# a small training in numbers that binary floats hold exactly, for witnesses
XI, Y, DEPTH = (sp.Integer(1), HALF, sp.Integer(-1)), (sp.Integer(1), -HALF, HALF / 2), 4


@lru_cache(maxsize=None)
def kets(scale: tp.DepthScaling = DEPTH_MUP) -> tp.theory.KetEquations:
    return tp.kets(tp.program(NET, OPT, scale))


@lru_cache(maxsize=None)
def recursion(scale: tp.DepthScaling = DEPTH_MUP) -> tp.theory.Recursion:
    return tp.recursion(kets(scale))


@lru_cache(maxsize=None)
def compiled(scale: tp.DepthScaling = DEPTH_MUP) -> Any:
    """The recursion's source as Python runs it, which at these sizes is quicker than to compile it."""
    found = recursion(scale).compile()
    return replace(found, kernel=getattr(found.kernel, "py_func", found.kernel))


def exact(scale: tp.DepthScaling, xi: Any, y: Any, depth: int, rational: bool = True) -> ProgramCoefficients:
    """The program run statement by statement with kets for vectors: Definition C.1 and nothing else."""
    program = tp.program(NET, OPT, scale)
    return read_program_coefficients(program, {"T": len(xi), "L": depth}, {"xi": xi, "y": y}, exact=rational)


@lru_cache(maxsize=None)
def true_outputs(scale: tp.DepthScaling = DEPTH_MUP) -> tuple[float, ...]:
    """f_0, f_1, f_2 of the small training, in rational arithmetic, as floats."""
    run = exact(scale, XI, Y, DEPTH)
    scalars = {str(member): value for member, value in run.scalars.items()}
    return tuple(float(scalars[f"f[{t}]"]) for t in range(len(XI)))


@lru_cache(maxsize=None)
def derived_outputs(scale: tp.DepthScaling = DEPTH_MUP) -> tuple[float, ...]:
    """The derived recursion gives the outputs too."""
    numbers = [[float(v) for v in values] for values in (XI, Y)]
    return tuple(float(f) for f in compiled(scale)(DEPTH, *numbers).outputs)


def random_task(rng: np.random.Generator, steps: int = 4) -> tp.Task:
    return tp.Task(rng.uniform(-1, 1, steps), rng.uniform(-1, 1, steps))


def relative(ours: Any, theirs: Any) -> float:
    """Largest difference, relative to the largest value or 1."""
    ours, theirs = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
    return float(np.max(np.abs(ours - theirs), initial=0.0) / max(1.0, float(np.max(np.abs(theirs), initial=0.0))))


def worst_equation(derived: tp.theory.KetEquations | tp.theory.Recursion, equations: Iterable[Any],
                   sizes: dict[str, int], data: dict[str, Any]) -> float:
    """The largest difference of both sides of equations of a program, at all indices, by the interpreter that knows
    definition C.1 and none of the rules."""
    steps = tuple(Step(number, one.target, one.value, one.value, PRINTED) for number, one in enumerate(equations, 1))
    return worst_step(tp.check_steps(replace(derived, derivation=Derivation(steps)), sizes, data))


def worst_step(checks: tuple[tp.theory.StepCheck, ...]) -> float:
    """The largest difference that any step of a derivation shows on numbers."""
    return max(check.difference for check in checks)
