"""How far the best learning rate moves with the width, from the expansion in 1/n and not from a sweep.

Over initializations the loss of networks of width n has the mean l(eta) + m(eta) / n, where m = l' b + tr(l'' Sigma) /
2 of the outputs' bias b and covariance Sigma / n.

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Sequence

import numpy as np

from .._types import Fields, Value
from ..data.losses import derivative
from ..results.run import Run
from ..training.problem import Problem
from .best_rate import MovedRates, best_rate, require_expansion, run_of

SLOPE = 1e-4  # in outputs, of central differences of a loss derivative


@dataclass(frozen=True, repr=False)
class WidthTransfer(MovedRates):
    """The best learning rate of networks of a width, at several depths, to first order in 1/n: eta* (1 + c / n).

    As ``tpcalc.studies.best_rate.MovedRates``, its limits infinite width at each depth. depths: (d,); widths: (w,);
    excess: (d,) n times what the loss of networks of width n is above the limit's in the mean.

    >>> import tpcalc as tp
    >>> task = tp.Task([1, 1], [1, 1])
    >>> found = tp.transfer(tp.ResNet(), task, tp.SGD(1.0), tp.DepthScaling(), [4], [0.2, 0.5, 1.0], widths=[64, 256])
    >>> found.optimum.shape, found.cost.shape
    ((1, 2), (1, 2, 2))
    """

    depths: tuple[Value, ...]
    widths: np.ndarray

    @property
    def distance(self) -> np.ndarray:
        """(w,): 1 / n."""
        return np.asarray(1 / self.widths)

    @property
    def rows(self) -> list[Fields]:  # type: ignore[override]
        """One dictionary a depth and width: depth, width, optimum, loss, and the cost of the narrowest one's rate."""
        return list({"depth": str(depth), "width": int(n), **self._row(i, j)}
                    for i, depth in enumerate(self.depths) for j, n in enumerate(self.widths))


def width_transfer(problems: Sequence[Problem], rates: np.ndarray, widths: Sequence[int]) -> WidthTransfer:
    """The best rates of problems that differ by their depth; rates: growing factors, between which the best one is.

    Raises ``NotCovered`` where no expansion in 1/n is known, and ``ValueError`` where the least loss is at an end of
    the rates.
    """
    rate, drift, loss, excess, curvature = map(np.array, zip(*(_of_problem(problem, rates) for problem in problems)))
    return WidthTransfer(rate, drift, loss, excess, curvature, tuple(one.depth for one in problems), np.array(widths))


def _of_problem(problem: Problem, rates: np.ndarray) -> tuple[float, ...]:
    """Rate, drift, loss, excess and curvature."""
    require_expansion(problem, "widths", "the drift of the best rate with the width")
    best = best_rate(partial(run_of, problem), rates, f"at depth {problem.depth}")
    below, there, above = map(_excess, best.runs)
    return best.rate, best.drift(below, above), best.loss, there, best.curvature


def _excess(run: Run) -> float:
    """m: n times the change of the last step's mean loss at width n."""
    fluctuations, task = run.fluctuations, run.problem.of_vectors
    bias, f, y = fluctuations.bias[-1], run.outputs[-1], task.targets[-1]
    sigma = np.einsum("ikil->ikl", fluctuations.covariance[-1, :, :, -1])
    nearby = SLOPE * np.eye(task.d_out)
    slopes = np.stack([(derivative(task.loss, f + one, y) - derivative(task.loss, f - one, y)) / (2 * SLOPE)
                       for one in nearby], axis=-1)
    by_bias = np.sum(derivative(task.loss, f, y) * bias, axis=1)
    return float(np.mean(by_bias + np.einsum("ikl,ikl->i", slopes, sigma) / 2))
