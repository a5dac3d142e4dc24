"""How far real networks are expected to be from infinite width, on as much of the task as covariances are found for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

import numpy as np

from ..._types import Json
from ... import Divergence, Task, train
from ...errors import NotCovered
from ..options import Setup

MOST_OUTPUTS = 12  # in all steps, of one training whose covariances are found in a second or two
SHARE = 0.95
DRAWS = 20000


@dataclass(frozen=True)
class Band:
    """Differences between real networks and infinite width, predicted and measured.

    task: which part of the report's task, in words; rows: a dictionary a width: width, predicted (root mean square over
    outputs and networks), low, high (between which ``SHARE`` of all networks are), measured (over seeds), inside (the
    share of networks between low and high); errors: (widths, seeds); warning: of the smallest width, or empty;
    curves: of the first and the last width: width, what ``losses_at_width`` says of their losses (mean, low, high),
    and the losses of the networks, (seeds, steps).
    """

    task: str
    rows: list[Json]
    errors: list[list[float]]
    warning: str
    curves: list[Json]


def part_of(task: Task) -> tuple[Task, str]:
    """The task itself, or of its first steps the first input and the first output."""
    if task.targets.size <= MOST_OUTPUTS:
        return task, "the task of this report"
    steps = min(task.steps, MOST_OUTPUTS // 3)
    return (Task(task.inputs[:steps, :1], task.targets[:steps, :1, :1]),
            f"the first input and the first output of {steps} steps of this report's task")


def measure_band(setup: Setup, depth: int, widths: Sequence[int], seeds: range,
                 advance: Callable[[], None] = lambda: None) -> Band:
    """Train real networks on ``part_of`` the task; raises ``Divergence`` where its covariances are not finite."""
    task, words = part_of(setup.task)
    exact = train(setup.net, task, setup.opt if len(setup.lr) == 1 else type(setup.opt)(setup.lr[:task.steps]),
                  setup.scale, depth)
    size = exact.outputs.size
    covariance = exact.fluctuations.covariance.reshape(size, size)
    variances = np.linalg.eigvalsh(covariance).clip(0.0)
    squares = np.random.default_rng(0).standard_normal((DRAWS, size)) ** 2 @ variances / size
    low, high = np.sqrt(np.quantile(squares, ((1 - SHARE) / 2, (1 + SHARE) / 2)))
    predicted = float(np.sqrt(np.trace(covariance) / size))
    rows, errors, curves = [], [], []
    for width in widths:
        each, losses = [], []
        for seed in seeds:
            real = train(setup.net, task, exact.problem.opt, setup.scale, depth, width=width, seed=seed)
            each.append(float(np.sqrt(np.mean((real.outputs - exact.outputs) ** 2))))
            losses.append(real.losses.tolist())
            advance()
        if width in (widths[0], widths[-1]):
            at = exact.losses_at_width(width)
            curves.append({"width": width, "losses": losses, **{
                name: getattr(at, name).tolist() for name in ("mean", "low", "high")}})
        values, root = np.array(each), width**0.5
        rows.append({"width": width, "predicted": predicted / root,
                     "low": float(low) / root, "high": float(high) / root,
                     "measured": float(np.sqrt(np.mean(values**2))),
                     "inside": float(np.mean((values >= low / root) & (values <= high / root)))})
        errors.append(each)
    return Band(words, rows, errors, exact.at_width(min(widths)).warning or "", curves)


def band_or_reason(setup: Setup, depth: int, widths: Sequence[int], seeds: range, advance: Callable[[], None]
                   ) -> tuple[Band | None, str]:
    """The band, or why there is none."""
    try:
        return measure_band(setup, depth, widths, seeds, advance), ""
    except (Divergence, NotCovered) as reason:  # not known of such networks
        return None, str(reason)
