"""Infinite depth and many steps on one batch: a past that few kept rows span."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._types import KeptNodes
from .. import _checks
from ..propagators.limit_cell import limit_cell
from ..propagators.long_training import TooMany, train_spanned
from ..propagators.training import fewer_rows
from ..optimizers import SGD
from ..data import Task
from ..optimizers.sgd import rows_per_step
from ..training.problem import Problem
from ..results.run import Run
from .method import Progress, each_step, outputs_alone, refusal, require_outputs_alone

MANY = 2000                # rows of a training that "auto" gives to this method: the exact one takes an hour and more
OPERATIONS = 4e3           # of the exact method over rows^3: two meshes, 38 nodes, 10 iterations, 14 half matrices
BYTES = 8 * (12 * 20 + 4 * 18) * 5 / 12  # its memory over rows^2, on one element


@dataclass(frozen=True)
class LongCollocation:
    """Infinite width and depth, linear blocks, one batch at every step: thousands of steps.

    A forward or a backward row that kept ones give, as a linear combination, to a tolerance is not kept, and the
    update of its step is made of the combination. So the cost of a step is that of the kept rows, which are tens. f is
    then off by what was left out, which ``run.error_estimate`` bounds to first order: the norms of all that was left
    out of updates, times the largest norms of forward and backward rows. The bound takes the training to forget
    errors, or at least not to amplify them, as it does at learning rates at which the loss decreases.

    Parameters
    ----------
    tolerance:
        positive; what may be left out of an update, relative to its size or to the mean size of those so far.
        Below 1e-7 round-off keeps nearly every row.
    rows:
        how many rows of a direction may be kept; more are refused by ``ValueError`` when they are needed.

    Outputs alone are known: covariances are refused by name. Source: [tpcalc/reflection_form].

    >>> import numpy as np, tpcalc as tp
    >>> batch, labels = np.array([[1, 0.2], [0.3, -0.5]]), np.array([1, -1])
    >>> task = tp.Task(np.repeat(batch[None], 60, 0), np.repeat(labels[None], 60, 0))
    >>> problem = tp.Problem(tp.ResNet(), task, tp.SGD(0.5), tp.DepthScaling(0.5, 0.5), depth=tp.oo)
    >>> run = tp.train(problem, method=tp.methods.LongCollocation(tolerance=1e-5))
    >>> exact = tp.train(problem, method="collocation")
    >>> bool(abs(run.outputs - exact.outputs).max() < run.error_estimate < 1e-2)
    True
    """

    name: ClassVar[str] = "long_collocation"

    tolerance: float = 1e-5
    rows: int = 200

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", _checks.positive_number("tolerance", self.tolerance))
        object.__setattr__(self, "rows", _checks.whole_number("rows", self.rows, 1))

    def refuses(self, problem: Problem) -> str | None:
        """Finite depth or width, optimizers other than tp.SGD without weight decay, nonlinear blocks, trained
        embedding and readout and data that change between steps."""
        reason = refusal(self.name, problem)
        if reason is not None:
            return reason
        assert isinstance(problem.opt, SGD)
        if problem.opt.weight_decay:
            return (f"opt: got {problem.opt!r}; method={self.name!r} takes a tp.SGD without weight decay: with it, "
                    "what kept rows know of the initial matrices fades")
        return _changes(self.name, problem.of_vectors)

    def solve(self, problem: Problem, keep_nodes: KeptNodes = None, progress: Progress | None = None) -> Run:
        """Train. Raises ``Divergence`` where there is no limit, where values are not finite, and where the estimate of
        the error is more than a tenth of the scale of f; ``ValueError`` where more rows are needed than allowed."""
        require_outputs_alone(self, problem, keep_nodes, ", or method='collocation'")
        cell, task, opt = limit_cell(problem.depth_scaling), problem.of_vectors, problem.opt
        assert isinstance(opt, SGD)
        try:
            trace, error, _ = train_spanned(task, opt, cell.noise, cell.drift, self.tolerance, self.rows,
                                            each_step(progress, problem))
        except TooMany as cause:
            raise ValueError(f"rows: got {self.rows}; at step {cause.step} of {task.steps} more are needed for "
                             f"tolerance={self.tolerance:g}; expected a larger number, a larger tolerance or fewer "
                             f"steps; {_cost(task)}") from None
        return outputs_alone(problem, self.name, trace.outputs, float(error), trace.probe_outputs, cell.notes)


def prefers(problem: Problem) -> bool:
    """Is a training of infinite depth so long that "auto" asks this method before the exact one?"""
    task = problem.task
    return problem.layers is None and isinstance(task, Task) and task.steps * _rows(task) > MANY


def _rows(task: Task) -> int:
    return rows_per_step(task, fewer_rows(task))


def _changes(name: str, task: Task) -> str | None:
    if np.array_equal(task.inputs, np.broadcast_to(task.inputs[:1], task.inputs.shape)) and np.array_equal(
            task.targets, np.broadcast_to(task.targets[:1], task.targets.shape)):
        return None
    return (f"task: got {task.steps} steps, of batches that differ; method={name!r} takes one batch, at every step: "
            f"rows of fresh data are no combinations of few; {_cost(task)}")


def _cost(task: Task) -> str:
    """What the exact method takes, in operations and memory."""
    n = float(task.steps * _rows(task))
    return (f"method='collocation' is exact and takes about {OPERATIONS * n**3:.0e} floating-point operations and "
            f"{BYTES * n**2 / 2**30:.2g} GB")
