"""Gradient flow: continuous training time, as the limit of ever smaller steps of gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Iterator

import numpy as np

from .._types import Fields, Number
from .. import _checks
from .._shown import Short, Tabled
from ..errors import Divergence
from ..propagators.limit_cell import limit_cell
from ..methods.train import train
from ..scaling import DepthScaling
from ..optimizers import SGD
from ..models import ResNet
from ..data import Task

FEWEST = 4  # steps of a descent from one point to the next


@dataclass(frozen=True, repr=False)
class GradientFlow(Tabled, Short):
    """Outputs and losses of a network under gradient flow on one batch, against training time.

    times: (points + 1,), from 0, training time in units of learning rate times steps; outputs: (points + 1, batch,
    d_out); probe_outputs: (points + 1, m, d_out) or None; losses: (points + 1,), means over the batch; steps: (k,), of
    each descent; errors: (k - 1,), what each further descent changed the extrapolated outputs by at most;
    error_estimate: the last of these and what the descents themselves may be off by, amplified as extrapolation does.

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> flow = tp.studies.gradient_flow(net, tp.Task([1], [1]), 1.0, scale, depth=8, points=2)
    >>> flow.times.tolist(), flow.outputs.shape
    ([0.0, 0.5, 1.0], (3, 1, 1))
    """

    times: np.ndarray
    outputs: np.ndarray
    probe_outputs: np.ndarray | None
    losses: np.ndarray
    steps: np.ndarray
    errors: np.ndarray
    error_estimate: float

    @property
    def rows(self) -> list[Fields]:  # type: ignore[override]
        """One dictionary a time: time, loss."""
        return list({"time": float(time), "loss": float(loss)} for time, loss in zip(self.times, self.losses))


def gradient_flow(net: ResNet, task: Task, time: float, scale: DepthScaling, depth: Number, points: int = 1,
                  tolerance: float = 1e-8, most_steps: int = 128) -> GradientFlow:
    """Train by gradient flow: dW/dt = -g times the gradient of the batch's mean loss, from t = 0 to ``time``.

    A descent of N steps of learning rate time / N is Euler's rule, whose error is a series in 1 / N. Descents of 4, 6,
    8, 12, 16... times ``points`` steps are extrapolated (Richardson, Bulirsch) until a further one changes the outputs
    by less than ``tolerance`` times max(1, |f|), or would need more than ``most_steps``: then
    ``error_estimate`` says what was reached.

    Parameters
    ----------
    task:
        one step, or one batch at every step; its probes ride along.
    time:
        positive; the learning rate times steps of small steps, as ``tp.SGD`` counts them.
    depth:
        a whole number or ``tp.oo``.
    points:
        the outputs are given at time / points, 2 time / points, ..., time.

    Raises ``ValueError`` for a task of different batches and numbers that are not allowed, and ``Divergence`` where
    even the smallest steps blow up, or depth=tp.oo has no limit. Source: Depthwise Hyperparameter Transfer, appendix
    G.2 [depthwise_transfer/one_step].

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> flow = tp.studies.gradient_flow(net, tp.Task([1], [1]), 1.0, scale, depth=tp.oo)
    >>> flow.outputs.round(6).ravel().tolist()
    [0.0, 0.977462]
    """
    if hasattr(time, "lr"):
        raise ValueError(f"time: got {_checks.short(time)}; expected a positive number: gradient flow has no "
                         "optimizer, and takes the training time in its place")
    for name, value, kind in (("net", net, ResNet), ("task", task, Task), ("scale", scale, DepthScaling)):
        _checks.instance(name, value, kind)
    if np.any(task.inputs != task.inputs[:1]) or np.any(task.targets != task.targets[:1]):
        raise ValueError("task: its batches differ; gradient flow takes one batch, once or at every step")
    span = _checks.positive_number("time", time)
    allowed = _checks.positive_number("tolerance", tolerance)
    each, most = _checks.positive_integer("points", points), _checks.positive_integer("most_steps", most_steps)
    if most < 2 * FEWEST * each:
        raise ValueError(f"most_steps: got {most_steps} with points={points}; expected at least {2 * FEWEST * each}")
    if _checks.size("depth", depth) is None:
        limit_cell(scale, net)
    table = _Table()
    for many in _growing(each, most):
        try:
            table.add(many, *_descent(net, task, span, scale, depth, many, each))
        except Divergence:
            if 2 * many > most:
                raise
            continue  # steps this large are unstable
        if table.errors[-1] <= allowed * max(1.0, float(np.max(np.abs(table.row[-1])))):
            break
    best, batch = table.row[-1], task.batch
    outputs, probes = best[:, :batch], None if task.probes is None else best[:, batch:]
    losses = np.array([np.mean(task.loss.value(f, task.targets[0])) for f in outputs])
    return GradientFlow(np.linspace(0.0, span, each + 1), outputs, probes, losses, np.array(table.steps),
                        np.array(table.errors[1:]), table.errors[-1] + table.noise[-1])


class _Table:
    """The last row of Richardson's table, the best last: errors that are series in 1 / steps cancel term by term.

    errors: what each descent changed the best by, infinite for the first; noise: what the errors of the descents
    themselves can do to the row.
    """

    def __init__(self) -> None:
        self.steps, self.errors = list[int](), list[float]()
        self.row, self.noise = list[np.ndarray](), list[float]()

    def add(self, steps: int, values: np.ndarray, error: float) -> None:
        row, noise = [values], [error]
        for coarser, value, its in zip(reversed(self.steps), self.row, self.noise):
            weight = 1 / (steps / coarser - 1)
            row.append(row[-1] + weight * (row[-1] - value))
            noise.append((1 + weight) * noise[-1] + weight * its)
        self.errors.append(float(np.max(np.abs(row[-1] - self.row[-1]))) if self.row else np.inf)
        self.steps.append(steps)
        self.row, self.noise = row, noise


def _descent(net: ResNet, task: Task, span: float, scale: DepthScaling, depth: Number, steps: int, points: int
             ) -> tuple[np.ndarray, float]:
    """Outputs of batch and probes, (points + 1, batch + m, d_out), by ``steps`` small steps, and their error."""
    inputs, targets = (np.repeat(a[:1], steps + 1, axis=0) for a in (task.inputs, task.targets))
    repeated = Task(inputs, targets, task.loss, task.probes)
    run = train(net, repeated, SGD(lr=span / steps), scale, depth)
    parts = [run.outputs] if run.probe_outputs is None else [run.outputs, run.probe_outputs]
    return np.concatenate(parts, axis=1)[::steps // points], run.error_estimate


def _growing(points: int, most: int) -> Iterator[int]:
    """points times 4, 6, 8, 12, 16, 24, ...: steps that double every other time."""
    factors = chain(*((FEWEST * 2**k, 3 * FEWEST * 2**k // 2) for k in range(most.bit_length())))
    return takewhile(lambda many: many <= most, (points * factor for factor in factors))
