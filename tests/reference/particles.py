"""Any program at infinite width: kets as samples, hats drawn from their covariance, dots by Stein's lemma.

A product W y is hat + dot. The hats of one matrix are jointly Gaussian with covariance <y|z>; the dot is the sum of
|z> E[d|y> / d hat(W^T z)] over earlier products with the transpose, and E[d|y> / d hat] = Cov(hat)^-1 E[|y> hat]. In
orthonormal bases of the vectors that W and W^T have met this is what conditioning a matrix of finite width gives, and a
particle is a coordinate. What is left of the width is in the draws: here they are orthogonal to what they are
independent of, and of variance 1, over the particles at hand.
"""

from __future__ import annotations

from concurrent.futures import Executor
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Callable, Collection, Mapping, Sequence

import numpy as np
import sympy as sp

from tpcalc._types import ProgramData, Sizes, Value
from tpcalc.errors import NotCovered
from tpcalc.data.losses import AnyLoss
from tpcalc import _checks
from tpcalc._spread import results_in_order, require_executor
from tpcalc.programs.language import Matrix, Member, Scalar, Vector
from tpcalc.programs.program import Program
from reference.conditioned import CONDITIONED, ConditionedInterpreter
from tpcalc.interpreters.conditioned_blocks import BlockMatrix, BlockProducts, OrthonormalBlock, of_variance_one
from tpcalc.interpreters.lowered_particles import FEWER, PER_PRODUCT, default_samples
from tpcalc.interpreters.execution import ProgramInterpreter
from tpcalc.interpreters.registry import Registry
from tpcalc.interpreters.vectors import ProgramRun

PARTICLES = Registry("run_particles", CONDITIONED)
BALANCES = ("initial", "all")


