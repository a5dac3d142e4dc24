"""Does training converge as the depth doubles, how fast, and to what?"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Callable, Sequence

import numpy as np
import sympy as sp

from .._types import Fields, Number, PlotAxes
from .. import _checks
from .._spread import results_in_order, require_executor
from .._shown import Short, Tabled, pyplot
from ..errors import Divergence
from ..methods.choice import chosen_method
from ..methods.method import Method, reason_of
from ..methods.train import train
from ..scaling import Scaling
from ..models import ResNet
from ..data import Task
from ..training.problem import Problem
from ..optimizers.updates import Optimizer
from ..results.run import Run


@dataclass(frozen=True)
class Slope:
    """A power law fitted by least squares in log-log: value ~ L^-order, with the standard error of the order."""

    order: float
    uncertainty: float


def fit_order(depths: np.ndarray, values: np.ndarray) -> Slope:
    """The order of decay of ``values`` in ``depths``, from the points that are positive; NaN with fewer than two.

    With ``values`` exactly a power law the uncertainty is 0; with two points it is infinite.
    """
    good = (values > 0) & np.isfinite(values)
    x, y = np.log(np.asarray(depths, dtype=float)[good]), np.log(values[good])
    if len(x) < 2:
        return Slope(float("nan"), float("inf"))
    design = np.stack([x, np.ones_like(x)], axis=1)
    (slope, offset), *_ = np.linalg.lstsq(design, y, rcond=None)
    residual = y - slope * x - offset
    spread = np.sum((x - x.mean()) ** 2)
    uncertainty = np.sqrt(np.sum(residual**2) / (len(x) - 2) / spread) if len(x) > 2 else float("inf")
    return Slope(-float(slope), float(uncertainty))


@dataclass(frozen=True, repr=False)
class Convergence(Tabled, Short):
    """Training at growing depth, beside its limit.

    depths: (k,); outputs: (k, steps, batch, d_out); losses: (k, steps); cauchy: (k - 1,) largest change of
    an output from one depth to the next; limit: the run at depth=tp.oo, found independently, or None
    where there is no limit (``reason`` says why); distance: (k,) largest difference of an output from the
    limit, or None; cauchy_order, limit_order: the fitted orders r of L^-r, over the deeper half; errors: (k,), what
    each run estimates of itself; method: what the runs at finite depth were solved by.

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> found = tp.convergence(net, task, opt, scale, depths=[64, 128, 256])
    >>> round(found.limit_order.order, 1)
    1.0
    """

    depths: np.ndarray
    outputs: np.ndarray
    losses: np.ndarray
    cauchy: np.ndarray
    cauchy_order: Slope
    limit: Run | None
    reason: str
    distance: np.ndarray | None
    limit_order: Slope | None
    errors: np.ndarray
    method: str

    @property
    def rows(self) -> list[Fields]:
        """One dictionary a depth: depth, last_loss, cauchy, distance."""
        table: list[Fields] = []
        for i, depth in enumerate(self.depths):
            row = {"depth": int(depth), "last_loss": float(self.losses[i, -1])}
            row["cauchy"] = float(self.cauchy[i - 1]) if i else float("nan")
            row["distance"] = float(self.distance[i]) if self.distance is not None else float("nan")
            table.append(row)
        return table

    def table(self) -> str:
        """The numbers as text, one line a depth."""
        lines = [f"{'L':>8} {'loss of last step':>18} {'change from L/2':>16} {'distance to limit':>18}"]
        lines += [f"{row['depth']:>8d} {row['last_loss']:>18.12f} {row['cauchy']:>16.3e} {row['distance']:>18.3e}"
                  for row in self.rows]
        lines.append(f"order of the changes: {self.cauchy_order.order:.3f} +- {self.cauchy_order.uncertainty:.3f}")
        if self.limit_order is not None and self.limit is not None:
            lines.append(f"{'oo':>8} {self.limit.losses[-1]:>18.12f}")
            lines.append(f"order of the distance: {self.limit_order.order:.3f} +- {self.limit_order.uncertainty:.3f}")
        else:
            lines.append(f"no limit: {self.reason}")
        return "\n".join(lines)

    def plot(self, ax: PlotAxes = None) -> PlotAxes:
        """Changes and distances against depth, log-log; returns the matplotlib axes."""
        _checks.axes("ax", ax)
        ax = pyplot("Convergence.plot").subplots(figsize=(5, 3.6))[1] if ax is None else ax
        ax.loglog(self.depths[1:], self.cauchy, "o-", label=f"change from L/2, order {self.cauchy_order.order:.2f}")
        if self.distance is not None and self.limit_order is not None:
            ax.loglog(self.depths, self.distance, "s-", label=f"distance to limit, order {self.limit_order.order:.2f}")
        ax.set_xlabel("depth L")
        ax.set_ylabel("largest difference of an output")
        ax.legend()
        return ax


def convergence(net: ResNet, task: Task, opt: Optimizer, scale: Scaling, depths: Sequence[int],
                executor: Executor | None = None, progress: Callable[[int, int], None] | None = None,
                method: str | Method = "auto", width: Number = sp.oo) -> Convergence:
    """Train at every depth and, independently, at infinite depth; measure Cauchy differences and orders.

    Every network and optimizer; scale: a ``tp.DepthScaling`` or a ``tp.Parametrization``. method, width: as in
    ``tp.train``, for the finite depths; the limit is found by "auto", and where all methods refuse depth=tp.oo
    ``reason`` says so. What is sampled has errors of the size of ``run.error_estimate``; where a method is named or
    found by "auto", depths that are doublings of the first share their draws (``coarsest`` of ``tp.methods.Particles``
    and ``Conditioned``), so that errors cancel in changes.

    depths: at least two, growing; doubling depths (2^k) make the changes a Cauchy sequence with a clean
    order. executor: any ``concurrent.futures`` executor; the depths are independent. progress: called
    with (depths done, depths). Raises ``ValueError`` for depths that do not grow, ``Divergence`` where a
    finite depth blows up. Source: Tensor Programs VI, Proposition D.2
    [tensor_programs_vi/proposition_d2] and Theorem D.3 (for L = 2^k).

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> found = tp.convergence(net, task, opt, scale, depths=[64, 128, 256])
    >>> found.cauchy.shape, found.limit.method
    ((2,), 'collocation')
    """
    require_executor(executor)
    _checks.progress(progress)
    sizes = _checks.sizes("depths", depths, 2, growing=True)
    problems = [Problem(net, task, opt, scale, size, width) for size in sizes]
    jobs = [(problem, method) for problem, method in zip(problems, methods_at(problems, method))]
    deep = replace(problems[0], depth=sp.oo)
    reason, limit = reason_of(lambda: chosen_method(deep, "auto", {})) or "", None
    try:
        limit = None if reason else train(deep)
    except Divergence as divergence:
        if divergence.step is not None:
            raise
        reason = str(divergence)
    outputs, errors = zip(*results_in_order(executor, _outputs, jobs, progress))
    values, lengths = np.array(outputs), np.array(sizes)
    cauchy = np.abs(np.diff(values, axis=0)).max(axis=(1, 2, 3))
    deeper = len(sizes) // 2
    distance = None if limit is None else np.abs(values - limit.outputs).max(axis=(1, 2, 3))
    return Convergence(lengths, values, np.array([task.losses(f) for f in values]), cauchy,
                       fit_order(lengths[1:][deeper - 1:], cauchy[deeper - 1:]), limit, reason, distance,
                       None if distance is None else fit_order(lengths[deeper:], distance[deeper:]),
                       np.array(errors), jobs[0][1].name)


def _outputs(job: tuple[Problem, Method]) -> tuple[np.ndarray, float]:
    problem, method = job
    run = train(problem, method=method)
    return run.outputs, run.error_estimate


def methods_at(problems: Sequence[Problem], method: str | Method) -> list[Method]:
    """The method of every depth: with draws that depths share, where the method was not given with its options, has
    such draws, and all depths are doublings of the first."""
    found = [chosen_method(problem, method, {}) for problem in problems]
    if not isinstance(method, str) or any(not hasattr(one, "coarsest") for one in found):
        return found
    first = problems[0].layers
    shared: list[Method] = [replace(one, coarsest=first) for one in found]  # type: ignore[type-var]
    return found if any(one.refuses(problem) for one, problem in zip(shared, problems)) else shared
