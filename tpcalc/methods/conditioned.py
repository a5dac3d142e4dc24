"""Real networks of any width, known by what their matrices gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .. import _checks
from ..interpreters.conditioned import PRECISIONS
from ..interpreters.lowered import LoweredRun
from ..interpreters.lowered_conditioned import ConditionedExecution, conditioned
from ..interpreters.refined import RefinedConditioned
from ..interpreters.training import placed
from ..programs.problem import Problem
from ..solvers.details import or_all_layers
from ..solvers.run import Details, Run
from .method import Progress, require, wanted_times
from .sampled import execution, fluctuation, node_details, not_sampled, refinement, training
from .solution import Solution


@dataclass(frozen=True)
class Conditioned:
    """One real network of finite width and depth, any block and optimizer, equal in law to a dense one: matrices are
    drawn as far as they are asked, so that no n x n array is needed.

    seed: of all that is drawn; dtype: "float64" or "float32"; coarsest: a depth whose doublings share their draws, so
    that networks of one width and seed differ by the depth and little else; None draws anew at every depth.
    Raises ``ValueError`` for anything else.
    """

    name: ClassVar[str] = "conditioned"
    seed: int = 0
    dtype: str = "float64"
    coarsest: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", _checks.whole_number("seed", self.seed))
        object.__setattr__(self, "dtype", _checks.choice("dtype", self.dtype, PRECISIONS))
        if self.coarsest is not None:
            object.__setattr__(self, "coarsest", _checks.whole_number("coarsest", self.coarsest, 1))

    def refuses(self, problem: Problem) -> str | None:
        """Infinite width or depth, activations that are not finite, and depths that are no doublings of ``coarsest``,
        where that is given."""
        return not_sampled(self.name, problem, self.coarsest, real=True)

    def solve(self, problem: Problem, keep_nodes: Any = None, progress: Progress | None = None) -> Run:
        """Train; the error estimate is the scale of what distinguishes two seeds. Raises ``MemoryError`` before."""
        require(self, problem)
        job = training(problem)
        times = or_all_layers(wanted_times(keep_nodes, problem), job.depth)
        found = self._train(problem, keep_nodes is not None, progress)
        kept = None if keep_nodes is None else node_details(job, found, times)
        outputs = job.outputs(found.series("f"))
        return Run(problem.task, *outputs, times, self.name, job.depth, problem.neurons,
                   fluctuation(found, found.width), linear=job.net.is_plain,
                   details=Solution(self, problem, outputs[0], times, kept), problem=problem)

    def details(self, problem: Problem, outputs: np.ndarray, layer_times: np.ndarray) -> Details:
        """Vectors at the nodes, by training the same network once more."""
        return node_details(training(problem), self._train(problem, True, None), layer_times)

    def _train(self, problem: Problem, keep: bool, progress: Progress | None) -> LoweredRun:
        job, width = training(problem), problem.neurons
        assert width is not None
        found: LoweredRun = placed(lambda: conditioned(
            job.program(), job.sizes(), job.data(), width, self.seed, job.task.loss, self.dtype,
            ("x", "dx") if keep else (), progress,
            execution(ConditionedExecution, RefinedConditioned, refinement(problem, self.coarsest))))
        return found
