"""Depthwise Hyperparameter Transfer's units: outputs, loss derivatives, and what responses are over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import _checks
from ..data.losses import derivative
from ..training.raw_problem import RawProblem
from .run import Run


@dataclass(frozen=True)
class Units:
    """What turns a run's conventions into the source's: f, Delta (t, i); chi (N,), dloss/df of the run; eta0 mu0."""

    f: np.ndarray
    Delta: np.ndarray
    chi: np.ndarray
    c: float

    @classmethod
    def of(cls, run: Run, raw: RawProblem | None, outputs: np.ndarray) -> Units:
        """outputs: (steps, batch, 1), of the run or of one of its batches."""
        task = run.task
        chi = np.array([derivative(task.loss, f, y)[:, 0] for f, y in zip(outputs, task.targets)])
        if raw is None:
            rate = getattr(run.problem.opt, "lr")
            if not isinstance(rate, float) or rate == 0:
                raise ValueError(f"raw: got None with {_checks.short(run.problem.opt)}; expected the "
                                 "tp.theory.RawProblem that was trained, or an optimizer of one learning rate, which "
                                 "responses are over")
            return cls(outputs[..., 0], -chi, chi.ravel(), rate)
        f = raw.output_scale * outputs
        Delta = -np.array([derivative(raw.task.loss, one, y)[:, 0] for one, y in zip(f, raw.task.targets)])
        return cls(f[..., 0], Delta, chi.ravel(), raw.scaling.eta0 * raw.scaling.mu0)
