"""Infinite width by sampling: coordinates of vectors as particles."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, ClassVar, Iterator, Sequence

import numpy as np

from .._types import Fields
from .. import _checks
from .._spread import require_executor, results_in_order
from ..errors import Divergence, NotCovered
from ..interpreters.given import whole_heads
from ..interpreters.lowered import LoweredRun
from ..interpreters.lowered_conditioned import conditioned
from ..interpreters.lowered_particles import LoweredParticles, ParticleExecution, particles, enough_samples
from ..interpreters.refined import RefinedParticles
from ..interpreters.training import BlockRecord, Keep, Training, block_record, placed
from ..lowering import Arrays
from ..optimizers import Muon, NormalizedSGD
from ..programs.language import Member
from ..programs.special import at_infinite_width
from ..training.problem import Problem
from ..results.sampled import CONFIDENCE, SampledDetails, joint_error
from .method import Progress
from .fluctuations import FALLS, PART, SPREAD, are_told, directions_are_sampled, fewest_part, require_batches
from .normalized import require_norms
from .sampled import ReadsProgram, execution, node_details, refinement, training

ROUNDED = 1e-12  # of the largest singular value: gradients below are rounding, of matrices without any
ALLOWED = ("expected loss derivatives that differ from 0 in every direction, rows that are not nearly parallel, more "
           "samples{}, or a finite width")


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


def networks_beside(job: Training, samples: int, networks: int, seed: int, executor: Executor | None
                    ) -> tuple[LoweredRun, ...]:
    """Real networks, a quarter as wide as there are particles: orthogonal draws of particles, however few, make exactly
    0 of directions that fluctuate in these. Weights that would be on spheres are free: directions are the same."""
    width = whole_heads(job.program(), max(samples // PART, 1))
    return tuple(results_in_order(executor, _network, [(job, width, seed + number) for number in range(networks)]))


def _network(what: tuple[Training, int, int]) -> LoweredRun:
    job, width, seed = what
    return placed(lambda: conditioned(at_infinite_width(job.program()), job.sizes(), job.data(), width, seed,
                                      job.task.loss))


def require_directions(problem: Problem, found: LoweredParticles, networks: Sequence[LoweredRun]) -> None:
    """Raise ``Divergence`` with step and layer where what a step divides by, singular values of tp.Muon, cannot be told
    from a fluctuation: where networks have more or fewer of them than particles, where one falls with the width, or
    where batches do not agree on it."""
    allowed = ALLOWED.format(", a larger eps" if hasattr(problem.opt, "eps") else "")
    it = "its singular value" if isinstance(problem.opt, Muon) else "it"
    narrow, rates = dict(_spectra(networks)), problem.opt.schedule(problem.task.steps)
    for member, ours in _spectra(found.batches):
        step, layer = int(member.indices[0]) - 1, int(member.indices[-1])
        if not rates[step]:
            continue
        others = narrow[member]
        what = f"opt: got {problem.opt!r}; at step {step}, layer {layer} {_of(problem, member)} may be a fluctuation"
        counts, beside = (sorted({len(values) for values in runs}) for runs in (ours, others))
        if counts != beside or len(counts) > 1:
            raise Divergence(f"{what}: {found.samples} particles have {_words(counts)}, networks of width "
                             f"{networks[0].width} have {_words(beside)}; {allowed}", step, layer)
        values, spreads, narrower = np.mean(ours, axis=0), np.std(ours, axis=0, ddof=1), np.mean(others, axis=0)
        for value, spread, before in zip(values, spreads, narrower):
            if spread > SPREAD * value or before > FALLS * value:
                raise Divergence(f"{what}: {it} is {value:.2e} +- {spread:.1e} in {found.samples} "
                                 f"particles, {before:.2e} in networks of width {networks[0].width}; {allowed}", step,
                                 layer)


def _of(problem: Problem, member: Member) -> str:
    return (f"a direction that {member.name} moves along" if isinstance(problem.opt, Muon) else
            f"what the step of {member.name} divides by")


def said_of_directions(problem: Problem, found: LoweredParticles) -> tuple[str, ...]:
    """The smallest ratio of singular values, of how many, and where, as a note; nothing where no matrix moves."""
    spectra = {member: [values for values in ours if len(values)] for member, ours in _spectra(found.batches)}
    ratios = {member: float(np.min([values[-1] / values[0] for values in ours])) for member, ours in spectra.items()
              if ours}
    if not ratios:
        return ()
    member = min(ratios, key=lambda one: ratios[one])
    rank = max(map(len, spectra[member]))
    what = (f"the {rank} singular values that Muon sets to 1 are" if isinstance(problem.opt, Muon) else
            "what steps divide by is")
    return (f"{what} at least {ratios[member]:.2g} of the largest (step "
            f"{int(member.indices[0]) - 1}, {member.name} of layer {member.indices[-1]})",)


def _spectra(runs: Sequence[LoweredRun]) -> Iterator[tuple[Member, list[np.ndarray]]]:
    """By matrix that moved, in the order of steps and layers, the singular values in every run but for rounding; what
    the last step moved nobody reads."""
    largest = max((float(np.max(values, initial=0.0)) for run in runs for values in run.spectra.values()), default=0.0)
    last = max((int(member.indices[0]) for member in runs[0].spectra), default=0)
    for member in sorted(runs[0].spectra, key=lambda one: tuple(map(int, one.indices))):
        if int(member.indices[0]) < last:
            yield member, [run.spectra[member][run.spectra[member] > ROUNDED * largest] for run in runs]


def _words(counts: list[int]) -> str:
    return " or ".join(map(str, counts))
