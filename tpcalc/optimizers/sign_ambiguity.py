"""Updates that the sign of a gradient decides, which may vanish: of rounding, or of a fluctuation."""

from __future__ import annotations

from typing import Sequence

import sympy as sp

from ..programs.indices import t
from .muon import Muon
from .normalized import NormalizedSGD
from .sgd import SGD
from .updates import Optimizer


def first_undecided(opt: Optimizer, vanishes: Sequence[bool], size: float, share: float) -> int | None:
    """The first step whose update changes by more than a share of order one with the sign of its gradient, None where
    there is none.

    vanishes: by step, whether its gradient is of that size, and not of order one. Steps whose rate is 0 move nothing.

    >>> import tpcalc as tp
    >>> [first_undecided(opt, [False, True, True], 1e-15, 1e-6) for opt in (tp.SignSGD(), tp.Adam(), tp.Lion(beta2=0))]
    [1, None, 2]
    """
    rates = opt.schedule(len(vanishes) + 1)
    last: int | None = None
    steps: list[int] = []

    def is_felt(step: int) -> bool:
        return depends_on_sign(opt, size, None if last is None else step - last) > share

    for step, gone in enumerate([*vanishes, False]):
        if not gone:
            if steps and is_felt(steps[-1]):  # by then least is remembered
                return next(one for one in steps if is_felt(one))
            last, steps = step, []
        elif rates[step]:
            steps.append(step)
    return None


def depends_on_sign(opt: Optimizer, size: float, remembered: int | None = None) -> float:
    """How much of an update of order one the sign of gradients of that size changes, at the first step or, where there
    was one of order one, ``remembered`` steps after it.

    >>> import tpcalc as tp
    >>> [round(depends_on_sign(opt, 1e-3), 3) for opt in (tp.SGD(), tp.SignSGD(), tp.Muon(), tp.Adam(eps=1e-3))]
    [0.002, 2.0, 2.0, 1.0]
    """
    if isinstance(opt, (Muon, NormalizedSGD)):
        left = 0.0 if remembered is None else float(opt.momentum) ** remembered
        return 2.0 * size / max(left, size)
    if isinstance(opt, SGD):
        return 2.0 * size

    def moved(sign: int) -> float:
        def gradient(k: sp.Expr) -> sp.Expr:
            return sp.Piecewise((1, sp.And(remembered is not None, k <= 0)), (sp.Float(sign * size), True))
        return float(opt.direction(gradient, t).subs(t, remembered or 0).doit())

    return abs(moved(1) - moved(-1))


def follows_size(opt: Optimizer) -> float | None:
    """How much of the first update changes where its gradient, of order one, doubles: 0 where it has a direction alone;
    None where that is not known.

    >>> import tpcalc as tp
    >>> [round(follows_size(opt), 3) for opt in (tp.SGD(), tp.SignSGD(), tp.Muon(), tp.Adam(eps=1))]
    [1.0, 0.0, 0.0, 0.333]
    """
    if isinstance(opt, (Muon, NormalizedSGD)):
        return 0.0
    if isinstance(opt, SGD):
        return 1.0
    once, twice = (opt.direction(lambda k: sp.Float(size), t).subs(t, 0).doit() for size in (1.0, 2.0))
    return float(abs(twice - once) / abs(once)) if once.is_number and twice.is_number and once != 0 else None
