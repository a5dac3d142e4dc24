"""The oracle: every ket over all that is random, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._types import KeptNodes
from .. import _checks
from ..interpreters import KetCoefficients as Record, read_coefficients
from ..interpreters.generated_coefficients import not_generated, read_generated
from ..optimizers import SGD
from ..training.problem import Problem
from ..results.details import CoefficientDetails, or_all_layers
from ..results.run import Details, Run
from .method import Progress, refusal, require_taken, wanted_times
from .solution import solution


@dataclass(frozen=True)
class Coefficients:
    """Linear networks at finite depth and infinite width, exactly and slowly: time T^3 L^2. Never taken by "auto"
    where reflection is, which answers alike.

    generated: whether the recursion is the one derived from the problem's program and compiled, with nothing written by
    hand. It answers alike, up to rounding; its first run for a shape of problem compiles for about ten seconds, which
    is why it is not the default. Raises ``ValueError`` for a value that is neither True nor False.

    >>> import tpcalc as tp
    >>> problem = tp.Problem(tp.ResNet(), tp.Task([1, 0.5], [1, -1]), tp.SGD(0.5), tp.DepthScaling(), depth=4)
    >>> tp.methods.Coefficients(generated=True).refuses(problem) is None
    True
    """

    name: ClassVar[str] = "coefficients"
    generated: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "generated", _checks.flag("generated", self.generated))

    def refuses(self, problem: Problem) -> str | None:
        """Anything but linear blocks of one matrix, trained by tp.SGD, at finite depth and infinite width; generated,
        also losses that have no expression."""
        return refusal(self.name, problem) or (not_generated(problem.of_vectors) if self.generated else None)

    def solve(self, problem: Problem, keep_nodes: KeptNodes = None, progress: Progress | None = None) -> Run:
        """Train; the error estimate is round-off."""
        require_taken(self, problem)
        task, depth = problem.of_vectors, problem.layers
        assert depth is not None
        times = or_all_layers(wanted_times(keep_nodes, problem), depth)
        found = self._read(problem, progress)
        round_off = np.finfo(float).eps * depth * task.steps * max(1.0, float(np.max(np.abs(found.outputs))))
        kept = None if keep_nodes is None else CoefficientDetails(found)
        return Run(task, found.outputs, found.probe_outputs, times, self.name, depth, None, round_off, exact=True,
                   details=solution(self, problem, found.outputs, times, kept), problem=problem)

    def details(self, problem: Problem, outputs: np.ndarray, layer_times: np.ndarray) -> Details:
        """The coefficients of all nodes, by training once more."""
        return CoefficientDetails(self._read(problem, None))

    def _read(self, problem: Problem, progress: Progress | None) -> Record:
        assert problem.layers is not None and isinstance(problem.opt, SGD)
        if not self.generated:
            return read_coefficients(problem.of_vectors, problem.opt, problem.depth_scaling, problem.layers, progress,
                                     problem.net.train_embedding_readout)
        found = read_generated(problem.of_vectors, problem.opt, problem.depth_scaling, problem.layers,
                               problem.net.train_embedding_readout)
        if progress is not None:
            progress(problem.of_vectors.steps, problem.of_vectors.steps)
        return found
