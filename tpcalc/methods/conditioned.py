"""Real networks of any width, known by what their matrices gave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .. import _checks
from ..interpreters.conditioned import PRECISIONS
from ..interpreters.lowered import LoweredRun
from ..interpreters.lowered_conditioned import conditioned
from ..interpreters.training import placed
from ..programs.problem import Problem
from .method import Progress
from .sampled import ReadsProgram, training


@dataclass(frozen=True)
class Conditioned(ReadsProgram):
    """One real network of finite width and depth, any block and optimizer, equal in law to a dense one: matrices are
    drawn as far as they are asked, so that no n x n array is needed.

    seed: of all that is drawn; dtype: "float64" or "float32". Raises ``ValueError`` for anything else.
    """

    name: ClassVar[str] = "conditioned"
    seed: int = 0
    dtype: str = "float64"

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", _checks.whole_number("seed", self.seed))
        object.__setattr__(self, "dtype", _checks.choice("dtype", self.dtype, PRECISIONS))

    def read(self, problem: Problem, keep: bool, progress: Progress | None) -> LoweredRun:
        job, width = training(problem), problem.neurons
        assert width is not None
        found: LoweredRun = placed(lambda: conditioned(
            job.program(), job.sizes(), job.data(), width, self.seed, job.task.loss, self.dtype,
            ("x", "dx") if keep else (), progress))
        return found
