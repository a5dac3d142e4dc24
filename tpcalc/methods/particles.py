"""Infinite width by sampling: coordinates of vectors as particles."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .._types import Fields
from .. import _checks
from .._spread import require_executor
from ..errors import NotCovered
from ..interpreters.lowered_particles import LoweredParticles, ParticleExecution, particles, enough_samples
from ..interpreters.refined import RefinedParticles
from ..interpreters.training import BlockRecord, Keep, block_record, placed
from ..lowering import Arrays
from ..optimizers import NormalizedSGD
from ..training.problem import Problem
from ..results.sampled import CONFIDENCE, SampledDetails, joint_error
from .method import Progress
from .directions import networks_beside, require_directions, said_of_directions
from .fluctuations import PART, are_told, directions_are_sampled, fewest_part, require_batches
from .normalized import require_norms
from .sampled import ReadsProgram, execution, node_details, refinement, training


@dataclass(frozen=True)
class Particles(ReadsProgram):
    """Any block and optimizer at infinite width and finite depth, sampled: the mean over batches of particles.

    samples: particles in a batch; None stands for 4096, or 1024 for updates that average over pairs of particles
    (tp.Adam, tp.Lion, and tp.SignSGD on batches), and for more where a program makes many products with one matrix.
    batches: independent ones, at least 2. seed: of all that is drawn. executor: any ``concurrent.futures`` executor,
    for the batches; it decides nothing, and stays where it is when the method is pickled. ``progress`` is called with
    (batches done, batches). coarsest: a depth whose doublings share their draws, so that runs at them differ by the
    depth and little else; None draws anew at every depth. With a tp.NormalizedSGD a quarter of the samples is run
    beside, and at least 4 batches are needed: only so is a norm told from a fluctuation. So it is with
    tp.Muon where no rule counts directions (positions, skips and places of norms that are not the usual ones), and with
    tp.Shampoo, tp.SOAP and other functions of whole matrices: as many real networks as batches, a quarter as wide, run
    beside.

    namespace, dtype, device: of the arrays, as in ``tpcalc.lowering.Arrays``: "numpy", "torch", "cupy" or "jax", or an
    array-API namespace itself. Draws are NumPy's, the same in all of them.

    Raises ``ValueError`` for anything else, ``MissingExtra`` for a namespace that is not installed.
    """

    name: ClassVar[str] = "particles"
    samples: int | None = None
    batches: int = 8
    seed: int = 0
    executor: Executor | None = None
    coarsest: int | None = None
    namespace: Any = "numpy"
    dtype: str = "float64"
    device: Any = None

    def __post_init__(self) -> None:
        for name, least in (("samples", 1), ("batches", 2), ("seed", 0), ("coarsest", 1)):
            value = getattr(self, name)
            if value is not None or name not in ("samples", "coarsest"):
                object.__setattr__(self, name, _checks.whole_number(name, value, least))
        Arrays(self.namespace, self.dtype, self.device)
        require_executor(self.executor)

    def __getstate__(self) -> Fields:
        return {**vars(self), "executor": None}

    def read(self, problem: Problem, keep: Keep, progress: Progress | None) -> LoweredParticles:
        job = training(problem, keep)
        if are_told(problem):
            require_batches(problem, self.batches)

        samples = self.samples
        if samples is None:
            samples = enough_samples(job.program(), job.sizes(), job.data(), job.task.loss, fewest_part(problem))

        def of(samples: int, keep: tuple[str, ...], progress: Progress | None) -> LoweredParticles:
            return placed(lambda: particles(
                job.program(), job.sizes(), job.data(), samples, self.seed, self.batches, job.task.loss,
                keep, self.executor, progress,
                execution(ParticleExecution, RefinedParticles, refinement(problem, self.coarsest)),
                self.namespace, self.dtype, self.device))

        found = of(samples, job.kept, progress)
        if isinstance(problem.opt, NormalizedSGD):
            try:
                fewer = of(samples // PART, (), None)
            except NotCovered as too_few:
                raise NotCovered(f"samples: got {found.samples} with {problem.opt!r}, whose norms are held against "
                                 f"those of a quarter of them: {too_few}") from None
            require_norms(problem, found, fewer)
        if directions_are_sampled(problem):
            networks = networks_beside(job, found.samples, self.batches, self.seed, self.executor)
            require_directions(problem, found, networks)
        return found

    def known(self, problem: Problem, found: LoweredParticles, layer_times: np.ndarray) -> SampledDetails:
        """Means over the batches."""
        return SampledDetails(tuple(node_details(training(problem), run, layer_times) for run in found.batches))

    def records(self, problem: Problem, found: LoweredParticles) -> tuple[BlockRecord, ...]:
        """Those of every batch."""
        return tuple(block_record(training(problem, Keep.BLOCKS), run) for run in found.batches)

    def error(self, found: LoweredParticles) -> float:
        """What holds all outputs with 95% confidence."""
        return joint_error(found.error_series("f"), self.batches)

    def notes(self, problem: Problem, found: LoweredParticles) -> tuple[str, ...]:
        return (f"mean of {self.batches} batches of {found.samples} particles; the error holds all outputs with "
                f"{CONFIDENCE:.0%} confidence", *said_of_directions(problem, found))
