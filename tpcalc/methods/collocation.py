"""Infinite depth: the equations in layer time, solved on elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._types import KeptNodes, Value
from ..errors import Divergence
from ..media.block_limit import block_limit
from ..media.collocation import solve_limit
from ..media.training import fewer_rows
from ..programs import SGD
from ..programs.problem import Problem
from ..results.run import Details, Run
from .method import (Progress, each_step, misplaced, not_sums_of_outer_products, one_exponent, reason_of, require,
                     wanted_times)
from .solution import Solution, medium_details

TOLERANCE = 1e-12        # of outputs
BLOCK_TOLERANCE = 1e-9   # a kink is singular where inputs are collinear: digits cost elements there
ONLY_ENDS = ("the blocks' updates of size L^-gamma add up to nothing: read-in and read-out learn, between blocks that "
             "stay at initialisation")


@dataclass(frozen=True)
class Collocation:
    """Infinite width and depth, without sampling: linear blocks, and every block that closes on kernels.

    Where there is no limit the problem is taken, and ``solve`` says so by ``Divergence``: that is an answer.
    """

    name: ClassVar[str] = "collocation"

    def refuses(self, problem: Problem) -> str | None:
        """Finite depth or width, optimizers other than tp.SGD, and blocks that do not close on kernels."""
        reason = (misplaced(self.name, problem, infinite_depth=True) or one_exponent(self.name, problem)
                  or not_sums_of_outer_products(self.name, problem))
        if reason is not None:
            return reason
        try:
            return reason_of(lambda: _limit(problem))
        except (Divergence, MemoryError):  # solve raises them
            return None

    def solve(self, problem: Problem, keep_nodes: KeptNodes = None, progress: Progress | None = None) -> Run:
        """Train; the error estimate is that of the discretisation. Raises ``Divergence`` where there is no limit."""
        require(self, problem)
        times = wanted_times(keep_nodes, problem)
        cell, block = _limit(problem)
        linear, task = block.is_linear, problem.of_vectors
        # rows for every output stand for batches through linearity
        trace, medium, error = _train(problem, fewer_rows(task) if keep_nodes is None and linear else "plain", progress)
        times = medium.layer_times if times is None else times
        kept = None if keep_nodes is None else medium_details(problem, trace.outputs, medium, linear)
        notes = (ONLY_ENDS,) if problem.net.train_ends and cell.drift == 0 else cell.notes
        return Run(task, trace.outputs, trace.probe_outputs, times, self.name, None, None, float(error), notes,
                   linear=linear, exact=True, details=Solution(self, problem, trace.outputs, times, kept),
                   problem=problem)

    def details(self, problem: Problem, outputs: np.ndarray, layer_times: np.ndarray) -> Details:
        """The medium of all nodes, by training once more."""
        linear = _limit(problem)[1].is_linear
        return medium_details(problem, outputs, _train(problem, "plain", None)[1], linear)


def _limit(problem: Problem) -> Value:
    assert isinstance(problem.opt, SGD)
    return block_limit(problem.resnet, problem.of_vectors, problem.opt, problem.depth_scaling)


def _train(problem: Problem, samples: str, progress: Progress | None) -> Value:
    """(trace, medium, error); samples: how rows stand for inputs."""
    cell, block = _limit(problem)
    tolerance = TOLERANCE if block.is_linear else BLOCK_TOLERANCE
    assert isinstance(problem.opt, SGD)
    return solve_limit(problem.of_vectors, problem.opt, cell.noise, cell.drift, samples, tolerance,
                       each_step(progress, problem), block, problem.net.train_ends)
