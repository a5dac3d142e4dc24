"""Ket expressions read as coefficients over base kets, by the exact interpreter that knows only definition C.1."""

from __future__ import annotations

from functools import reduce
from operator import add, mul
from typing import Any, Mapping

import numpy as np
import sympy as sp

from tpcalc.calculus.kets import Bracket, Dot, Hat, Ket, Response
from tpcalc.interpreters.program_coefficients import ProgramCoefficients
from tpcalc.programs.language import Moment, Vec, kind


def in_kets(expression: sp.Expr, run: ProgramCoefficients, numbers: Mapping[sp.Expr, Any]) -> Any:
    """The value of a ket expression, (bases,) or a number; ``numbers``: those of its free symbols."""
    return _value(expression.subs(numbers), run)


def _value(node: sp.Expr, run: ProgramCoefficients) -> Any:
    if node.is_number and not node.args:
        return float(node)
    if isinstance(node, Ket):
        return run.ket(node.vector)
    if isinstance(node, (Hat, Dot)):
        return run.ket(node)
    if isinstance(node, Bracket):
        return run.bracket(*node.args)
    if isinstance(node, Response):
        return run.ket(node.vector)[run.bases.index(node.base)]
    if isinstance(node, sp.Sum):
        (index, first, last), = node.limits
        terms = (_value(node.function.subs(index, i), run) for i in range(int(first), int(last) + 1))
        return reduce(add, terms, 0.0)
    if isinstance(node, Moment):
        return run.bracket(*node.args[0].args)
    if isinstance(node, (sp.Add, sp.Mul)) and node.has(Ket, Hat, Dot, Bracket, Response, Moment):
        return reduce(add if isinstance(node, sp.Add) else mul, (_value(part, run) for part in node.args))
    if node.has(Vec) and kind(node) == "vector":
        return run.ket(node)
    if node in run.scalars:
        return float(run.scalars[node])
    return float(node)


def difference(before: sp.Expr, after: sp.Expr, run: ProgramCoefficients, numbers: Mapping[sp.Expr, Any]) -> float:
    """Between the two sides of a step, relative."""
    ours, theirs = (np.asarray(in_kets(side, run, numbers), dtype=float) for side in (before, after))
    return float(np.max(np.abs(ours - theirs)) / max(1.0, float(np.max(np.abs(theirs)))))
