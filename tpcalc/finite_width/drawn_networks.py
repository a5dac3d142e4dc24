"""Outputs of real networks of one width where no expansion in 1/n is known: several are drawn and trained."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Callable

import numpy as np

from .. import _checks
from .._spread import results_in_order
from ..errors import Divergence, NotCovered
from ..interpreters.lowered_conditioned import conditioned
from ..interpreters.training import Training, dense_run, placed
from ..optimizers.sgd import on_sphere
from ..scaling import Parametrization
from ..training.problem import Problem
from .fluctuations import OutputsAtWidth

SEEDS = 32  # by default


class DrawnAtWidth(OutputsAtWidth):
    """Mean and standard deviation over networks that were drawn: ``seeds`` of them; error: the standard error of the
    mean, of its shape; warning: how large it is at most."""

    seeds: int

    @classmethod
    def of(cls, outputs: np.ndarray, width: int, also: str = "") -> DrawnAtWidth:
        """outputs: by seed; also: what the warning says besides."""
        seeds, std = len(outputs), np.std(outputs, axis=0, ddof=1)
        found = cls(np.mean(outputs, axis=0), std, f"drawn: the mean over {seeds} networks of width {width} has a "
                    f"standard error of at most {std.max() / np.sqrt(seeds):.2g}{also}")
        found.seeds = seeds
        return found

    @property
    def error(self) -> np.ndarray:
        return np.asarray(self.std / np.sqrt(self.seeds))


@dataclass(frozen=True)
class NetworksOfWidth:
    """Real networks of a problem at a width, by seed: with whole matrices where their norms count, else by products."""

    training: Training
    width: int
    whole: bool

    def outputs(self, seed: int) -> tuple[np.ndarray, np.ndarray | None]:
        """What a network gives for the batch and for the probes; raises ``Divergence`` naming seed, step and layer."""
        job = self.training
        try:
            run = dense_run(job, self.width, seed) if self.whole else placed(partial(
                conditioned, job.program(), job.sizes(), job.data(), self.width, seed, job.task.loss), job.depth)
        except Divergence as blown:
            raise Divergence(f"the network of width {self.width} and seed {seed}: {blown}; it has no finite part in a "
                             "mean over networks", blown.step, blown.layer) from None
        return job.outputs(run.series("f"))


def drawn_at_width(problem: Problem, width: int, probes: bool = False, seeds: int | None = None, executor: Any = None,
                   progress: Callable[[int, int], None] | None = None, also: str = "") -> DrawnAtWidth:
    """Train ``seeds`` networks (32 where None is said) of a width; also: what the warning says besides. Raises
    ``ValueError`` for fewer than 2, and at infinite depth."""
    seeds = SEEDS if seeds is None else _checks.whole_number("seeds", seeds, 2)
    if problem.layers is None:
        raise NotCovered(f"at_width: got {_checks.short(problem.net)} by {_checks.short(problem.opt)} at depth=tp.oo; "
                         "networks are drawn and trained, and no real one has that depth; expected a finite one, or, "
                         "for exact runs by tp.SGD, no seeds, for the expansion in 1/n")
    scale = problem.scale
    if isinstance(scale, Parametrization) and not problem.is_mup:
        scale = scale.at_width(width)
    job = NetworksOfWidth(Training(problem.net, problem.task, problem.opt, scale, problem.layers), width,
                          on_sphere(problem.opt) or not problem.is_mup)
    found = list(results_in_order(executor, job.outputs, range(seeds), progress))
    return DrawnAtWidth.of(np.array([one[int(probes)] for one in found]), width, also)
