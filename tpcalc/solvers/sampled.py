"""Training by sampling: real networks, of any width without their matrices, and particles at infinite width.

All run the Tensor Program of the network's training, so that they take every block and activation it can write.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
from scipy.stats import t as student

from ..interpreters.lowered_conditioned import conditioned
from ..interpreters.lowered_particles import particles
from ..interpreters.training import Training as Job, dense_record, placed, trained
from .details import DenseDetails, nearest_nodes, or_all_layers
from .run import Details, Run

Progress = Callable[[int, int], None]
CONFIDENCE = 0.95  # of the error estimate of particles


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
    def solve(keep: bool) -> Any:
        if method == "dense":
            return trained(job, width, seed, keep, progress)
        return placed(lambda: conditioned(job.program(), job.sizes(), job.data(), width, seed, job.task.loss, dtype,
                                          ("x", "dx") if keep else (), progress))

    solution = solve(keep)
    layer_times = or_all_layers(times, job.depth)
    kept = solution if keep else None

    def details() -> Details:
        return _details(job, kept or solve(True), layer_times)

    fluctuation = float(np.sqrt(np.max(solution.series("square")) / width))
    return Run(job.task, *job.outputs(solution.series("f")), layer_times, method, job.depth, width,
               fluctuation, linear=job.net.is_plain, details=details)


def train_particles(job: Job, samples: int | None, batches: int, seed: int, times: np.ndarray | None,
                    keep: bool, executor: Executor | None, progress: Progress | None) -> Run:
    """The mean over batches of particles; its error estimate holds all outputs with ``CONFIDENCE``."""
    def solve(keep: bool) -> Any:
        return placed(lambda: particles(job.program(), job.sizes(), job.data(), samples, seed, batches,
                                        job.task.loss, ("x", "dx") if keep else (), executor, progress))

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


def _details(job: Job, run: Any, layer_times: np.ndarray) -> DenseDetails:
    nodes = nearest_nodes(layer_times, job.depth)
    return DenseDetails(dense_record(job, run, nodes), nodes, job.depth)
