"""What a residual block is to the infinite-depth limit: its kernels, functions of the overlaps of the stream.

A block whose first operation is a fresh random matrix enters through two functions of the overlaps of its inputs:
kappa, the covariance of its outputs over the initial weights (its NNGP kernel), and theta, the overlap of their
gradients in the weights (its NTK), summed over its matrices. Where rows do not meet within a block, both are entrywise
functions of pairs of rows; where they do (attention), they map Gram matrices of groups of rows. Which derivatives are
asked for, and what multiplies them, the action says (``action.densities``).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol, Union

import numpy as np

from ..action.densities import Derivative

Kernel = Union[np.ndarray, float]  # broadcasts against pairs.c


class Pairs(NamedTuple):
    """Overlaps of b rows with k others: c (..., b, k), the rows' own left (..., b) and right (..., k).

    decay: rho_a rho_b, by which every product with an initial matrix multiplies covariances; broadcasts
    against c. left_decay, right_decay: rho_a^2, rho_b^2, by which it multiplies variances. ``left`` is None for
    passengers of a linear block, whose kernels do not read it.
    """

    c: np.ndarray
    left: np.ndarray | None
    right: np.ndarray
    decay: Kernel
    left_decay: Kernel = 1.0
    right_decay: Kernel = 1.0


class BlockKernels(Protocol):
    """Kernels that are entrywise functions of pairs of rows: every row is a group of its own."""

    @property
    def size(self) -> int:
        """1, the rows of a group."""

    @property
    def has_diagonal(self) -> bool:
        """Whether B_aa, hence Q_aa, is not 0: for any block that is not linear."""

    @property
    def is_linear(self) -> bool:
        """Whether kappa and theta are multiples of C0, so that forward rows solve linear equations too."""

    def derivatives(self, pairs: Pairs, asked: tuple[Derivative, ...]) -> tuple[Kernel, ...]:
        """The derivatives asked for, each broadcasting against ``pairs.c``."""


class Grams(NamedTuple):
    """Gram matrices of G groups of S rows with K others: between (..., G, K, S, S), those of the groups themselves
    (..., G, S, S) and (..., K, S, S), and decays as in ``Pairs``, between groups (G, K), (G,) and (K,)."""

    between: np.ndarray
    left: np.ndarray
    right: np.ndarray
    decay: np.ndarray
    left_decay: np.ndarray
    right_decay: np.ndarray


class LinearMaps(Protocol):
    """Kernels at given Gram matrices, and their derivatives there; arrays are (..., G, K, S, S)."""

    def value(self, kernel: str) -> np.ndarray:
        """kappa or theta between the groups."""

    def tangents(self) -> dict[str, np.ndarray]:
        """theta, matrix by matrix."""

    def push(self, kernel: str, moved: np.ndarray) -> np.ndarray:
        """How the kernel answers a change of the Gram matrices between groups."""

    def pull(self, kernel: str, weights: np.ndarray, moved: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The transposed map: gradients of sum(weights * kernel), or of sum(weights * push(kernel, moved)), in the Gram
        matrices between groups and in those of the first groups, entries of a matrix taken to be independent."""


class GroupKernels(Protocol):
    """Kernels that map Gram matrices of groups of ``size`` rows, such as the positions of one sequence. In the slots
    of one and the same group kernels are functions of three Gram matrices that happen to be equal."""

    has_diagonal: bool
    is_linear: bool

    @property
    def matrices(self) -> tuple[str, ...]:
        """Names of what has a tangent kernel of its own."""

    @property
    def resolution(self) -> float:
        """Relative changes of rows that need not be followed, of kernels that are sampled; else 0."""

    @property
    def size(self) -> int:
        """The rows of a group."""

    def at(self, grams: Grams) -> LinearMaps:
        """The kernels and their derivatives at these Gram matrices."""


AnyKernels = Union[BlockKernels, GroupKernels]


class BlockRates(NamedTuple):
    """What the block adds to the rows of a step: density and noise (..., b, m), and of the step with itself
    the diagonal of the density (..., b), for groups a matrix (..., b, b), or None, and the noise, of the shape of
    ``own``, or None."""

    density: np.ndarray
    diagonal: np.ndarray | None
    noise: np.ndarray
    own_noise: np.ndarray | None


Linear = tuple[Kernel, np.ndarray, float]


class Law(Protocol):
    """One direction's densities, as functions of the rows' response r (..., b, m or m + b), their covariance
    with earlier rows c (..., b, m) and with each other own (..., b, b); of passengers variances (..., b, 1) or None."""

    def __call__(self, r: np.ndarray, c: np.ndarray, own: np.ndarray | None) -> BlockRates: ...

    @property
    def resolution(self) -> float:
        """Relative changes of rows that are none; 0 where round-off decides."""

    @property
    def linear(self) -> Linear | None:
        """(on r, on c, on own) of a linear block: density = on r r + on c c, noise = on r c, own noise = on own own;
        None for other blocks. Where updates mix rows, on c is a matrix that multiplies c from the right."""
