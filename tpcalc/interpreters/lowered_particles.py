"""Lowered programs at infinite width: kets as samples, in blocks."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Callable, Collection

import numpy as np

from .._types import Array, ProgramData, Sizes
from ..errors import NotCovered
from ..data.losses import AnyLoss
from .. import _checks
from .._spread import results_in_order
from ..lowering.rank_one import separated
from ..programs.language import Matrix, Member, NonlinearOuter, Vector
from ..programs.special import at_infinite_width, require_no_choice
from ..programs.program import Program
from .conditioned_blocks import BlockMatrix, BlockProducts, OrthonormalBlock, of_variance_one
from .given import whole_heads
from .lowered import LoweredRun
from .lowered_conditioned import FLOAT64, Backend, ConditionedExecution

SAMPLES, PAIRED_SAMPLES = 4096, 1024  # by default; averages over pairs take M^2
FEWER = "take a smaller depth, fewer steps, inputs a step or particles, float32, or keep fewer vectors"
PER_PRODUCT = 8  # samples needed for every direction that draws are orthogonal to


class ParticleExecution(ConditionedExecution):
    """Vectors are arrays of M samples of a ket; draws are orthogonal to the constant 1, to the initial vectors and to
    what they must be independent of, and have variance 1. batch: which of several independent runs with one seed."""

    rows_per_product = 3  # a basis vector, its image, and a direction that draws are orthogonal to
    unit, advice, named = "{} particles", FEWER, "samples"

    def __init__(self, program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, samples: int,
                 seed: int, keep: Collection[str], batch: int = 0, *, backend: Backend = FLOAT64) -> None:
        self.batch = batch
        if isinstance(program, Program):
            require_no_choice(f"program {program.name}", (one.statement for one in program.locations()))
        super().__init__(at_infinite_width(program), sizes, data, loss, samples, seed, backend, keep)

    def require_memory(self) -> None:
        self.count_directions()
        super().require_memory()
        if self.width < PER_PRODUCT * self.directions:
            raise NotCovered(f"samples: got {self.width}; program {self.program.name} makes up to "
                             f"{self.directions - 1 - len(self.initial)} products with one matrix and has "
                             f"{len(self.initial)} initial vectors, so that at least {PER_PRODUCT * self.directions} "
                             "are needed")

    def count_directions(self) -> None:
        """Find the initial vectors, and how many directions a draw is orthogonal to at most."""
        vectors = {self.lowered.member(location, at) for location, ends in self.plan.given.items()
                   if self.lowered.names.families[location[0]][0] is Vector
                   for at in product(*(range(low, high + 1) for low, high in ends))}
        single = {v for v in self.program.vectors if all(index.is_number for index in v.indices)}
        self.initial = sorted(vectors | single, key=str)
        self.directions = 1 + len(self.initial) + max(self.met.values(), default=0)

    def generator(self, member: Member) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.batch, *str(member).encode()])

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Initial vectors are drawn first, so that all that comes later can be orthogonal to them."""
        self.shunned = OrthonormalBlock(self.width, self.arrays, 1 + len(self.initial))
        self.shunned.extended(self.arrays.asarray(np.ones((1, self.width))))
        self.drawn: dict[Member, Array] = {}
        for vector in self.initial:
            drawn = self._draw(self.generator(vector), self.shunned, 1)
            self.drawn[vector] = drawn[0, :]
            self.shunned.extended(drawn)
        self.begin()
        super().run(progress)

    def begin(self) -> None:
        """Prepare draws that are orthogonal to the initial vectors, where any are prepared."""

    def initial_vector(self, vector: Vector) -> Array:
        return self.drawn[vector]

    def _draw(self, generator: np.random.Generator, shunned: OrthonormalBlock, number: int) -> Array:
        return self.cleared(shunned, self.arrays.asarray(generator.standard_normal((number, self.width))))

    def cleared(self, shunned: OrthonormalBlock, rows: Array) -> Array:
        """Draws without their projections, of variance 1."""
        return of_variance_one(self.arrays, shunned.split(rows)[1])

    def unmet(self, matrix: Matrix) -> BlockMatrix:
        draw = partial(self._draw, self.generator(matrix))
        room = self.met.get(matrix, 1) + self.shunned.count
        bases, images = self._rooms(matrix)
        one, two = (BlockProducts(basis, image, self.shunned.copy(room)) for basis, image in zip(bases, images))
        return BlockMatrix(draw, (one, two))


