"""The best learning rate of a limit, and how it moves to first order in what a network is away from the limit by.

Where the loss l(eta) of the limit has its minimum eta*, that of l + x m is at eta* (1 + c x), with c = -m'(eta*) /
(eta* l''(eta*)) by the implicit function theorem; a rate eta costs l'' (eta - eta*)^2 / 2 more than the best one.

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Callable, NamedTuple

import numpy as np
import sympy as sp
import scipy  # its parts are imported where they are used first

from .. import _checks
from .._shown import Short, Tabled, text_table
from .._types import Fields
from ..errors import Divergence, NotCovered
from ..methods.method import Method
from ..methods.train import train
from ..optimizers import SGD
from ..results.run import Run
from ..training.problem import Problem
from .optimum import grid_optimum

STEP = 1e-3       # in the logarithm of the rate, of central differences
TOLERANCE = 1e-9  # of the rate at the minimum

RunAt = Callable[[float], Run]  # of a learning rate


class BestOfLimit(NamedTuple):
    """rate: at the least loss of the limit; loss; curvature: the second derivative there in the logarithm of the
    rate; runs: a step of it below, there and a step above."""

    rate: float
    loss: float
    curvature: float
    runs: tuple[Run, Run, Run]

    def drift(self, slope: float) -> float:
        """c, from the derivative of m in the logarithm of the rate."""
        return -slope / self.curvature


@dataclass(frozen=True, repr=False)
class MovedRates(Tabled, Short):
    """The best rates of several limits, (k,), and of networks near them.

    learning_rate: (k,) factors of the optimizer's own that are best in the limits; drift: (k,) c; loss: (k,) the
    limits' least; excess: (k,) m, what the loss moves by at that rate; curvature: (k,) the second derivative of the
    loss in the logarithm of the rate.
    """

    learning_rate: np.ndarray
    drift: np.ndarray
    loss: np.ndarray
    excess: np.ndarray
    curvature: np.ndarray

    @property
    def distance(self) -> np.ndarray:
        """(k, sizes) or (sizes,): x of each network, what it is away from its limit by."""
        raise NotImplementedError

    @property
    def _moved(self) -> np.ndarray:
        return self.drift[:, None] * self.distance

    @property
    def optimum(self) -> np.ndarray:
        """(k, sizes): the best learning rate of networks of that size."""
        return np.asarray(self.learning_rate[:, None] * (1 + self._moved))

    @property
    def cost(self) -> np.ndarray:
        """(k, sizes, sizes): what networks of size i lose, in the mean, by the rate that is best at size j: of second
        order, where the loss itself is one order from its limit, so that rates of small networks serve before their
        losses do."""
        moved = self._moved
        return np.asarray(self.curvature[:, None, None] / 2 * (moved[:, :, None] - moved[:, None, :]) ** 2)

    def _row(self, k: int, size: int) -> Fields:
        x = np.broadcast_to(self.distance, self.optimum.shape)[k, size]
        return {"optimum": float(self.optimum[k, size]), "loss": float(self.loss[k] + self.excess[k] * x),
                "cost": float(self.cost[k, size, 0])}

    def table(self) -> str:
        """The rows as text, a line each."""
        return text_table(self.rows)


def best_rate(run_at: RunAt, rates: np.ndarray, where: str) -> BestOfLimit:
    """The rate of the least loss; raises ``ValueError`` where it is at an end of the rates. where: in words."""
    losses = np.array([_loss(run_at, rate) for rate in rates])
    if not grid_optimum(rates, losses).bracketed:
        raise ValueError(f"learning_rates: got {_checks.short(rates.tolist())}, and the least loss {where} is at an "
                         "end of them; expected some on both sides of the best one")
    at = int(np.nanargmin(losses))
    low, high = np.log(rates[[at - 1, at + 1]])
    log_rate = float(scipy.optimize.minimize_scalar(lambda x: _loss(run_at, np.exp(x)), bounds=(low, high),
                                                    method="bounded", options={"xatol": TOLERANCE}).x)
    below, there, above = runs = runs_about(run_at, float(np.exp(log_rate)))
    return BestOfLimit(float(np.exp(log_rate)), float(there.losses[-1]), curvature_of(runs), (below, there, above))


def runs_about(run_at: RunAt, rate: float) -> tuple[Run, Run, Run]:
    """A step below the rate, there and a step above."""
    below, there, above = (run_at(rate * float(np.exp(shift))) for shift in (-STEP, 0.0, STEP))
    return below, there, above


def curvature_of(runs: tuple[Run, Run, Run]) -> float:
    """The second derivative of the loss in the logarithm of the rate."""
    return float(np.diff([run.losses[-1] for run in runs], 2)[0] / STEP**2)


def run_of(problem: Problem, rate: float, method: str | Method = "auto") -> Run:
    """The training at infinite width by a multiple of the optimizer's own learning rate."""
    lr = tuple(problem.opt.schedule(problem.task.steps) * rate)
    opt = replace(problem.opt, lr=lr)  # type: ignore[type-var]
    return train(replace(problem, opt=opt, width=sp.oo), method=method)


def require_expansion(problem: Problem, name: str, what: str, linear: bool = True) -> None:
    """Raise ``NotCovered`` for networks and optimizers whose expansion is not known; name: of the argument that asks
    for it; what: is known of others; linear: of linear networks alone."""
    if not isinstance(problem.opt, SGD):
        raise NotCovered(f"{name}: got some with {_checks.short(problem.opt)}; {what} is known of updates with an "
                         "expansion about the limit; expected a tp.SGD")
    if linear:
        problem.net.require_plain(what, trained_embedding_readout=True)
    problem.net.require_first_outputs(f"{what} is known")


def _loss(run_at: RunAt, rate: float) -> float:
    try:
        return float(run_at(float(rate)).losses[-1])
    except Divergence:
        return float("inf")
