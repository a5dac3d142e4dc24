"""How far the best learning rate moves with the width, from the expansion in 1/n and not from a sweep.

Over initializations the loss of networks of width n has the mean l(eta) + m(eta) / n, where m = l' b + tr(l'' Sigma) /
2 of the outputs' bias b and covariance Sigma / n. Where these are sampled, nearby rates share their draws, so that the
derivative of m is a mean over draws, of which each has one.

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Sequence

import numpy as np

from .._types import Fields, Value
from ..data.losses import derivative
from ..errors import NotCovered
from ..methods.particles import Particles
from ..results.run import Run
from ..results.sampled import joint_error
from ..training.problem import Problem
from .best_rate import STEP, BestOfLimit, MovedRates, best_rate, curvature_of, require_expansion, run_of, runs_about

SLOPE = 1e-4  # in outputs, of central differences of a loss derivative
SEEDS = 4     # of limits that are sampled, beside the one that is used

Parts = tuple[np.ndarray, ...]  # of n times what the loss is above the limit's, by draws each


@dataclass(frozen=True, repr=False)
class WidthTransfer(MovedRates):
    """The best learning rate of networks of a width, at several depths, to first order in 1/n: eta* (1 + c / n).

    As ``tpcalc.studies.best_rate.MovedRates``, its limits infinite width at each depth. depths: (d,); widths: (w,);
    excess: (d,) n times what the loss of networks of width n is above the limit's in the mean; drift_error: (d,) how
    far c may be off with 95% confidence where it is sampled, by chance and, at infinite depth, by the finite depths of
    the samples; learning_rate_error: (d,) the same of the limit's best rate. 0 where nothing is sampled.

    >>> import tpcalc as tp
    >>> task = tp.Task([1, 1], [1, 1])
    >>> found = tp.transfer(tp.ResNet(), task, tp.SGD(1.0), tp.DepthScaling(), [4], [0.2, 0.5, 1.0], widths=[64, 256])
    >>> found.optimum.shape, found.cost.shape, found.drift_error.tolist(), found.resolved.tolist()
    ((1, 2), (1, 2, 2), [0.0], [True])
    """

    depths: tuple[Value, ...]
    widths: np.ndarray
    drift_error: np.ndarray
    learning_rate_error: np.ndarray

    @property
    def distance(self) -> np.ndarray:
        """(w,): 1 / n."""
        return np.asarray(1 / self.widths)

    @property
    def resolved(self) -> np.ndarray:
        """(d,): is the drift larger than its error? Where it is not, optima and costs say no more than their size."""
        return np.asarray(np.abs(self.drift) > self.drift_error)

    @property
    def rows(self) -> list[Fields]:  # type: ignore[override]
        """One dictionary a depth and width: depth, width, optimum, loss, the cost of the narrowest one's rate, and the
        drift with its error, or "not resolved"."""
        return list({"depth": str(depth), "width": int(n), **self._row(i, j),
                     "drift": f"{self.drift[i]:.4g} +- {self.drift_error[i]:.2g}" if self.resolved[i]
                     else f"not resolved: within {self.drift_error[i]:.2g} of {self.drift[i]:.2g}"}
                    for i, depth in enumerate(self.depths) for j, n in enumerate(self.widths))


def width_transfer(problems: Sequence[Problem], rates: np.ndarray, widths: Sequence[int]) -> WidthTransfer:
    """The best rates of problems that differ by their depth; rates: growing factors, between which the best one is.

    Raises ``NotCovered`` where no expansion in 1/n is known, and ``ValueError`` where the least loss is at an end of
    the rates.
    """
    for problem in problems:
        _require_known(problem, float(rates[0]))
    rate, drift, loss, excess, curvature, *errors = map(np.array, zip(*(_of_problem(one, rates) for one in problems)))
    return WidthTransfer(rate, drift, loss, excess, curvature, tuple(one.depth for one in problems), np.array(widths),
                         *errors)


def _require_known(problem: Problem, rate: float) -> None:
    """By one training."""
    require_expansion(problem, "widths", "the drift of the best rate with the width", linear=False)
    try:
        run_of(problem, rate).fluctuations
    except NotCovered as unknown:
        raise NotCovered(f"widths: got some with {problem.net!r}, and the drift of the best rate with the width takes "
                         f"the expansion in 1/n: {unknown}") from None


def _of_problem(problem: Problem, rates: np.ndarray) -> tuple[float, ...]:
    """Rate, drift, loss, excess, curvature and the errors of drift and rate."""
    best = best_rate(partial(run_of, problem), rates, f"at depth {problem.depth}")
    parts = [_excess(run, run) for run in best.runs]
    told = best.runs[1].fluctuations.told
    slope, error = told(_slopes(parts))
    by_limit, rate_error = 0.0, 0.0
    if best.runs[1].method == Particles.name:
        by_limit, rate_error = _errors_by_limit(problem, best, _bend([told(one)[0] for one in parts]))
    return (best.rate, best.drift(slope), best.loss, told(parts[1])[0], best.curvature,
            float(np.hypot(error / best.curvature, by_limit)), rate_error)


def _errors_by_limit(problem: Problem, best: BestOfLimit, bend: float) -> tuple[float, float]:
    """How far the drift and the best rate may be off because the limit is sampled: by the spread of what others of its
    kind say, at their own best rates. bend: the second derivative of m in the logarithm of the rate."""
    drifts, moves = [], []
    for seed in range(1, SEEDS + 1):
        runs = runs_about(partial(run_of, problem, method=Particles(seed=seed)), best.rate)
        curvature, slope = curvature_of(runs), (runs[2].losses[-1] - runs[0].losses[-1]) / (2 * STEP)
        own, _ = best.runs[1].fluctuations.told(_slopes([_excess(*pair) for pair in zip(best.runs, runs)]))
        drifts.append(-(own - bend * slope / curvature) / curvature)
        moves.append(-best.rate * slope / curvature)
    by_limit, rate_error = (joint_error(np.array([np.std(one, ddof=1)]), SEEDS) for one in (drifts, moves))
    return by_limit, rate_error


def _slopes(parts: Sequence[Parts]) -> Parts:
    """The derivatives in the logarithm of the rate, draw by draw."""
    below, _, above = parts
    return tuple((more - less) / (2 * STEP) for less, more in zip(below, above))


def _bend(values: Sequence[float]) -> float:
    return float(np.diff(values, 2)[0] / STEP**2)


def _excess(run: Run, limit: Run) -> Parts:
    """m: n times the change of the last step's mean loss at width n, with the outputs of a limit."""
    task = run.problem.of_vectors
    f, y = limit.outputs[-1], task.targets[-1]
    nearby = SLOPE * np.eye(task.d_out)
    curvatures = np.stack([(derivative(task.loss, f + one, y) - derivative(task.loss, f - one, y)) / (2 * SLOPE)
                           for one in nearby], axis=-1)
    return run.fluctuations.excess(derivative(task.loss, f, y) / task.batch, curvatures / task.batch)
