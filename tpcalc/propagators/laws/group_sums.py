"""Sublayers: kernels of rows that do not meet as kernels of groups, and sums of kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...action.densities import THETA, Derivative
from ..blocks import BlockKernels, Grams, GroupKernels, LinearMaps, Pairs
from .group_laws import grouped, ungrouped


@dataclass(frozen=True)
class LiftedKernels:
    """Entrywise kernels as maps of Gram matrices of groups of ``size`` rows: the protocol ``GroupKernels``."""

    block: BlockKernels
    size: int

    resolution, matrices = 0.0, ("mlp",)
    has_diagonal = property(lambda self: self.block.has_diagonal)
    is_linear = property(lambda self: self.block.is_linear)

    def at(self, grams: Grams) -> "LiftedMaps":
        return LiftedMaps(self.block, self.size, grams)


class LiftedMaps:
    """Multiplication by derivatives, which is its own transpose."""

    def __init__(self, block: BlockKernels, size: int, grams: Grams) -> None:
        self.block, self.size = block, size
        left, right = (np.diagonal(g, axis1=-2, axis2=-1) for g in (grams.left, grams.right))
        decay = np.repeat(np.repeat(grams.decay, size, axis=0), size, axis=1)
        self.pairs = Pairs(ungrouped(grams.between), left.reshape(*left.shape[:-2], -1),
                           right.reshape(*right.shape[:-2], -1), decay, np.repeat(grams.left_decay, size)[:, None],
                           np.repeat(grams.right_decay, size))

    def _of(self, kernel: str, *orders: int) -> np.ndarray:
        value, = self.block.derivatives(self.pairs, (Derivative(kernel, *orders),))
        return grouped(np.broadcast_to(value, self.pairs.c.shape), self.size)

    def value(self, kernel: str) -> np.ndarray:
        return self._of(kernel)

    def tangents(self) -> dict[str, np.ndarray]:
        """theta of all matrices of the block, as one."""
        return dict.fromkeys(LiftedKernels.matrices, self.value(THETA))

    def push(self, kernel: str, moved: np.ndarray) -> np.ndarray:
        return self._of(kernel, 1) * moved

    def pull(self, kernel: str, weights: np.ndarray, moved: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        order, also = (0, 1.0) if moved is None else (1, moved)
        of_first = np.sum(weights * self._of(kernel, order, 1) * also, axis=(-3, -1))
        return weights * self._of(kernel, order + 1) * also, of_first[..., None] * np.eye(self.size)


@dataclass(frozen=True)
class SummedKernels:
    """Several sublayers of one layer: kernels of independent branches add where layers are many and each adds little.
    Of one size; the protocol ``GroupKernels``."""

    parts: tuple[GroupKernels, ...]

    size = property(lambda self: self.parts[0].size)
    matrices = property(lambda self: sum((part.matrices for part in self.parts), ()))
    resolution = property(lambda self: max(part.resolution for part in self.parts))
    has_diagonal = property(lambda self: any(part.has_diagonal for part in self.parts))
    is_linear = property(lambda self: all(part.is_linear for part in self.parts))

    def at(self, grams: Grams) -> "SummedMaps":
        return SummedMaps(tuple(part.at(grams) for part in self.parts))


class SummedMaps:
    """Maps that are added."""

    def __init__(self, parts: tuple[LinearMaps, ...]) -> None:
        self.parts = parts

    def value(self, kernel: str) -> np.ndarray:
        return np.sum([part.value(kernel) for part in self.parts], axis=0)

    def tangents(self) -> dict[str, np.ndarray]:
        return {name: theta for part in self.parts for name, theta in part.tangents().items()}

    def push(self, kernel: str, moved: np.ndarray) -> np.ndarray:
        return np.sum([part.push(kernel, moved) for part in self.parts], axis=0)

    def pull(self, kernel: str, weights: np.ndarray, moved: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        between, left = zip(*(part.pull(kernel, weights, moved) for part in self.parts))
        return np.sum(between, axis=0), np.sum(left, axis=0)