class ParticleInterpreter(ConditionedInterpreter):
    """Vectors are arrays of M samples of a ket.

    balance: what draws for W are orthogonal to besides the vectors that W^T has met: the constant 1 and the initial
    vectors ("initial"), or these, all earlier draws and all vectors that any matrix has met ("all"). batch: which of
    several independent runs with one seed.
    """

    registry = PARTICLES
    rows_per_product = 3  # a basis vector, its image, and a direction that draws are orthogonal to
    unit, advice = "{} particles", FEWER

    def __init__(self, program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, samples: int,
                 seed: int, balance: str = "initial", keep: str | Collection[str] = "all") -> None:
        self.batch, self.balance = 0, balance
        super().__init__(program, sizes, data, loss, samples, seed, np.float64, keep)

    def count_directions(self) -> None:
        """Find the initial vectors, and how many directions a draw is orthogonal to at most."""
        read = {v for s in self.statements for v in s.value.atoms(Vector) if self.given(v, self.program.vectors)}
        single = {v for v in self.program.vectors if all(index.is_number for index in v.indices)}
        self.first = sorted(read | single, key=str)
        super().require_memory()
        met = self.met.values()
        self.directions = 1 + len(self.first) + (2 * sum(met) if self.balance == "all" else max(met, default=0))

    def require_memory(self) -> None:
        self.count_directions()
        directions = self.directions
        if self.width < PER_PRODUCT * directions:
            what = "all matrices" if self.balance == "all" else "one matrix"
            raise NotCovered(f"samples: got {self.width}; program {self.program.name} makes up to "
                             f"{directions - 1 - len(self.first)} products with {what} and has {len(self.first)} "
                             f"initial vectors, so that at least {PER_PRODUCT * directions} are needed")

    def generator(self, member: Member) -> np.random.Generator:
        return np.random.default_rng([self.seed, self.batch, *str(member).encode()])

    def numbered(self, batch: int) -> "ParticleInterpreter":
        """The program, not run yet, with draws of its own."""
        other = copy(self)
        other.batch, other.assigned, other.matrices, other.factors = batch, {}, {}, {}
        return other

    def run(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Initial vectors are drawn first, so that all that comes later can be orthogonal to them."""
        self.shunned = OrthonormalBlock(self.width, np.float64)
        self.shunned.extended(np.ones((1, self.width)))
        for vector in self.first:
            self.assigned[vector] = self.initial_vector(vector)
            self.shunned.extended(self.assigned[vector][None])
        super().run(progress)

    def initial_vector(self, vector: Vector) -> np.ndarray:
        return self._draw(self.generator(vector), self.shunned, 1)[0]

    def _draw(self, generator: np.random.Generator, shunned: OrthonormalBlock, number: int) -> np.ndarray:
        free = of_variance_one(shunned.arrays, shunned.split(generator.standard_normal((number, self.width)))[1])
        if shunned is self.shunned and self.balance == "all":
            shunned.extended(free)
        return free

    def unmet(self, matrix: Matrix) -> BlockMatrix:
        draw = partial(self._draw, self.generator(matrix))
        room = self.met[matrix] + self.shunned.count
        one, two = (BlockProducts(basis, images, self.shunned if self.balance == "all" else self.shunned.copy(room))
                    for basis, images in zip(*self.rooms(matrix)))
        return BlockMatrix(draw, (one, two))


@dataclass(frozen=True)
class ParticleRun(ProgramInterpreter):
    """A program's scalars at infinite width, as means over batches of particles.

    scalars: by member; errors: their standard errors, from the spread over batches; samples: M, of a batch; batches:
    what each of them gave, vectors of shape (samples,) by member.
    """

    samples: int
    errors: Mapping[Scalar, float]
    batches: tuple[ProgramRun, ...] = field(repr=False)

    def error_series(self, name: str) -> np.ndarray:
        """The standard errors of ``series(name)``, of its shape."""
        return ProgramInterpreter(self.program, self.errors).series(name)

    def bracket(self, u: sp.Expr, v: sp.Expr) -> float:
        """<u|v> of any vector expressions over members that were kept."""
        return self._mean(u, v)[0]

    def bracket_error(self, u: sp.Expr, v: sp.Expr) -> float:
        """The standard error of ``bracket(u, v)``."""
        return self._mean(u, v)[1]

    def _mean(self, u: sp.Expr, v: sp.Expr) -> tuple[float, float]:
        return mean_and_error([run.bracket(u, v) for run in self.batches])


def mean_and_error(values: Sequence[Value]) -> tuple[float, float]:
    """The mean of independent values, and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


class _Counted(ParticleInterpreter):
    """Particles that are asked for numbers alone, and never run."""

    def require_memory(self) -> None:
        self.count_directions()


def run_particles(program: Program, sizes: Sizes, data: ProgramData = {}, samples: int | None = None,
                  seed: int = 0, batches: int = 8, loss: AnyLoss = "mse", keep: str | Collection[str] = "all",
                  balance: str = "initial", executor: Executor | None = None,
                  progress: Callable[[int, int], None] | None = None) -> ParticleRun:
    """Evaluate any program at infinite width, nonlinear ones too, with ``samples`` M samples of every ket.

    samples: by default 4096, or 1024 for a program with a ``NonlinearOuter`` that is not of rank one; more where the
    program needs more.

    Causal in the order of statements, with nothing to iterate: a product W y is its projection on what W has met, and
    for the new direction a Gaussian draw (the hat) and earlier |z> times E[|y> hat(W^T z)] (the dot, by Stein's lemma,
    so that kinked functions need no derivative). Vectors that depend on earlier ones need no draw: there is no
    covariance to invert. Averages over coordinates are means over samples. Draws are orthogonal, over the samples, to
    the constant 1, to the initial vectors and to what they must be independent of, and have variance 1.

    batches: independent runs (at least 2), for means with standard errors: these fall like (batches M)^-1/2, a bias of
    order 1/M stays. balance: "all" makes all draws orthonormal, which reproduces linear programs to rounding, in a
    time that grows with the square of the number of products. sizes, data, loss: as in ``read_program_coefficients``;
    keep: as in ``run_conditioned``. executor: runs the batches, if any is given; progress: called with (batches done,
    batches).

    A ``NonlinearOuter`` averages over pairs of samples: an independent copy of the kets is another sample
    [tensor_programs_vi/nonlinear_outer_product].

    Time O(M K) a product and memory O(M) for each of the K products with a matrix, O(M L T) for a network; time O(M^2)
    for every ``NonlinearOuter`` in a matrix, T of them for SignSGD and Adam, and no more memory. Raises
    ``ValueError`` for data that does not fit and where M is less than 8 times the directions that draws must be
    orthogonal to (products with one matrix, either way, and initial vectors), ``UnhandledNode`` naming a statement,
    ``MemoryError`` before the work, ``Divergence`` naming the first value that is not finite.
    Source: Tensor Programs VI, Definition C.1 [tensor_programs_vi/definition_c1] and appendix F; Stein's lemma
    [gaussian/stein].
    """
    require_executor(executor)
    balance = _checks.choice("balance", balance, BALANCES)
    if samples is None:
        counted = _Counted(program, sizes, data, loss, 1, seed, balance, keep)
        samples = default_samples(program, PER_PRODUCT * counted.directions)
    for name, value, least in (("samples", samples, 1), ("batches", batches, 2)):
        _checks.whole_number(name, value, least)
    first = ParticleInterpreter(program, sizes, data, loss, samples, seed, balance, keep)
    _checks.memory(first.needed + (batches - 1) * first.left, f"{batches} batches of {first.what}", FEWER)
    jobs = [first.numbered(batch) for batch in range(batches)]
    done: list[ProgramRun] = []
    for run in results_in_order(executor, _run, jobs):
        done.append(run)
        if progress is not None:
            progress(len(done), batches)
    found = {member: mean_and_error([run.scalars[member] for run in done]) for member in done[0].scalars}
    return ParticleRun(program, {member: mean for member, (mean, _) in found.items()}, samples,
                       {member: error for member, (_, error) in found.items()}, tuple(done))


def _run(job: ParticleInterpreter) -> ProgramRun:
    job.run()
    return job.result()
