"""How far the best learning rate moves with the depth, from the expansion about infinite depth and not from a sweep.

At infinite width the loss of depth L is l(eta) + m(eta) L^-p + ..., with the power p that the calculus derives for the
scaling. What depth does to a training goes by two numbers alone: the noise L eps^2 and the step 1 / L of layer time,
where L eps g stays. Where p < 1 noise that dies out is what is left: m is the derivative of the limit in the noise, at
none. Where p = 1 it is the derivative in 1 / L along the scaling. Both are those of polynomials through exact trainings
near the limit, which the loss is analytic in.

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Sequence

import numpy as np
import sympy as sp

from .. import _checks
from .._types import Fields, Value
from ..errors import NotCovered
from ..propagators.limit_cell import ALPHA, GAMMA, limit_cell, linear_region
from ..results.run import Run
from ..scaling import DepthScaling, Scaling
from ..training.problem import Problem
from .best_rate import STEP, MovedRates, best_rate, require_expansion, run_of

DEPTHS = (32, 64, 128, 256)  # near the limit, or their inverse the noise
HALF = sp.Rational(1, 2)


@dataclass(frozen=True, repr=False)
class DepthTransfer(MovedRates):
    """The best learning rate of networks of a depth, for several scalings, to first order: eta* (1 + c L^-p).

    As ``tpcalc.studies.best_rate.MovedRates``, its limits infinite depth by each scaling. scalings: (k,); powers: (k,)
    p, derived; depths: (d,); drift_error: (k,) how far c may be off, from one training fewer.

    >>> import tpcalc as tp
    >>> task = tp.Task([1, 1], [1, 1])
    >>> found = tp.transfer(tp.ResNet(), task, tp.SGD(1.0), tp.DepthScaling(), [8, 64], [0.2, 0.4, 0.8],
    ...                     from_limit=True)
    >>> found.powers, found.optimum.shape, found.cost.shape
    ((1,), (1, 2), (1, 2, 2))
    """

    scalings: tuple[DepthScaling, ...]
    powers: tuple[sp.Expr, ...]
    depths: np.ndarray
    drift_error: np.ndarray

    @property
    def distance(self) -> np.ndarray:
        """(k, d): L^-p."""
        return np.array([self.depths ** -float(power) for power in self.powers])

    @property
    def rows(self) -> list[Fields]:  # type: ignore[override]
        """One dictionary a scaling and depth: alpha, gamma, depth, optimum, loss, and the cost of the shallowest's
        rate."""
        return list({"alpha": str(scale.alpha), "gamma": str(scale.gamma), "depth": int(depth), **self._row(i, j)}
                    for i, scale in enumerate(self.scalings) for j, depth in enumerate(self.depths))


def depth_transfer(problem: Problem, scales: Sequence[Scaling], depths: Sequence[int], rates: np.ndarray
                   ) -> DepthTransfer:
    """The best rates of a problem by several scalings; rates: growing factors, between which each best one is.

    Raises ``NotCovered`` where the loss has no such expansion that is known, ``Divergence`` where there is no limit,
    and ``ValueError`` where the least loss is at an end of the rates.
    """
    known = []
    for scale in scales:
        if not isinstance(scale, DepthScaling):
            raise NotCovered(f"scalings: got {_checks.short(scale)} with from_limit=True; how the best rate moves with "
                             "the depth is known where all matrices have one update exponent; expected a "
                             "tp.DepthScaling")
        known.append(scale)
    found = [_of_problem(replace(problem, scale=scale, depth=sp.oo)) for scale in known]
    rate, drift, loss, excess, curvature, power, error = zip(*(one(rates) for one in found))
    return DepthTransfer(np.array(rate), np.array(drift), np.array(loss), np.array(excess), np.array(curvature),
                         tuple(known), power, np.array(depths), np.array(error))


def _of_problem(problem: Problem) -> partial[tuple[Value, ...]]:
    """Refused before any work."""
    require_expansion(problem, "from_limit", "the drift of the best rate with the depth")
    cell = limit_cell(problem.depth_scaling, problem.resnet)
    if cell.drift == 0:
        raise NotCovered(f"scalings: got {_checks.short(problem.scale)}, whose updates add up to nothing at infinite "
                         "depth, where no rate is the best one; expected alpha + gamma = 1")
    return partial(_expanded, problem)


def _expanded(problem: Problem, rates: np.ndarray) -> tuple[Value, ...]:
    """Rate, drift, loss, excess, curvature, power and error."""
    scale = problem.depth_scaling
    best = best_rate(partial(run_of, problem), rates, f"at infinite depth by {_checks.short(scale)}")
    power = linear_region(scale.alpha, scale.gamma).rate.subs({ALPHA: scale.alpha, GAMMA: scale.gamma})
    x, near = along_the_noise(scale) if power < 1 else along_the_depth(scale)
    drifts, excess = [], 0.0
    for count in (len(x), len(x) - 1):
        below, excess_there, above = (_slope(problem, run, x[-count:], near[-count:]) for run in best.runs)
        drifts.append(best.drift((above - below) / (2 * STEP)))
        excess = excess_there if count == len(x) else excess
    return best.rate, drifts[0], best.loss, excess, best.curvature, power, abs(drifts[0] - drifts[1])


Near = tuple[np.ndarray, list[tuple[DepthScaling, Value]]]  # x, and the scaling and the depth of each


def along_the_noise(scale: DepthScaling) -> Near:
    """Infinite depth with little noise, in units of what the scaling has at a depth over L^-p."""
    x = 1 / np.array(DEPTHS, dtype=float)
    drift = scale.drift_constant
    noises = scale.noise_constant * x
    return x, [(DepthScaling(HALF, HALF, scale.sign * noise / drift, drift**2 / noise), sp.oo)
               for noise in noises.tolist()]


def along_the_depth(scale: DepthScaling) -> Near:
    """The scaling itself, or above alpha = 1, where noise is of higher order, one with powers of L that are whole."""
    if scale.alpha > 1:
        scale = DepthScaling(3 * HALF, -HALF, scale.sign * scale.drift_constant)
    return 1 / np.array(DEPTHS, dtype=float), [(scale, depth) for depth in DEPTHS]


def _slope(problem: Problem, limit: Run, x: np.ndarray, near: list[tuple[DepthScaling, Value]]) -> float:
    """The derivative in x at 0 of the loss, by the polynomial through the limit and those near it."""
    losses = [run_of(replace(problem, opt=limit.problem.opt, scale=scale, depth=depth), 1.0).losses[-1]
              for scale, depth in near]
    quotients = (np.array(losses) - limit.losses[-1]) / x
    weights = np.array([np.prod([other / (other - one) for other in x if other != one]) for one in x])
    return float(weights @ quotients)
