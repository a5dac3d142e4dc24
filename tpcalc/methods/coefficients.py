"""The oracle: every ket over all that is random, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._types import KeptNodes
from ..interpreters import Coefficients as Record, read_coefficients
from ..programs import SGD
from ..programs.problem import Problem
from ..results.details import CoefficientDetails, or_all_layers
from ..results.run import Details, Run
from .method import Progress, not_linear, require, wanted_times
from .solution import Solution


@dataclass(frozen=True)
class Coefficients:
    """Linear networks at finite depth and infinite width, exactly and slowly: time T^3 L^2. Never taken by "auto"
    where reflection is, which answers alike."""

    name: ClassVar[str] = "coefficients"

    def refuses(self, problem: Problem) -> str | None:
        """Anything but linear blocks of one matrix, trained by tp.SGD, at finite depth and infinite width."""
        return not_linear(self.name, problem)

    def solve(self, problem: Problem, keep_nodes: KeptNodes = None, progress: Progress | None = None) -> Run:
        """Train; the error estimate is round-off."""
        require(self, problem)
        task, depth = problem.task, problem.layers
        assert depth is not None
        times = or_all_layers(wanted_times(keep_nodes, problem), depth)
        found = _read(problem, progress)
        round_off = np.finfo(float).eps * depth * task.steps * max(1.0, float(np.max(np.abs(found.outputs))))
        kept = None if keep_nodes is None else CoefficientDetails(found)
        return Run(task, found.outputs, found.probe_outputs, times, self.name, depth, None, round_off, exact=True,
                   details=Solution(self, problem, found.outputs, times, kept), problem=problem)

    def details(self, problem: Problem, outputs: np.ndarray, layer_times: np.ndarray) -> Details:
        """The coefficients of all nodes, by training once more."""
        return CoefficientDetails(_read(problem, None))


def _read(problem: Problem, progress: Progress | None) -> Record:
    assert problem.layers is not None and isinstance(problem.opt, SGD)
    return read_coefficients(problem.task, problem.opt, problem.scale, problem.layers, progress,
                             problem.net.train_ends)
