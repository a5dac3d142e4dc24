"""Networks of depths that are doublings of one another, run with common draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Collection, Sequence

import numpy as np

from .._types import Array, ProgramData, Sizes
from ..data.losses import AnyLoss
from ..programs.language import Matrix, Vector
from ..programs.program import Program
from .common_draws import SharedDraws, FramedDraws, Key, Refinement, draw_keys
from .conditioned_blocks import BlockMatrix, BlockProducts, OrthonormalBlock
from .lowered_conditioned import FLOAT64, Backend, ConditionedExecution
from .lowered_particles import ParticleExecution

Draw = Callable[[int, Sequence[int], OrthonormalBlock], Array]


class RefinedMatrix(BlockMatrix):
    """W that numbers the vectors it is multiplied with, and its transpose's, those included that need no draw.

    common: given the side, these numbers and an orthonormal family, draws on the family's complement.
    """

    def __init__(self, common: Draw, sides: tuple[BlockProducts, BlockProducts]) -> None:
        self.common, self.sides, self.calls = common, sides, [0, 0]

    def product(self, turned: bool, rows: Array) -> Array:
        found = super().product(turned, rows)
        self.calls[turned] += rows.shape[0]
        return found

    def fresh(self, turned: bool, coefficients: Array, number: int) -> Array:
        # a new direction comes from the first row that has it
        shunned = self.sides[not turned].shunned
        first = [int(np.flatnonzero(column)[0]) for column in shunned.arrays.numpy(coefficients)[:, -number:].T]
        return self.common(int(turned), [self.calls[turned] + row for row in first], shunned)


class Refined(ConditionedExecution):
    """An execution at the depth of ``refinement``, whose draws for matrices are ``draws``."""

    refinement: Refinement
    draws: SharedDraws
    mirrored = False  # are draws for transposes taken with the other sign?

    def unmet(self, matrix: Matrix) -> BlockMatrix:
        key, level, layer = self.location(matrix)

        def common(turned: int, calls: Sequence[int], shunned: OrthonormalBlock) -> Array:
            rows = np.stack([self.draws.row((*key, turned, call), level, layer) for call in calls])
            return self.cleared(shunned, self.arrays.asarray(-rows if turned and self.mirrored else rows))

        return RefinedMatrix(common, super().unmet(matrix).sides)

    def location(self, matrix: Matrix) -> tuple[Key, int, int]:
        """What a matrix's draws are keyed by but for side and call, their level and their layer."""
        return self.refinement.location(matrix, self.program.matrices)


class RefinedConditioned(Refined):
    """A real network that shares its draws with those of one seed at other depths."""

    def __init__(self, program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, width: int,
                 seed: int, backend: Backend, keep: Collection[str], refinement: Refinement) -> None:
        super().__init__(program, sizes, data, loss, width, seed, backend, keep)
        self.refinement, self.draws = refinement, SharedDraws(width, self.dtype, (seed,))


@dataclass(frozen=True)
class Frame:
    """Draws are one orthonormal frame up to level ``finest``; flipped: names of initial vectors that are taken with the
    other sign, and with them what is drawn for transposes: the mirror."""

    finest: int
    flipped: tuple[str, ...] = ()


class RefinedParticles(Refined, ParticleExecution):
    """Particles that share their draws with those of one seed and batch at other depths.

    frame: None leaves draws as they are drawn; draws: those of another depth, where they were prepared.
    """

    def __init__(self, program: Program, sizes: Sizes, data: ProgramData, loss: AnyLoss, samples: int,
                 seed: int, keep: Collection[str], batch: int = 0, *, refinement: Refinement,
                 frame: Frame | None = None, draws: SharedDraws | None = None, backend: Backend = FLOAT64) -> None:
        super().__init__(program, sizes, data, loss, samples, seed, keep, batch, backend=backend)
        self.refinement, self.frame, self.prepared = refinement, frame, draws
        self.mirrored = bool(frame and frame.flipped)

    def begin(self) -> None:
        seed = self.seed, self.batch
        if self.prepared is not None:
            self.draws = self.prepared
        elif self.frame is None:
            self.draws = SharedDraws(self.width, np.float64, seed)
        else:
            self.draws = FramedDraws(self.width, seed, draw_keys(self._calls()), self.refinement.coarsest,
                                     self.frame.finest, self.shunned)

    def _calls(self) -> dict[Key, tuple[int, int]]:
        """How many vectors a layer's matrix and its transpose are multiplied with."""
        found: dict[Key, tuple[int, int]] = {}
        for location, made in self.plan.products.items():
            key, _, _ = self.location(self.lowered.member(location, ()))
            turned = self.plan.turned[location]
            before = found.get(key, (0, 0))
            found[key] = max(before[0], made - turned), max(before[1], turned)
        return found

    def initial_vector(self, vector: Vector) -> Array:
        drawn = super().initial_vector(vector)
        return -drawn if self.frame and vector.name in self.frame.flipped else drawn


def at_depths(programs: Sequence[tuple[Program, Sizes]], data: ProgramData, loss: AnyLoss, samples: int,
              seed: int, batch: int, refinements: Sequence[Refinement], mirror: tuple[str, ...],
              name: str) -> list[np.ndarray]:
    """One batch of particles at several depths, from coarse to fine, with common, framed draws: a family of scalars as
    arrays.

    programs: with their sizes, by depth; mirror: names of initial vectors that a second run takes with the other sign,
    for the mean of both; () runs once.
    """
    draws: SharedDraws | None = None
    found, finest = [], refinements[-1].level
    for (program, sizes), refinement in zip(programs, refinements, strict=True):
        values = []
        for flipped in ((), mirror) if mirror else ((),):
            run = RefinedParticles(program, sizes, data, loss, samples, seed, (), batch, refinement=refinement,
                                   frame=Frame(finest, flipped), draws=draws)
            run.run()
            draws = run.draws
            values.append(run.result().series(name))
        found.append(np.mean(values, axis=0))
    return found
