"""Covariances over initializations of networks that are sampled at infinite width: nonlinear blocks at a finite depth.

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Mapping, NoReturn

import numpy as np

from .. import _checks
from .._shown import Short
from .._types import Value
from ..errors import NotCovered
from ..interpreters.influences import influence_covariance
from ..interpreters.training import Training, placed
from ..programs.language import Scalar
from ..training.problem import Problem
from .sampled import joint_error

SAMPLES, BATCHES = 8192, 8  # coordinates of a network, and how many of these
PER_STATEMENT = 15          # vectors that the way back reads or makes


@dataclass(frozen=True, repr=False)
class SampledFluctuations(Short):
    """Differences between networks of width n and their limit at a finite depth, to leading order in 1/n, sampled.

    problem: a training by a tp.SGD at infinite width. The influence that each of ``SAMPLES`` coordinates has on the
    outputs is found by one pass back through the program; their covariance is Sigma, a mean over ``BATCHES``. Biases
    and higher cumulants raise ``ValueError``.

    >>> import tpcalc as tp
    >>> run = tp.train(tp.ResNet("tanh"), tp.Task([1, 0.8], [1, -0.7]), tp.SGD(0.5), tp.DepthScaling(), depth=2)
    >>> found = run.fluctuations
    >>> found.covariance.shape, bool(found.covariance_error < 0.1 * found.covariance.max())
    ((2, 1, 1, 2, 1, 1), True)
    """

    problem: Problem

    @property
    def covariance(self) -> np.ndarray:
        """Sigma, the limit of n Cov of the outputs over initializations, shape (T, B, d_out, T, B, d_out)."""
        return self._between(False)

    @property
    def covariance_error(self) -> float:
        """How far ``covariance`` may be off with 95% confidence, absolutely, by Student's distribution of the means of
        batches; a bias of order 1/samples is not in it."""
        batch = np.arange(len(self._found[0])).reshape(self._shape)[:, :self.problem.task.batch].ravel()
        errors = np.std(self._found[:, batch[:, None], batch], axis=0, ddof=1) / BATCHES**0.5
        return joint_error(errors, BATCHES)

    @property
    def probe_covariance(self) -> np.ndarray:
        """The covariance of the probes' outputs, shape (T, m, d_out, T, m, d_out); ``ValueError`` without any."""
        if self.problem.task.probes is None:
            raise ValueError("probes: got none with the task; expected tp.Task(probes=...), for held-out outputs")
        return self._between(True)

    def cumulant(self, k: int) -> np.ndarray:
        """n times the variance of each output for k = 2, shape (T, B, d_out); raises ``NotCovered`` for others."""
        if _checks.positive_integer("k", k) != 2:
            self._refuse(f"the cumulant of order {k}")
        size = int(np.prod(self.covariance.shape[:3]))
        return np.diagonal(self.covariance.reshape(size, size)).reshape(self.covariance.shape[:3])

    @property
    def bias(self) -> np.ndarray:
        """Not known: raises ``NotCovered``."""
        self._refuse("bias")

    def _refuse(self, what: str) -> NoReturn:
        raise NotCovered(f"fluctuations: {what} of {_checks.short(self.problem.net)} at depth {self.problem.depth} "
                         "asked for; there the covariance is known, run.fluctuations.covariance; means at a width are "
                         "those of networks that are drawn, run.at_width(n)")

    @property
    def _shape(self) -> tuple[int, ...]:
        task = self.problem.task
        return task.steps, task.batch + (0 if task.probes is None else len(task.probes)), task.d_out

    def _between(self, probes: bool) -> np.ndarray:
        batch = self.problem.task.batch
        which = slice(batch, None) if probes else slice(batch)
        found = np.mean(self._found, axis=0).reshape(*self._shape, *self._shape)
        return np.asarray(found[:, which, :, :, which])

    @cached_property
    def _found(self) -> np.ndarray:
        """(batches, outputs, outputs), the batch's and the probes'."""
        assert self.problem.layers is not None
        job = Training(self.problem.net, self.problem.task, self.problem.opt, self.problem.scale, self.problem.layers)
        program, sizes = job.program(), job.sizes()
        _checks.memory(8.0 * SAMPLES * PER_STATEMENT * program.count(program.numeric_sizes(sizes)),
                       f"fluctuations at depth {self.problem.depth}", "fewer steps, or a smaller batch or depth, fit")
        return np.array([placed(lambda: influence_covariance(program, sizes, job.data(), self.problem.task.loss,
                                                             SAMPLES, seed, _outputs), job.depth)
                         for seed in range(BATCHES)])


def _outputs(scalars: Mapping[Scalar, Any]) -> list[Value]:
    """All outputs, step by step."""
    found = {tuple(map(int, member.indices)): value for member, value in scalars.items() if member.name == "f"}
    return [found[at] for at in sorted(found)]
