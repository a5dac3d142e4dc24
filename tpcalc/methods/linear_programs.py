"""Linear networks of any make: the coefficients of their programs, at a depth, and extrapolated to infinite depth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from .._types import KeptNodes
from .. import _checks
from ..errors import Divergence
from ..interpreters.program_coefficients import ProgramCoefficients, read_program_coefficients
from ..interpreters.training import DenseRecord, placed
from ..programs.blocks import vector
from ..programs.language import MatVec
from ..propagators.training import require_known
from ..results.details import DenseDetails, nearest_nodes
from ..results.run import Run
from ..training.problem import Problem
from ..propagators.depth_orders import depth_orders
from ..propagators.extrapolation import depth_weights
from .method import Progress, outputs_alone, reason_of, refusal, require_outputs_alone
from .sampled import training

MOST = 6_000  # products of matrices with vectors, whose squares are held
LEVELS = 7     # doublings of the coarsest depth
FEWEST = 3     # depths


def products_of(problem: Problem) -> int:
    """How many products of matrices with vectors a training makes."""
    job = training(problem)
    sizes = {size: 1 for size in job.program().sizes}
    alone = sum(len(one.value.atoms(MatVec)) for one in job.program().unroll(sizes))
    rows = problem.task.steps * (problem.task.batch + job.probes)
    return int(alone * rows * problem.net.visits * (problem.layers or 1))


def too_many(name: str, problem: Problem) -> str | None:
    """Why coefficients of a program would take too long, or None."""
    count = products_of(problem)
    return None if count <= MOST else (
        f"depth: got {problem.layers} with {problem.task.steps} steps and {problem.net.visits} visits, {count} "
        f"products of matrices with vectors; method={name!r} holds the square of that, and takes at most {MOST}")


def read_program(problem: Problem) -> ProgramCoefficients:
    """The program of the training at infinite width, exactly."""
    job = training(problem)
    found: ProgramCoefficients = placed(lambda: read_program_coefficients(
        job.program(), job.sizes(), job.data(), job.task.loss), job.depth)
    return found


def outputs_of(problem: Problem, found: ProgramCoefficients) -> tuple[np.ndarray, np.ndarray | None]:
    """Outputs of the batch and of the probes."""
    job = training(problem)
    values = {one.indices: float(value) for one, value in found.scalars.items() if one.name == "f"}
    ordered = sorted(values, key=lambda indices: tuple(map(int, indices)))
    return job.outputs(np.array([values[indices] for indices in ordered]))


class ProgramDetails(DenseDetails):
    """Covariances of a stream that was read from a program: vectors whose averages over coordinates they are."""

    why = "its kets were read from its program; expected a network of one matrix a block, visited once"

    @classmethod
    def of(cls, problem: Problem, found: ProgramCoefficients, layer_times: np.ndarray) -> ProgramDetails:
        job, covariance = training(problem), found.covariance
        nodes, task = nearest_nodes(layer_times, job.depth), problem.task
        rows = [(t, *((i,) if job.batched else ())) for t in range(task.steps) for i in range(task.batch)]

        def averaged(name: str) -> np.ndarray:
            kets = np.array([found.ket(vector(name)[(*row, int(node))]) for node in nodes for row in rows])
            values, turned = np.linalg.eigh(kets @ covariance @ kets.T)
            roots = turned * np.sqrt(np.maximum(values, 0.0) * len(values))
            return roots.reshape(len(nodes), len(rows), len(values))

        outputs, probes = outputs_of(problem, found)
        return cls(DenseRecord(outputs, probes, averaged("x"), averaged("dx"), 0.0), nodes, job.depth)


def knows_stream(problem: Problem) -> bool:
    """Is there one stream that goes through every layer once, of which covariances are?"""
    return problem.net.visits == 1 and problem.net.reads_one_stream and len(problem.net.streams) == 1


@dataclass(frozen=True)
class Extrapolated:
    """Linear networks at infinite width and depth: exact at doubling depths, extrapolated in the powers of 1/L that are
    derived for them.

    tolerance: wanted of ``run.error_estimate``, which is what the last depth changes, or would if changes fell as those
    before it did; depths are added until it is reached, or until a training makes more than 6,000 products of matrices
    with vectors, which the notes say then. coarsest: the first depth.

    Raises ``ValueError`` for a tolerance that is not positive and a coarsest depth below 1.

    >>> import tpcalc as tp
    >>> task = tp.Task(inputs=[1, 0.8], targets=[1, -0.7])
    >>> run = tp.train(tp.ResNet(visits=2), task, tp.SGD(1.0), tp.DepthScaling(), depth=tp.oo)
    >>> run.method, round(float(run.outputs[1, 0, 0]), 6), run.error_estimate < 1e-6
    ('extrapolated', 1.445954, True)
    """

    name: ClassVar[str] = "extrapolated"
    tolerance: float = 1e-6
    coarsest: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "tolerance", _checks.positive_number("tolerance", self.tolerance))
        object.__setattr__(self, "coarsest", _checks.whole_number("coarsest", self.coarsest, 1))

    def refuses(self, problem: Problem) -> str | None:
        """Networks that are not linear, optimizers that are not, and trainings that make too many products at the first
        depths."""
        reason = refusal(self.name, problem)
        if reason is not None:
            return reason
        try:
            reason = reason_of(lambda: depth_orders(problem.net, problem.scale))
        except Divergence:  # solve raises it
            return None
        return reason or too_many(self.name, replace(problem, depth=self.coarsest * 2 ** (FEWEST - 1)))

    def solve(self, problem: Problem, keep_nodes: KeptNodes = None, progress: Progress | None = None) -> Run:
        """Train; raises ``Divergence`` where there is no limit, or no digit of it is found, ``NotCovered`` for
        ``keep_nodes``: outputs alone are extrapolated. progress: called with (depths done, depths at most)."""
        require_outputs_alone(self, problem, keep_nodes)
        orders, values = depth_orders(problem.net, problem.scale), list[np.ndarray]()
        limit, error, changes = np.zeros(0), np.inf, list[float]()
        for level in range(LEVELS):
            there = replace(problem, depth=self.coarsest * 2**level)
            if too_many(self.name, there) is not None:
                break
            outputs, probes = outputs_of(there, read_program(there))
            values.append(outputs if probes is None else np.concatenate([outputs, probes], axis=1))
            if progress is not None:
                progress(level + 1, LEVELS)
            before, limit = limit, np.tensordot(depth_weights(np.array(orders.first(level))), values, axes=(0, 0))
            if level:
                changes.append(float(np.max(np.abs(limit - before))))
            if len(values) >= FEWEST:
                error = error_of(changes)
                if error <= self.tolerance:
                    break
        require_known(error, float(np.max(np.abs(values[-1]))), f"the infinite-depth limit is not found from "
                      f"{len(values)} depths", "method='common_draws' or a smaller learning rate may help")
        depths = ", ".join(str(self.coarsest * 2**level) for level in range(len(values)))
        powers = ", ".join(f"{power:.3g}" for power in orders.first(len(values) - 1))
        notes: tuple[str, ...] = (f"exact at depths {depths}, extrapolated in the powers {powers} of 1/L",)
        if error > self.tolerance:
            notes += (f"the tolerance {self.tolerance:g} is not reached with {MOST} products of matrices with vectors: "
                      f"the error is {error:.2g}",)
        batch = problem.task.batch
        return outputs_alone(problem, self.name, limit[:, :batch], error,
                             limit[:, batch:] if problem.task.probes is not None else None, (*notes, *orders.notes))


def error_of(changes: list[float]) -> float:
    """How far the last of several limits may be off, from the changes between them: at least two.

    The last change may be small by accident, where corrections cancel. So it counts for at least what the one before it
    leads to expect, if changes fall as these did.

    >>> error_of([1.0, 0.1, 0.01]), error_of([1.0, 0.5, 0.001])
    (0.010000000000000002, 0.25)
    """
    *_, before, last = changes
    falls = min(1.0, before / changes[-3]) if len(changes) > 2 and changes[-3] > 0 else 1.0
    return max(last, before * falls)
