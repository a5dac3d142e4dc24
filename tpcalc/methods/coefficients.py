"""The oracle: every ket over all that is random, layer by layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .._types import KeptNodes
from .. import _checks
from ..interpreters import KetCoefficients as Record, read_coefficients
from ..interpreters.generated_coefficients import not_generated, read_generated
from ..errors import NotCovered
from ..optimizers import SGD
from ..scaling import DepthScaling
from ..training.problem import Problem
from ..results.details import CoefficientDetails, or_all_layers
from ..results.run import Details, Run
from .linear_programs import ProgramDetails, knows_stream, outputs_of, products_of, read_program, too_many
from .method import Progress, outputs_alone, reason_of, refusal, require_taken, solution, wanted_times


@dataclass(frozen=True)
class Coefficients:
    """Linear networks at finite depth and infinite width, exactly and slowly: time T^3 L^2. Never taken by "auto"
    where reflection is, which answers alike. Networks of other linear blocks, skips or visits are read from their
    programs, at most 6,000 products of matrices with vectors; of several visits or streams outputs alone are known.

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
        """Networks that are not linear, optimizers that are not, and trainings of too many products; generated, also
        other blocks than linear ones of one matrix, and losses that have no expression."""
        reason = refusal(self.name, problem)
        if reason is not None:
            return reason
        if not self.generated:
            return None if _is_one_matrix(problem) else too_many(self.name, problem)
        return reason_of(lambda: problem.net.require_plain("generated=True", trained_embedding_readout=True)) or (
            not_generated(problem.of_vectors))

    def solve(self, problem: Problem, keep_nodes: KeptNodes = None, progress: Progress | None = None) -> Run:
        """Train; the error estimate is round-off."""
        require_taken(self, problem)
        if not _is_one_matrix(problem):
            return self._of_program(problem, keep_nodes, progress)
        task, depth = problem.of_vectors, problem.layers
        assert depth is not None
        times = or_all_layers(wanted_times(keep_nodes, problem), depth)
        found = self._read(problem, progress)
        round_off = np.finfo(float).eps * depth * task.steps * max(1.0, float(np.max(np.abs(found.outputs))))
        kept = None if keep_nodes is None else CoefficientDetails(found)
        return Run(task, found.outputs, found.probe_outputs, times, self.name, depth, None, round_off, exact=True,
                   details=solution(self, problem, found.outputs, times, kept), problem=problem)

    def _of_program(self, problem: Problem, keep_nodes: KeptNodes, progress: Progress | None) -> Run:
        if keep_nodes is not None and not knows_stream(problem):
            raise NotCovered(f"keep_nodes: got {keep_nodes!r} for {problem.net!r}; method={self.name!r} knows outputs "
                             "alone of layers that are visited several times, and of several streams; expected None")
        assert problem.layers is not None
        found = read_program(problem)
        if progress is not None:
            progress(problem.task.steps, problem.task.steps)
        outputs, probes = outputs_of(problem, found)
        round_off = np.finfo(float).eps * products_of(problem) * max(1.0, float(np.max(np.abs(outputs))))
        run = replace(outputs_alone(problem, self.name, outputs, round_off, probes), exact=True)
        if not knows_stream(problem):
            return run
        times = or_all_layers(wanted_times(keep_nodes, problem), problem.layers)
        kept = None if keep_nodes is None else ProgramDetails.of(problem, found, times)
        return replace(run, layer_times=times, details=solution(self, problem, outputs, times, kept))

    def details(self, problem: Problem, outputs: np.ndarray, layer_times: np.ndarray) -> Details:
        """The coefficients of all nodes, by training once more."""
        if not _is_one_matrix(problem):
            return ProgramDetails.of(problem, read_program(problem), layer_times)
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


def _is_one_matrix(problem: Problem) -> bool:
    """Is it the network whose coefficients have a recursion of their own?"""
    return problem.net.is_plain and isinstance(problem.scale, DepthScaling)
