"""How far the best learning rate moves with the width, from the expansion in 1/n and not from a sweep.

Over initializations the loss of networks of width n has the mean l(eta) + m(eta) / n, where m = l' b + tr(l'' Sigma) /
2 of the outputs' bias b and covariance Sigma / n. Where l has its minimum eta*, the best rate of networks of width n
is eta* (1 + c / n) with c = -m'(eta*) / (eta* l''(eta*)), by the implicit function theorem; another rate costs
l'' (eta - eta*)^2 / 2.

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Sequence

import numpy as np
import sympy as sp
import scipy  # its parts are imported where they are used first

from .. import _checks
from .._shown import Short, Tabled, text_table
from .._types import Fields, Value
from ..data.losses import derivative
from ..errors import Divergence, NotCovered
from ..methods.train import train
from ..optimizers import SGD
from ..results.run import Run
from ..training.problem import Problem
from .optimum import grid_optimum

STEP = 1e-3       # in the logarithm of the rate, of central differences
TOLERANCE = 1e-9  # of the rate at the minimum
SLOPE = 1e-4      # in outputs, of central differences of a loss derivative


@dataclass(frozen=True, repr=False)
class WidthTransfer(Tabled, Short):
    """The best learning rate of networks of a width, at several depths, to first order in 1/n.

    widths: (w,); depths: (d,); learning_rate: (d,) factors of the optimizer's own that are best at infinite width;
    drift: (d,) c of eta* (1 + c / n); loss: (d,) there at infinite width; excess: (d,) n times what the loss of
    networks of width n is above it in the mean, at that rate; curvature: (d,) the second derivative of the loss in the
    logarithm of the rate.

    >>> import tpcalc as tp
    >>> task = tp.Task([1, 1], [1, 1])
    >>> found = tp.transfer(tp.ResNet(), task, tp.SGD(1.0), tp.DepthScaling(), [4], [0.2, 0.5, 1.0], widths=[64, 256])
    >>> found.optimum.shape, found.cost.shape
    ((1, 2), (1, 2, 2))
    """

    widths: np.ndarray
    depths: tuple[Value, ...]
    learning_rate: np.ndarray
    drift: np.ndarray
    loss: np.ndarray
    excess: np.ndarray
    curvature: np.ndarray

    @property
    def optimum(self) -> np.ndarray:
        """(d, w): the best learning rate of networks of that width."""
        return self.learning_rate[:, None] * (1 + self.drift[:, None] / self.widths)

    @property
    def cost(self) -> np.ndarray:
        """(d, w, w): what networks of width i lose, in the mean, by the rate that is best at width j: of order 1/n^2,
        where the loss itself is 1/n from its limit, so that rates of narrow networks serve before their losses do."""
        moved = self.drift[:, None] / self.widths
        return np.asarray(self.curvature[:, None, None] / 2 * (moved[:, :, None] - moved[:, None, :]) ** 2)

    @property
    def rows(self) -> list[Fields]:  # type: ignore[override]
        """One dictionary a depth and width: depth, width, optimum, loss, and the cost of the narrowest one's rate."""
        return list({"depth": str(depth), "width": int(n), "optimum": float(self.optimum[i, j]),
                     "loss": float(self.loss[i] + self.excess[i] / n), "cost": float(self.cost[i, j, 0])}
                    for i, depth in enumerate(self.depths) for j, n in enumerate(self.widths))

    def table(self) -> str:
        """The rows as text, a line each."""
        return text_table(self.rows)


def width_transfer(problems: Sequence[Problem], rates: np.ndarray, widths: Sequence[int]) -> WidthTransfer:
    """The best rates of problems that differ by their depth; rates: growing factors, between which the best one is.

    Raises ``NotCovered`` where no expansion in 1/n is known, and ``ValueError`` where the least loss is at an end of
    the rates.
    """
    found = [_of_problem(problem, rates) for problem in problems]
    return WidthTransfer(np.array(widths), tuple(problem.depth for problem in problems), *map(np.array, zip(*found)))


def _of_problem(problem: Problem, rates: np.ndarray) -> tuple[float, ...]:
    """Rate, drift, loss, excess and curvature."""
    if not isinstance(problem.opt, SGD):
        raise NotCovered(f"widths: got some with {_checks.short(problem.opt)}; how the best rate moves with the width "
                         "is known of updates with an expansion in 1/n; expected a tp.SGD")
    problem.net.require_plain("the drift of the best rate with the width", trained_embedding_readout=True)
    problem.net.require_first_outputs("the drift of the best rate with the width is known")
    run_at = partial(_run, problem, problem.opt.schedule(problem.task.steps))
    losses = np.array([_loss(run_at, rate) for rate in rates])
    best = grid_optimum(rates, losses)
    if not best.bracketed:
        raise ValueError(f"learning_rates: got {_checks.short(rates.tolist())} with widths, and the least loss at "
                         f"depth {problem.depth} is at an end of them; expected some on both sides of the best one")
    at = int(np.nanargmin(losses))
    low, high = np.log(rates[[at - 1, at + 1]])
    log_rate = float(scipy.optimize.minimize_scalar(lambda x: _loss(run_at, np.exp(x)), bounds=(low, high),
                                                    method="bounded", options={"xatol": TOLERANCE}).x)
    below, there, above = (run_at(float(np.exp(log_rate + shift))) for shift in (-STEP, 0.0, STEP))
    curvature = (below.losses[-1] - 2 * there.losses[-1] + above.losses[-1]) / STEP**2
    slope = (_excess(above) - _excess(below)) / (2 * STEP)
    return (float(np.exp(log_rate)), float(-slope / curvature), float(there.losses[-1]), _excess(there),
            float(curvature))


def _run(problem: Problem, base: np.ndarray, rate: float) -> Run:
    opt = replace(problem.opt, lr=tuple(base * rate))  # type: ignore[type-var, arg-type]
    return train(replace(problem, opt=opt, width=sp.oo))


def _loss(run_at: partial[Run], rate: float) -> float:
    try:
        return float(run_at(float(rate)).losses[-1])
    except Divergence:
        return float("inf")


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
