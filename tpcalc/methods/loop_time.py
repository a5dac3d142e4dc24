"""Linear networks whose layers are visited infinitely often, exactly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import sympy as sp

from .._types import KeptNodes
from ..optimizers import SGD
from ..propagators.limit_cell import limit_cell
from ..propagators.loop_time import train_in_loop_time
from ..results.run import Run
from ..training.problem import Problem
from .method import Progress, outputs_alone, refusal, require_outputs_alone


@dataclass(frozen=True)
class LoopTime:
    """Infinite width and infinitely many visits in cycles, linear blocks of one matrix, at any depth: exactly.

    Layers are then one matrix in loop time, so that the depth enters through powers of L alone. Takes tp.SGD, and
    frozen embedding and readout; outputs alone are known. Source: [tpcalc/loops].

    >>> import tpcalc as tp
    >>> task = tp.Task(inputs=[1, 0.8], targets=[1, -0.7])
    >>> run = tp.train(tp.ResNet(visits=tp.oo), task, tp.SGD(1.0), tp.DepthScaling(), depth=4)
    >>> run.method, round(float(run.outputs[1, 0, 0]), 6)
    ('loop_time', 1.272509)
    """

    name: ClassVar[str] = "loop_time"

    def refuses(self, problem: Problem) -> str | None:
        """A number of visits, visits in blocks, what is added at every visit, other blocks than linear ones of one
        matrix, trained embedding and readout, and other optimizers than tp.SGD."""
        net = problem.net
        if net.visits == sp.oo and net.order != "cycle" or net.inject:
            return (f"order, inject: got {net.order!r} and {net.inject} with infinitely many visits; "
                    f"method={self.name!r} takes 'cycle' and 0")
        return refusal(self.name, problem)

    def solve(self, problem: Problem, keep_nodes: KeptNodes = None, progress: Progress | None = None) -> Run:
        """Train; raises ``Divergence`` where there is no limit of infinite depth, or the solution blows up, and
        ``NotCovered`` for ``keep_nodes``."""
        require_outputs_alone(self, problem, keep_nodes)
        assert isinstance(problem.opt, SGD)
        scale, depth = problem.depth_scaling, problem.layers
        notes: tuple[str, ...] = ()
        if depth is None:
            cell = limit_cell(scale)  # all layers are one matrix: visits put no power of L in
            noise, drift, notes = cell.noise, cell.drift, cell.notes
        else:
            eps = abs(scale.multiplier(depth))
            noise, drift = depth * eps**2, depth * eps * scale.update_size(depth)
        found = train_in_loop_time(problem.of_vectors, problem.opt, noise, drift)
        if progress is not None:
            progress(problem.task.steps, problem.task.steps)
        run = outputs_alone(problem, self.name, found.outputs, found.error, found.probe_outputs,
                            (f"{found.nodes} nodes of loop time", *notes))
        return replace(run, exact=True)
