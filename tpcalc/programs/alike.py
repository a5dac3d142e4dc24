"""Steps at which all positions are alike: attention has no choice there, and its queries and keys have no gradient."""

from __future__ import annotations

import numpy as np
import sympy as sp

from .._checks import short
from .indices import t
from .muon import Muon
from .normalized import NormalizedSGD
from .optimizers import SGD
from .sequences import Sequences
from .transformer import Transformer
from .updates import Optimizer

ALIKE = 1e-6  # positions that differ by less have gradients of queries and keys that rounding may pass for
ROUNDED = 1e-15  # a gradient that is rounding and nothing else
SHARE = 1e-6  # of an update of order one: by less the sign of rounding decides nothing


def require_choices(net: Transformer, task: Sequences, opt: Optimizer) -> None:
    """Raise ``ValueError`` for a step at which positions of every sequence are alike, with an optimizer that makes an
    update of order one of rounding.

    Softmax attends to alike positions alike, and gradients of its queries and keys vanish: of a single position
    exactly, in every reading, of several within rounding. The last update is read by nobody.
    """
    if net.attention != "softmax" or net.positions == 1:
        return
    normed = net.acts_on_normed or net.qk_norm
    apart = [_apart(xi, normed) for xi in np.asarray(task.inputs)[:-1]]
    if not any(one < ALIKE for one in apart) or not decided_by_rounding(opt):
        return
    first_differing = next((step for step, one in enumerate(apart) if one >= ALIKE), len(apart))
    steps = len(apart) if decided_by_rounding(opt, remembered=True) else first_differing
    for step, one in enumerate(apart[:steps]):
        if one < ALIKE:
            raise ValueError(f"task: at step {step} all positions of every sequence are alike"
                             f"{' behind the norm' if normed else ''}, differing by {one:.1e} at most, given with "
                             f"{short(opt)}; attention has no choice, and its queries and keys no gradient to take a "
                             f"direction from, allowed are at least {ALIKE:.0e}")


def decided_by_rounding(opt: Optimizer, remembered: bool = False) -> bool:
    """Does an update depend on the sign of a gradient that is rounding, at the first step or, where one of order one
    is ``remembered``, at the second?

    >>> import tpcalc as tp
    >>> [decided_by_rounding(opt) for opt in (tp.SGD(), tp.SignSGD(), tp.Lion(), tp.Adam(), tp.Adam(eps=1e-8))]
    [False, True, True, True, False]
    >>> [decided_by_rounding(opt, remembered=True) for opt in (tp.SignSGD(), tp.Lion(), tp.Adam())]
    [True, False, False]
    """
    if isinstance(opt, NormalizedSGD):  # refuses such gradients itself
        return False
    return depends_on_sign(opt, ROUNDED, remembered) > SHARE


def depends_on_sign(opt: Optimizer, size: float, remembered: bool = False) -> float:
    """How much of an update of order one the sign of a gradient of that size changes, at the first step or, where one
    of order one is ``remembered``, at the second.

    >>> import tpcalc as tp
    >>> [round(depends_on_sign(opt, 1e-3), 3) for opt in (tp.SGD(), tp.SignSGD(), tp.Muon(), tp.Adam(eps=1e-3))]
    [0.002, 2.0, 2.0, 1.0]
    """
    if isinstance(opt, (Muon, NormalizedSGD)):
        return 0.0 if remembered and opt.momentum else 2.0
    if isinstance(opt, SGD):
        return 2.0 * size

    def moved(sign: int) -> float:
        def gradient(k: sp.Expr) -> sp.Expr:
            return sp.Piecewise((1, sp.And(remembered, k < t)), (sp.Float(sign * size), True))
        return float(opt.direction(gradient, t).subs(t, int(remembered)).doit())

    return abs(moved(1) - moved(-1))


def _apart(xi: np.ndarray, normed: bool) -> float:
    """How far positions of a sequence are from the first one at most, (batch, positions, d_in), as attention meets
    them."""
    sizes = np.linalg.norm(xi, axis=-1, keepdims=True)
    tokens = xi / (sizes if normed else np.max(sizes, initial=np.finfo(float).tiny))
    return float(np.max(np.abs(tokens - tokens[:, :1])))
