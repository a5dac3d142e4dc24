"""Depthwise Hyperparameter Transfer's units: outputs, loss derivatives, and what responses are over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import _checks
from ..data import Sequences, Task
from ..data.losses import derivative
from ..training.raw_problem import RawProblem
from .run import Run


@dataclass(frozen=True)
class Units:
    """What turns a run's conventions into the source's: f, Delta (t, i), or (t, i, p) where samples have positions; chi
    (N,), dloss/df of the run; eta0 mu0."""

    f: np.ndarray
    Delta: np.ndarray
    chi: np.ndarray
    c: float

    @classmethod
    def of(cls, run: Run, raw: RawProblem | None, outputs: np.ndarray) -> Units:
        """outputs: (steps, batch, [positions,] 1), of the run or of one of its batches."""
        task = run.task
        chi = _derivatives(task, outputs)
        if raw is None:
            rate = getattr(run.problem.opt, "lr")
            if not isinstance(rate, float) or rate == 0:
                raise ValueError(f"raw: got None with {_checks.short(run.problem.opt)}; expected the "
                                 "tp.theory.RawProblem that was trained, or an optimizer of one learning rate, which "
                                 "responses are over")
            return cls(outputs[..., 0], -chi, chi.ravel(), rate)
        f = raw.output_scale * outputs
        return cls(f[..., 0], -_derivatives(raw.task, f), chi.ravel(), raw.scaling.eta0 * raw.scaling.mu0)


def _derivatives(task: Task | Sequences, outputs: np.ndarray) -> np.ndarray:
    """dloss/df of every output, (steps, batch[, positions])."""
    return np.array([derivative(task.loss, f.reshape(-1, 1), y.reshape(-1, 1)).reshape(f.shape[:-1])
                     for f, y in zip(outputs, task.targets)])
