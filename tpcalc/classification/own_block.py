"""Named recipes on a block nearer to their source's: two matrices behind a norm, each with what is set for it."""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from ..parametrizations import Parametrization
from ..programs import ResNet
from .by_matrix import MatrixAudit, audit_parametrization
from .recipe import named, realise

MLP = ResNet("relu", "mlp", norm="rms")  # of a transformer's layer: W2 phi(W1 x / rms(x))


def audit_on_mlp(name: str, optimizer: str = "adam") -> MatrixAudit:
    """Audit a named recipe on a transformer's MLP, x + eps W2 relu(W1 x / rms(x)); ``.verdict`` is that of the whole.

    Both matrices have the recipe's rate, eps and branch multiplier; an initialisation that goes down with the depth is
    that of the last matrix of a branch alone, as sources have it. The norm is that of root mean squares, without gains;
    attention is another block, and weight decay is left out. Behind a norm the stream of a branch of order one grows
    like a power of the depth and does not explode. optimizer: for recipes that are solved for one, such as "depth-mup".

    Raises ``ValueError`` for unknown names, for recipes that no power of L for one matrix can say, and where verdicts
    on single matrices are asked for, behind the norm. Source: ``tp.recipe(name).source``.

    >>> print(audit_on_mlp("gpt-2").verdict.where)
    alpha = 1/2, gamma of W1 = 1/2, gamma of W2 = -1/2
    """
    entry = named(name)
    if entry.outside:
        raise ValueError(f"name: {name!r} given, {entry.outside}")
    last = realise(entry.target, optimizer) if entry.target is not None else entry.choices
    assert last is not None
    raw = {"W1": replace(last, init=sp.Integer(0)), "W2": last}
    return audit_parametrization(Parametrization(depth=raw), MLP)
