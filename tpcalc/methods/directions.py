"""Directions that Muon moves along: which of them vanish at infinite width, told by real networks beside particles."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Iterator, Sequence

import numpy as np

from .._spread import results_in_order
from ..errors import Divergence
from ..interpreters.given import whole_heads
from ..interpreters.lowered import LoweredRun
from ..interpreters.lowered_conditioned import conditioned
from ..interpreters.lowered_particles import LoweredParticles
from ..interpreters.training import Training, placed
from ..programs.language import Member
from ..optimizers import Muon
from ..programs.special import at_infinite_width
from ..training.problem import Problem
from .fluctuations import PART, FALLS, SPREAD

ROUNDED = 1e-12  # of the largest singular value: gradients below are rounding, of matrices without any
ALLOWED = ("expected loss derivatives that differ from 0 in every direction, rows that are not nearly parallel, more "
           "samples{}, or a finite width")


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
