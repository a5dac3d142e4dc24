"""Training by sampling: real networks, of any width without their matrices, and particles at infinite width.

All run the Tensor Program of the network's training, so that they take every block and activation it can write.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, Callable

import numpy as np
import sympy as sp
from scipy.stats import t as student

from ..errors import Divergence
from ..interpreters import Dense, ProgramRun, run_conditioned, run_particles, run_program
from ..interpreters.execution import ProgramDivergence
from ..parametrizations import DepthScaling
from ..programs import ResNet, Task
from ..programs.activations import require_finite
from ..programs.builders import BATCH, L, T, program, vector
from ..programs.language import Family, Moment, Scal, Vec
from ..programs.indices import i
from ..programs.program import Assign, Loop, Program, Statement
from ..programs.updates import Optimizer
from .details import DenseDetails, nearest_nodes, or_all_layers
from .run import Details, Run

Progress = Callable[[int, int], None]
CONFIDENCE = 0.95  # of the error estimate of particles
SQUARE = Family(Scal, "square")  # of the features of the first step at the read-out


@dataclass(frozen=True)
class Job:
    """A training as a program with its sizes and data."""

    net: ResNet
    task: Task
    opt: Optimizer
    scale: DepthScaling
    depth: int

    def __post_init__(self) -> None:
        require_finite(self.net.phi)

    @property
    def probes(self) -> int:
        return 0 if self.task.probes is None else len(self.task.probes)

    @property
    def batched(self) -> bool:
        return self.task.batch > 1 or self.probes > 0

    def program(self) -> Program:
        """With one scalar more, for the scale of fluctuations."""
        written = program(self.net, self.opt, self.scale, self.batched, self.task.d_in, self.task.d_out, self.probes)
        first = (sp.Integer(0), i) if self.batched else (sp.Integer(0),)
        square: Statement = Assign(SQUARE[first], Moment(vector("x")[(*first, L)] ** 2))
        if self.batched:
            square = Loop(i, sp.Integer(0), BATCH - 1, (square,))
        return replace(written, body=(*written.body, square))

    def sizes(self) -> dict[sp.Symbol, int]:
        return {T: self.task.steps, L: self.depth, **({BATCH: self.task.batch} if self.batched else {})}

    def data(self) -> dict[str, np.ndarray]:
        """Probes are the last samples of every step."""
        task, inputs = self.task, self.task.inputs
        if task.probes is not None:
            again = np.broadcast_to(task.probes, (task.steps, *task.probes.shape))
            inputs = np.concatenate([inputs, again], axis=1)
        rates = {"eta": self.opt.schedule(task.steps)} if isinstance(self.opt.lr, tuple) else {}
        return {"xi": self._without_ones(inputs), "y": self._without_ones(task.targets), **rates}

    def _without_ones(self, values: np.ndarray) -> np.ndarray:
        """Of shape (steps, samples, dimension), as the program reads it."""
        values = values[:, :, 0] if values.shape[2] == 1 else values
        return values if self.batched else values[:, 0]

    def vectors(self, run: ProgramRun, name: str, nodes: np.ndarray) -> np.ndarray:
        """x or dx at the nodes, shape (nodes, steps * batch, n)."""
        return np.array([[run.vectors[self._x(name, row, node)] for row in range(self.task.steps * self.task.batch)]
                         for node in map(int, nodes)])

    def outputs(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """f as outputs of the batch and of the probes, shapes (steps, batch or probes, d_out)."""
        every = values.reshape(self.task.steps, self.task.batch + self.probes, self.task.d_out)
        return every[:, :self.task.batch], every[:, self.task.batch:] if self.probes else None

    def _x(self, name: str, row: int, node: Any) -> Vec:
        step, sample = divmod(row, self.task.batch)
        return vector(name)[(step, sample, node) if self.batched else (step, node)]


@dataclass(frozen=True)
class SampledDetails:
    """Means over batches of particles, each of which answers like a real network."""

    batches: tuple[DenseDetails, ...]

    def covariance(self, forward: bool, layer_times: np.ndarray) -> np.ndarray:
        return np.mean([batch.covariance(forward, layer_times) for batch in self.batches], axis=0)

    def gamma(self, row_t: int, row_s: int, a: int, b: int, p: float, q: float) -> float:
        raise ValueError("gamma: sampled kets have no coefficients; nor have those of nonlinear networks")

    def c(self, row_t: int, row_s: int, a: int, p: float) -> float:
        raise ValueError("c: sampled kets have no base kets; see forward_covariance and backward_covariance")

    def cross_covariance(self, row_t: int, row_s: int, a: int, b: int, p: float, q: float) -> float:
        return float(np.mean([batch.cross_covariance(row_t, row_s, a, b, p, q) for batch in self.batches]))

    def difference(self, row: int, a: int, p: float, length: float) -> float:
        return float(np.sqrt(np.mean([batch.difference(row, a, p, length) ** 2 for batch in self.batches])))


def train_real(job: Job, method: str, width: int, seed: int, dtype: str, times: np.ndarray | None, keep: bool,
               progress: Progress | None) -> Run:
    """One real network, dense or conditioned; its error estimate is the scale of what distinguishes two seeds."""
    def solve(keep: bool) -> ProgramRun:
        what = (job.program(), job.sizes(), job.data(), width, seed, job.task.loss)
        if method == "dense":
            return placed(lambda: run_program(*what, progress=progress))
        return placed(lambda: run_conditioned(*what, dtype, ("x", "dx") if keep else (), progress))

    solution = solve(keep)
    layer_times = or_all_layers(times, job.depth)
    kept = solution if keep else None  # runs are light: a dense one would hold its matrices

    def details() -> Details:
        return _details(job, kept or solve(True), layer_times)

    fluctuation = float(np.sqrt(np.max(solution.series("square")) / width))
    return Run(job.task, *job.outputs(solution.series("f")), layer_times, method, job.depth, width,
               fluctuation, linear=job.net.is_plain, details=details)


def train_particles(job: Job, samples: int | None, batches: int, seed: int, times: np.ndarray | None,
                    keep: bool, executor: Executor | None, progress: Progress | None) -> Run:
    """The mean over batches of particles; its error estimate holds all outputs with ``CONFIDENCE``."""
    def solve(keep: bool) -> Any:
        return placed(lambda: run_particles(job.program(), job.sizes(), job.data(), samples, seed, batches,
                                            job.task.loss, ("x", "dx") if keep else (), executor=executor,
                                            progress=progress))

    solution = solve(keep)
    layer_times = or_all_layers(times, job.depth)

    def details() -> Details:
        known = solution if keep else solve(True)
        return SampledDetails(tuple(_details(job, run, layer_times) for run in known.batches))

    error = joint_error(solution.error_series("f"), batches)
    return Run(job.task, *job.outputs(solution.series("f")), layer_times, "particles", job.depth, None, error,
               (f"mean of {batches} batches of {solution.samples} particles; the error holds all outputs with "
                f"{CONFIDENCE:.0%} confidence",),
               linear=job.net.is_plain, details=details)


def joint_error(errors: np.ndarray, batches: int) -> float:
    """What all means are within, with ``CONFIDENCE``: the largest standard error times a quantile of Student's.

    errors: standard errors, each from the spread of so few batches, which is what Student's distribution is for; the
    chance to be farther off is divided among the means that are random at all (Bonferroni).
    """
    random = max(1, int(np.count_nonzero(errors)))
    return float(np.max(errors) * student.ppf(1 - (1 - CONFIDENCE) / (2 * random), batches - 1))


def _details(job: Job, run: ProgramRun, layer_times: np.ndarray) -> DenseDetails:
    nodes = nearest_nodes(layer_times, job.depth)
    x, delta = (job.vectors(run, name, nodes) for name in ("x", "dx"))
    return DenseDetails(Dense(*job.outputs(run.series("f")), x, delta, 0.0), nodes, job.depth)


def placed(work: Callable[[], Any]) -> Any:
    """Name the training step, and the layer of a vector, where a program diverges."""
    try:
        return work()
    except ProgramDivergence as problem:
        step, *inner = map(int, problem.target.indices)
        layered = isinstance(problem.target, Vec) and bool(int(problem.target.args[2]))
        layer = inner[-1] if layered and inner else None
        where = f"training diverges at step {step}" + ("" if layer is None else f", layer {layer}")
        raise Divergence(f"{where}: {problem.target} is not finite", step, layer) from None
