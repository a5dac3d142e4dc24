"""Infinite width by sampling: coordinates of vectors as particles."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .. import _checks
from ..interpreters.lowered_particles import LoweredParticles, ParticleExecution, particles
from ..interpreters.refined import RefinedParticles
from ..interpreters.training import placed
from ..programs.problem import Problem
from ..solvers.details import or_all_layers
from ..solvers.run import Details, Run
from ..solvers.sampled import CONFIDENCE, SampledDetails, joint_error
from .method import Progress, require, wanted_times
from .sampled import execution, node_details, not_sampled, refinement, training
from .solution import Solution


@dataclass(frozen=True)
class Particles:
    """Any block and optimizer at infinite width and finite depth, sampled: the mean over batches of particles.

    samples: particles in a batch; None stands for 4096, or 1024 for updates that average over pairs of particles
    (tp.Adam, and tp.SignSGD on batches). batches: independent ones, at least 2. seed: of all that is drawn. executor:
    any ``concurrent.futures`` executor, for the batches; it decides nothing, and stays where it is when the method is
    pickled. coarsest: a depth whose doublings share their draws, so that runs at them differ by the depth and little
    else; None draws anew at every depth. Raises ``ValueError`` for anything else.
    """

    name: ClassVar[str] = "particles"
    samples: int | None = None
    batches: int = 8
    seed: int = 0
    executor: Executor | None = None
    coarsest: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("samples", 1), ("batches", 2), ("seed", 0), ("coarsest", 1)):
            value = getattr(self, name)
            if value is not None or name not in ("samples", "coarsest"):
                object.__setattr__(self, name, _checks.whole_number(name, value, least))
        _checks.with_methods("executor", self.executor, ("submit", "map"), "an executor as of concurrent.futures")

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "executor": None}

    def refuses(self, problem: Problem) -> str | None:
        """Finite width, infinite depth, activations that are not finite, and depths that are no doublings of
        ``coarsest``, where that is given."""
        return not_sampled(self.name, problem, self.coarsest, real=False)

    def solve(self, problem: Problem, keep_nodes: Any = None, progress: Progress | None = None) -> Run:
        """Train; the error estimate holds all outputs with 95% confidence. Raises ``MemoryError`` before the work.

        progress: called with (batches done, batches).
        """
        require(self, problem)
        job = training(problem)
        times = or_all_layers(wanted_times(keep_nodes, problem), job.depth)
        found = self._train(problem, keep_nodes is not None, progress)
        kept = None if keep_nodes is None else _details(problem, found, times)
        outputs = job.outputs(found.series("f"))
        error = joint_error(found.error_series("f"), self.batches)
        return Run(problem.task, *outputs, times, self.name, job.depth, None, error,
                   (f"mean of {self.batches} batches of {found.samples} particles; the error holds all outputs with "
                    f"{CONFIDENCE:.0%} confidence",),
                   linear=job.net.is_plain, details=Solution(self, problem, outputs[0], times, kept), problem=problem)

    def details(self, problem: Problem, outputs: np.ndarray, layer_times: np.ndarray) -> Details:
        """Particles at the nodes, by running the same ones once more."""
        return _details(problem, self._train(problem, True, None), layer_times)

    def _train(self, problem: Problem, keep: bool, progress: Progress | None) -> LoweredParticles:
        job = training(problem)
        found: LoweredParticles = placed(lambda: particles(
            job.program(), job.sizes(), job.data(), self.samples, self.seed, self.batches, job.task.loss,
            ("x", "dx") if keep else (), self.executor, progress,
            execution(ParticleExecution, RefinedParticles, refinement(problem, self.coarsest))))
        return found


def _details(problem: Problem, found: LoweredParticles, layer_times: np.ndarray) -> SampledDetails:
    return SampledDetails(tuple(node_details(training(problem), run, layer_times) for run in found.batches))
