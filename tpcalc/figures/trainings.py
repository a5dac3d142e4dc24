"""Trainings of real networks that a figure asks for, and their losses."""

from __future__ import annotations

import hashlib
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import (DepthScaling, Divergence, Parametrization, Problem, ResNet, Run, Sequences, Task, Transformer, methods,
                train)
from .._files import code_digest
from ..optimizers.updates import Optimizer
from ..studies.jobs import FinishedJobs, Progress, run_jobs
from .images import Characters, Images, Patches


@dataclass(frozen=True)
class RealTraining:
    """One real network of finite width and depth, trained on ``data``; ``seed`` draws initial weights and data."""

    net: ResNet | Transformer
    opt: Optimizer
    scale: DepthScaling | Parametrization
    depth: int
    width: int
    data: Images | Patches | Characters
    seed: int = 0

    def run(self, steps: int) -> Run:
        """The training's first steps."""
        problem = self.problem(steps)
        return train(problem, method=self.method(problem))

    def problem(self, steps: int) -> Problem:
        """What is trained in the first steps."""
        rates = self.opt.schedule(self.data.steps)[:steps]  # by step: the program is then that of all rates
        opt = replace(self.opt, lr=tuple(map(float, rates)))  # type: ignore[type-var]  # all are dataclasses
        return Problem(self.net, first_steps(self.data.task(self.seed), steps), opt, self.scale, self.depth, self.width)

    def method(self, problem: Problem) -> methods.Dense:
        """A real network, drawn by the seed."""
        return methods.Dense(seed=self.seed, dtype="float32")

    def numbers(self) -> list[float | None]:
        """What a figure is given of it: its losses."""
        return self.losses()

    def losses(self) -> list[float | None]:
        """The loss of every step's batch before its update; None from the step on where training blows up."""
        found = self._before_blow_up(self.data.steps)
        infinite = np.flatnonzero(~np.isfinite(found))
        kept = found[:infinite[0]] if len(infinite) else found
        return [float(loss) for loss in kept] + [None] * (self.data.steps - len(kept))

    def _before_blow_up(self, steps: int) -> np.ndarray:
        """Losses of the first steps, of fewer where one of them blows up."""
        if steps == 0:
            return np.zeros(0)
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                return self.run(steps).losses
        except Divergence as blow_up:
            return self._before_blow_up(min(blow_up.step or 0, steps - 1))

    @property
    def cost(self) -> float:
        """Multiplications of numbers in all products with matrices, forward, backward and in updates."""
        streams = self.data.batch * getattr(self.data, "positions", 1)
        return 3.0 * self.data.steps * streams * self.depth * len(self.net.matrices_of_block) * self.width**2

    def key(self) -> str:
        """A name of the training by its settings, the data and the code; all parts say in their repr what they are."""
        return hashlib.sha256(f"{code_digest()} {self.data.digest()} {self!r}".encode()).hexdigest()


@dataclass(frozen=True)
class StartedAtZero(RealTraining):
    """A training whose matrices of some names start at zero."""

    zero: tuple[str, ...] = ()

    def method(self, problem: Problem) -> methods.Dense:
        drawn = train(self.problem(1), method=methods.Dense(seed=self.seed)).initial_weights()
        weights = {name: 0 * array if name in self.zero else array for name, array in drawn.items()}
        return methods.Dense(weights=weights, dtype="float32")


def first_steps(task: Task | Sequences, steps: int) -> Task | Sequences:
    """The beginning of a task."""
    return type(task)(task.inputs[:steps], task.targets[:steps], task.loss)


def _numbers(one: RealTraining) -> list[float | None]:
    return one.numbers()


def losses_of(trainings: np.ndarray, executor: Executor | None = None, folder: Path | None = None,
              progress: Progress | None = None) -> np.ndarray:
    """Numbers of an array of trainings, with an axis more for them; infinite where there are none.

    They are losses of every step, infinite from the step on where a training blows up, or what a subclass gives.

    folder: where what is finished is kept; executor, progress: as in ``tp.transfer``.
    """
    if not trainings.size:
        return np.zeros((*trainings.shape, 0))
    jobs = [(one.key(), one.cost, one) for one in trainings.ravel()]
    found: list[Any] = run_jobs(_numbers, jobs, FinishedJobs(folder), executor, progress)
    values = np.array([[np.inf if loss is None else loss for loss in one] for one in found], dtype=float)
    return values.reshape(*trainings.shape, -1)
