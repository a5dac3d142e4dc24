"""Real networks of any width, known by what their matrices gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from .. import _checks
from ..lowering.array_backends import PRECISIONS
from ..interpreters.lowered import LoweredRun
from ..interpreters.lowered_conditioned import ConditionedExecution, conditioned
from ..interpreters.refined import RefinedConditioned
from ..interpreters.training import Keep, placed
from ..lowering import Arrays
from ..training.problem import Problem
from .method import Progress
from .sampled import ReadsProgram, execution, refinement, training


@dataclass(frozen=True)
class Conditioned(ReadsProgram):
    """One real network of finite width and depth, any block and optimizer, equal in law to a dense one: matrices are
    drawn as far as they are asked, so that no n x n array is needed.

    seed: of all that is drawn; coarsest: a depth whose doublings share their draws, so
    that networks of one width and seed differ by the depth and little else; None draws anew at every depth.

    namespace, dtype, device: of the arrays, as in ``tpcalc.lowering.Arrays``: "numpy", "torch", "cupy" or "jax", or an
    array-API namespace itself. Draws are NumPy's, the same in all of them.

    Raises ``ValueError`` for anything else, ``MissingExtra`` for a namespace that is not installed.
    """

    name: ClassVar[str] = "conditioned"
    seed: int = 0
    dtype: str = "float64"
    coarsest: int | None = None
    namespace: Any = "numpy"
    device: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", _checks.whole_number("seed", self.seed))
        object.__setattr__(self, "dtype", _checks.choice("dtype", self.dtype, PRECISIONS))
        Arrays(self.namespace, self.dtype, self.device)
        if self.coarsest is not None:
            object.__setattr__(self, "coarsest", _checks.whole_number("coarsest", self.coarsest, 1))

    def read(self, problem: Problem, keep: Keep, progress: Progress | None) -> LoweredRun:
        job, width = training(problem, keep), problem.neurons
        assert width is not None
        found: LoweredRun = placed(lambda: conditioned(
            job.program(), job.sizes(), job.data(), width, self.seed, job.task.loss, self.dtype,
            job.kept, progress,
            execution(ConditionedExecution, RefinedConditioned, refinement(problem, self.coarsest)),
            self.namespace, self.device))
        return found
