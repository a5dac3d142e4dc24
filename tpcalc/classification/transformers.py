"""Verdicts on transformers: sizes of streams, scores and updates, matrix by matrix, over the first update."""

from __future__ import annotations

from dataclasses import replace
from typing import Sequence

import sympy as sp

from ..calculus import KetEquations
from ..orders import Cell, Region, Sort, join
from ..parametrizations import DepthScaling, Scaling
from ..programs import Transformer
from ..programs.updates import Optimizer
from .counted import ASSUMED, UNNORMED
from .matrices import MatrixVerdicts, terms_of
from .optimized import as_gradient_descent
from .verdict import Verdict, judge

SCORES = {"score at initialisation": (Sort.KET, 0), "change of score": (Sort.CHANGE, 1)}


def of_transformer(net: Transformer, scale: Scaling, opt: Optimizer) -> Verdict:
    """The verdict on a transformer whose ends are not trained, with a sentence a matrix and what it takes for granted.

    Raises ``ValueError`` for what cannot be counted, naming it: exponents that are not rational, weight decay, norms of
    q and k, one position alone, attention of a user's own with functions that have no rule.
    """
    alpha, gamma = scale.alpha, scale.gamma if isinstance(scale, DepthScaling) else None
    linear, same = as_gradient_descent(net, opt, scale)
    if linear.weight_decay:
        raise ValueError(f"weight_decay: {linear.weight_decay} given; updates scale matrices, and with them what "
                         "softmax and activations act on, allowed for a transformer is 0")
    terms, matrices = terms_of(net, same), MatrixVerdicts(net, same)
    cell, exponents = terms.together()
    grown = exponents.x_init.at(()) > 0 or bool(exponents.explosions)
    if not grown:
        exponents = replace(exponents, linearisation=matrices.linearisation())
    found = judge(alpha, gamma, Region(0), exponents, matrices, ())
    counted = found.stable_at_init  # a stream that grows before training is no place for updates to start from
    scores = _scores(terms.equations, cell, (0, 1) if counted else (0,))
    said = [f"{name}: {power}" for name, power in scores.items()]
    of_matrices = map(str, matrices.values()) if counted else ()
    taken = [UNNORMED] * (net.norm is None) + [ASSUMED]
    return replace(found, exponents={**found.exponents, **scores},
                   reasons=(*found.reasons, *said, *of_matrices, *taken))


def name_on_transformer(net: Transformer, scale: Scaling) -> str:
    """The name of the verdict by plain gradient descent, for which no matrix needs to be counted by itself.

    >>> name_on_transformer(Transformer(mlp=None), DepthScaling(1, 0))
    'ODE limit'
    """
    _, exponents = terms_of(net, scale).together()
    return judge(scale.alpha, None, Region(0), exponents, None, ()).name


def _scores(equations: KetEquations, cell: Cell, steps: Sequence[int]) -> dict[str, sp.Expr]:
    """Powers of L of the score that softmax acts on, where there is one, and of its change, at some steps."""
    numbers = [number for number, v in enumerate(equations.setting.families) if v.name == "score"]
    return {name: _size(cell, sort, step, numbers) for name, (sort, step) in SCORES.items()
            if step in steps} if numbers else {}


def _size(cell: Cell, sort: Sort, step: int, numbers: Sequence[int]) -> sp.Expr:
    return join(e for key, e in cell.exponents.items() if (key.sort, key.step) == (sort, step)
                and key.number in numbers).at(())
