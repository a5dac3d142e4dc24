"""Finite depth, exactly: rows go through the layers as what they reflect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._types import KeptNodes, Value
from .. import _checks
from ..propagators.muon import muon_updates
from ..propagators.reflection import PackedReflectionPropagator, ReflectionPropagator
from ..propagators.training import Trace, embedding_readout_memory, fewer_rows, train_rows
from ..optimizers import SGD, Muon
from ..optimizers.sgd import rows_per_step, update_kernel
from ..training.problem import Problem
from ..results.details import or_all_layers
from ..results.run import Details, Run
from .method import (Progress, each_step, propagator_details, refusal, require_known_directions, require_taken,
                     solution, wanted_times)


@dataclass(frozen=True)
class Reflection:
    """Linear networks at finite depth and infinite width, exactly: time and memory are linear in the depth."""

    name: ClassVar[str] = "reflection"

    def refuses(self, problem: Problem) -> str | None:
        """Anything but linear blocks of one matrix, by tp.SGD or tp.Muon, at finite depth and infinite width."""
        return refusal(self.name, problem)

    def solve(self, problem: Problem, keep_nodes: KeptNodes = None, progress: Progress | None = None) -> Run:
        """Train; the error estimate is round-off. Raises ``MemoryError`` before the work."""
        require_taken(self, problem)
        depth = problem.layers
        assert depth is not None
        times = or_all_layers(wanted_times(keep_nodes, problem), depth)
        samples = fewer_rows(problem.of_vectors) if keep_nodes is None else "plain"
        trace, propagator, notes = _train(problem, samples, progress)
        round_off = float(max(trace.mismatch, np.finfo(float).eps * np.max(np.abs(trace.outputs))))
        kept = None if keep_nodes is None else propagator_details(problem, trace.outputs, propagator)
        return Run(problem.of_vectors, trace.outputs, trace.probe_outputs, times, self.name, depth, None, round_off,
                   notes, exact=True, details=solution(self, problem, trace.outputs, times, kept), problem=problem)

    def details(self, problem: Problem, outputs: np.ndarray, layer_times: np.ndarray) -> Details:
        """The propagator of all nodes, by training once more."""
        return propagator_details(problem, outputs, _train(problem, "plain", None)[1])


def _train(problem: Problem, samples: str, progress: Progress | None) -> tuple[Trace, Value, tuple[str, ...]]:
    """What came out, the propagator with what it learned, and notes; samples: how rows stand for inputs."""
    task, opt, depth = problem.of_vectors, problem.opt, problem.layers
    assert depth is not None and isinstance(opt, (SGD, Muon))
    b = rows_per_step(task, samples)
    linear = isinstance(opt, SGD)
    stacks = 12.0 if not linear else 5.0 if b == 1 else 10.0  # ten of triangles, or of matrices, and of weights
    _checks.memory(stacks * 8 * (depth + 1) * (b * task.steps) ** 2, f"method='reflection' at depth {depth}",
                   "fewer steps, a smaller batch or a smaller depth fit")
    rho, w = opt.memory(task.steps)
    between = np.repeat(rho, b), update_kernel(w, task, samples)
    physics = problem.depth_scaling.multiplier(depth), problem.depth_scaling.update_factor(depth), *between
    updates = muon_updates(opt, problem.resnet, task.steps)
    packed = b == 1 and updates is None
    propagator = PackedReflectionPropagator(depth,
                                            *physics) if packed else ReflectionPropagator(depth, b, *physics, updates)
    ends = embedding_readout_memory(problem.net.train_embedding_readout, *between)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is a Divergence
        trace = train_rows(task, propagator, samples, each_step(progress, problem), ends)
    require_known_directions(problem, trace.outputs)
    notes = () if updates is None else (updates.note(),)
    return trace, propagator.solution() if isinstance(propagator, PackedReflectionPropagator) else propagator, notes
