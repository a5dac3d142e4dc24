"""How far real networks are expected to be from infinite width, on as much of the task as covariances are found for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Sequence

import numpy as np

from ..._types import Json
from ... import Divergence, Task, train
from ...errors import NotCovered
from ...finite_width.loss_bands import band_of, gaussian_outputs
from ...results.sampled_fluctuations import SampledFluctuations
from ..options import Setup

MOST_OUTPUTS = 12  # in all steps, of one training whose covariances are found in a second or two
DRAWS = 20000


@dataclass(frozen=True)
class Band:
    """Differences between real networks and infinite width, predicted and measured.

    task: which part of the report's task, in words; rows: a dictionary a width: width, predicted (root mean square over
    outputs and networks), low, high (between which 95 of 100 networks are), measured (over seeds), inside (the
    share of networks between low and high); errors: (widths, seeds); warning: of the smallest width, or empty;
    curves: of the first and the last width: width, the mean of the loss and the curves between which 95 of 100
    networks are (mean, low, high), and the losses of the networks, (seeds, steps).
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
    size, sampled = exact.outputs.size, isinstance(exact.fluctuations, SampledFluctuations)  # whose bias is not known
    covariance = exact.fluctuations.covariance.reshape(size, size)
    variances = np.linalg.eigvalsh(covariance).clip(0.0)
    squares = np.random.default_rng(0).standard_normal((DRAWS, size)) ** 2 @ variances / size
    low, high = np.sqrt(band_of(squares))
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
            mean = exact.outputs if sampled else exact.at_width(width).mean
            drawn = np.array([task.losses(one) for one in gaussian_outputs(mean, covariance / width)])
            ends = band_of(drawn)
            curves.append({"width": width, "losses": losses, "mean": drawn.mean(axis=0).tolist(),
                           "low": ends[0].tolist(), "high": ends[1].tolist()})
        values, root = np.array(each), width**0.5
        rows.append({"width": width, "predicted": predicted / root,
                     "low": float(low) / root, "high": float(high) / root,
                     "measured": float(np.sqrt(np.mean(values**2))),
                     "inside": float(np.mean((values >= low / root) & (values <= high / root)))})
        errors.append(each)
    warning = "" if sampled else exact.at_width(min(widths)).warning or ""
    return Band(words, rows, errors, warning, curves)


def band_or_reason(setup: Setup, depth: int, widths: Sequence[int], seeds: range, advance: Callable[[], None]
                   ) -> tuple[Band | None, str]:
    """The band, or why there is none."""
    try:
        return measure_band(setup, depth, widths, seeds, advance), ""
    except (Divergence, NotCovered) as reason:  # not known of such networks
        return None, str(reason)
