"""Infinite depth: the equations in layer time, solved on elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._types import KeptNodes
from ..errors import Divergence
from ..propagators.blocks import BlockKernels
from ..propagators.collocation import TrainedLimit, solve_limit
from ..propagators.limit_cell import LimitCell, infinite_depth_problem
from ..propagators.muon import MuonUpdates, muon_updates, require_mixing_block
from ..propagators.training import fewer_rows
from ..optimizers import SGD, Muon
from ..training.problem import Problem
from ..results.run import Details, Run
from .method import (Progress, each_step, propagator_details, reason_of, refusal, require_known_directions,
                     require_taken, solution, wanted_times)

TOLERANCE = 1e-12        # of outputs
BLOCK_TOLERANCE = 1e-9   # a kink is singular where inputs are collinear: digits cost elements there
# where Gram matrices of several steps lose their rank, at both ends, what a layer adds goes like one over the distance
SHRINKING = tuple(2.0**-k for k in range(10, 0, -1))
GRADED = (0.0, *SHRINKING, *(1 - x for x in reversed(SHRINKING[:-1])), 1.0)
ONLY_EMBEDDING_READOUT = ("the blocks' updates of size L^-gamma add up to nothing: embedding and readout learn, "
                          "between blocks that stay at initialization")


@dataclass(frozen=True)
class Collocation:
    """Infinite width and depth, without sampling: linear blocks, and every block that closes on kernels.

    With tp.Muon linear blocks and phi(W x): weights of a layer's outer products are functions of its Gram matrices.

    Where there is no limit the problem is taken, and ``solve`` says so by ``Divergence``: that is an answer.
    """

    name: ClassVar[str] = "collocation"

    def refuses(self, problem: Problem) -> str | None:
        """Finite depth or width, optimizers other than tp.SGD and tp.Muon, and blocks that do not close on kernels."""
        reason = refusal(self.name, problem)
        if reason is not None:
            return reason
        try:
            return reason_of(lambda: _limit(problem))
        except (Divergence, MemoryError):  # solve raises them
            return None

    def solve(self, problem: Problem, keep_nodes: KeptNodes = None, progress: Progress | None = None) -> Run:
        """Train; the error estimate is that of the discretization. Raises ``Divergence`` where there is no limit."""
        require_taken(self, problem)
        times = wanted_times(keep_nodes, problem)
        cell, block, _ = _limit(problem)
        linear, task = block.is_linear, problem.of_vectors
        # rows for every output stand for batches through linearity
        samples = fewer_rows(task) if keep_nodes is None and linear else "plain"
        (trace, propagator, error), said = _train(problem, samples, progress)
        times = propagator.layer_times if times is None else times
        kept = None if keep_nodes is None else propagator_details(problem, trace.outputs, propagator, linear)
        notes = ((ONLY_EMBEDDING_READOUT,
                  ) if problem.net.train_embedding_readout and cell.drift == 0 else cell.notes) + said
        return Run(task, trace.outputs, trace.probe_outputs, times, self.name, None, None, float(error), notes,
                   linear=linear, exact=True, details=solution(self, problem, trace.outputs, times, kept),
                   problem=problem)

    def details(self, problem: Problem, outputs: np.ndarray, layer_times: np.ndarray) -> Details:
        """The propagator of all nodes, by training once more."""
        linear = _limit(problem)[1].is_linear
        return propagator_details(problem, outputs, _train(problem, "plain", None)[0][1], linear)


def _limit(problem: Problem) -> tuple[LimitCell, BlockKernels, MuonUpdates | None]:
    """The limit of infinite depth: what survives, the block's kernels, and what Muon's updates are made of."""
    opt = problem.opt
    assert isinstance(opt, (SGD, Muon))
    require_mixing_block(problem.resnet, opt)
    cell, block = infinite_depth_problem(problem.resnet, problem.of_vectors, opt, problem.depth_scaling)
    return cell, block, muon_updates(opt, problem.resnet, problem.of_vectors.steps, block)


def _train(problem: Problem, samples: str, progress: Progress | None) -> tuple[TrainedLimit, tuple[str, ...]]:
    """The trained network, and notes; samples: how rows stand for inputs."""
    cell, block, updates = _limit(problem)
    opt = problem.opt
    assert isinstance(opt, (SGD, Muon))
    graded = isinstance(opt, Muon) and opt.momentum != 0
    tolerance = TOLERANCE if block.is_linear and not graded else BLOCK_TOLERANCE
    found = solve_limit(problem.of_vectors, opt, cell.noise, cell.drift, samples, tolerance,
                        each_step(progress, problem), block, problem.net.train_embedding_readout, updates=updates,
                        ends=GRADED if graded else (0.0, 1.0))
    if updates is None:
        return found, ()
    require_known_directions(problem, found.trace.outputs, found.error)
    return found, (updates.note(),)