@dataclass(frozen=True)
class LoweredParticles:
    """A program's scalars at infinite width, as means over batches of particles.

    samples: M, of a batch; batches: what each of them gave.
    """

    program: Program
    samples: int
    batches: tuple[LoweredRun, ...] = field(repr=False)

    def series(self, name: str) -> np.ndarray:
        """A family of scalars as an array over its indices, the mean over batches."""
        return np.mean([run.series(name) for run in self.batches], axis=0)

    def error_series(self, name: str) -> np.ndarray:
        """The standard errors of ``series(name)``, from the spread over batches."""
        return np.std([run.series(name) for run in self.batches], axis=0, ddof=1) / np.sqrt(len(self.batches))


def default_samples(program: Program, least: int) -> int:
    """Fewer where a product takes M^2, but ``least``, those that a program can be run with; whole heads."""
    return whole_heads(program, max(PAIRED_SAMPLES if averages_over_pairs(program) else SAMPLES, least))


def averages_over_pairs(program: Program) -> bool:
    """Does a product take M^2?"""
    return any(separated(location.statement.value).has(NonlinearOuter) for location in program.locations())


class _CountedLowered(ParticleExecution):
    """An execution that is asked for numbers alone, and never run."""

    def require_memory(self) -> None:
        self.count_directions()


def least_samples(program: Program, sizes: Sizes, data: ProgramData = {}, loss: AnyLoss = "mse") -> int:
    """The fewest particles that a program can be run with: 8 for every direction that draws are orthogonal to."""
    return PER_PRODUCT * _CountedLowered(program, sizes, data, loss, 1, 0, ()).directions


def enough_samples(program: Program, sizes: Sizes, data: ProgramData = {}, loss: AnyLoss = "mse",
                   part: int = 1) -> int:
    """The default, with which a program can be run, and with one part of ``part`` of it."""
    return default_samples(program, part * least_samples(program, sizes, data, loss))


def particles(program: Program, sizes: Sizes, data: ProgramData = {}, samples: int | None = None,
              seed: int = 0, batches: int = 8, loss: AnyLoss = "mse", keep: Collection[str] = (),
              executor: Executor | None = None, progress: Callable[[int, int], None] | None = None,
              execution: Callable[..., ParticleExecution] = ParticleExecution, namespace: Array = "numpy",
              dtype: Array = "float64", device: Array = None) -> LoweredParticles:
    """Evaluate any program at infinite width, nonlinear ones too, with ``samples`` M samples of every ket.

    samples: by default 4096, or 1024 for a program with a ``NonlinearOuter`` that is not of rank one; more where the
    program needs more.

    Causal in the order of statements, with nothing to iterate: a product W y is its projection on what W has met, and
    for the new direction a Gaussian draw (the hat) and earlier |z> times E[|y> hat(W^T z)] (the dot, by Stein's lemma,
    so that kinked functions need no derivative). Averages over coordinates are means over samples. Draws are
    orthogonal, over the samples, to the constant 1, to the initial vectors and to what they must be independent of,
    and have variance 1. A ``NonlinearOuter`` averages over pairs of samples: an independent copy of the kets is another
    sample [tensor_programs_vi/nonlinear_outer_product].

    batches: independent runs (at least 2), for means with standard errors: these fall like (batches M)^-1/2, a bias of
    order 1/M stays. sizes, data, loss: as in ``read_program_coefficients``; keep: names of the families of vectors that
    every batch keeps. executor: runs the batches, if any is given; progress: called with (batches done, batches);
    execution: what a batch is run by; namespace, dtype, device: as in ``tpcalc.lowering.Arrays``. Draws are NumPy's and
    the same in all of them.

    Time O(M K) a product and memory O(M) for each of the K products with a matrix, O(M L T) for a network; time O(M^2)
    for every ``NonlinearOuter`` in a matrix. Raises ``ValueError`` for data that does not fit, ``NotCovered`` where M
    is less than 8 times the directions that draws must be orthogonal to (products with one matrix, either way, and
    initial vectors), ``NotLowered`` naming a statement, ``MemoryError`` before the work, ``Divergence`` naming the
    first value that is not finite. Source: Tensor Programs VI, Definition C.1 [tensor_programs_vi/definition_c1] and
    appendix F; Stein's lemma [gaussian/stein].
    """
    samples = enough_samples(program, sizes, data, loss) if samples is None else samples
    for name, value, least in (("samples", samples, 1), ("batches", batches, 2)):
        _checks.whole_number(name, value, least)
    what = (program, sizes, data, loss, samples, seed, keep)
    execution = partial(execution, backend=(namespace, dtype, device))
    first = execution(*what)
    left = 8.0 * samples * first.plan.rows if keep else 0.0
    _checks.memory(first.needed + (batches - 1) * left, f"{batches} batches of {first.what}", FEWER)
    jobs = [(execution, *what, batch) for batch in range(batches)]
    return LoweredParticles(program, samples, tuple(results_in_order(executor, _run, jobs, progress)))


def _run(job: tuple) -> LoweredRun:
    execution, *what = job
    run = execution(*what)
    run.run()
    return run.result()
