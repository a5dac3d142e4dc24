"""Optimizers of one family of matrices, over all layers or over parts of them, with coefficients in t and l."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

import sympy as sp

from tpcalc.programs.indices import L, l, t
from tpcalc.programs.language import Family, Matrix
from tpcalc.programs.program import Assign, Loop, Statement
from .layer_sweep import LayerSweep


@dataclass(frozen=True)
class Rule:
    """W <- kept W - rate buffer, buffer <- momentum buffer + g gradient; all three may depend on t and l."""

    rate: sp.Expr
    momentum: sp.Expr = sp.Integer(0)
    kept: sp.Expr = sp.Integer(1)


def layers(sweep: LayerSweep, count: int, part: int) -> tuple[sp.Expr, sp.Expr]:
    """The first and the last layer of one of ``count`` parts, 1 or 2: all layers, or halves."""
    middle = sp.floor(L / 2)
    return (sp.Integer(sweep.first) if part == 0 else middle + 1), (middle if part + 1 < count else L)


def initial_buffers(sweep: LayerSweep, name: str, rules: Sequence[Rule]) -> list[Statement]:
    """Momentum buffers start at 0."""
    found: list[Statement] = []
    for part, rule in enumerate(rules):
        if rule.momentum != 0:
            start = Assign(_buffer(sweep, name, sp.Integer(0)), sp.Integer(0))
            found.append(start if name in sweep.tied else Loop(l, *layers(sweep, len(rules), part), (start,)))
    return found


def updates(sweep: LayerSweep, name: str, gradient: sp.Expr, size: sp.Expr, rules: Sequence[Rule]) -> list[Statement]:
    """The updates of one family by g = ``size`` times gradients, a loop over layers for each part.

    What a tied matrix gets is the mean over its layers, so that one depth scaling suits it and other matrices.
    """
    old, new, buffer = (of(sweep, name, step) for of, step in ((LayerSweep.weights, t), (LayerSweep.weights, t + 1),
                                                               (_buffer, t + 1)))
    found: list[Statement] = []
    for part, rule in enumerate(rules):
        rate, move = rule.rate, size * gradient
        if name in sweep.tied:
            move, rate = size / L * sp.Sum(rate * gradient, (l, sweep.first, L)), sp.Integer(1)
        statements = []
        if rule.momentum != 0:
            statements.append(Assign(buffer, rule.momentum * _buffer(sweep, name, t) + sp.expand(move)))
            move = buffer
        statements.append(Assign(new, rule.kept * old - rate * sp.expand(move)))
        if name in sweep.tied:
            found += statements
        else:
            found.append(Loop(l, *layers(sweep, len(rules), part), tuple(statements)))
    return found


def _buffer(sweep: LayerSweep, name: str, step: sp.Expr) -> Matrix:
    return Family(Matrix, "m" + name)[step] if name in sweep.tied else Family(Matrix, "m" + name, layered=True)[step, l]
