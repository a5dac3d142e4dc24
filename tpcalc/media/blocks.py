"""A residual block in the infinite-depth limit: nothing but its kernels, as functions of the stream's kernel C0.

A block whose first operation is a fresh random matrix enters through two functions of the overlaps of
its inputs: kappa, the covariance of its outputs over the initial weights (its NNGP kernel), and theta,
the overlap of their gradients in the weights (its NTK), summed over its matrices. Index 12 is the
derivative in C_ab, 12,12 the second one, d_1 is 2 d/dC_aa acting on the first slot only (taken before b = a).
The densities are the coefficients of the block's action [tpcalc/action_principle], derived in
[tpcalc/block_densities]; for a linear block, those of paper B's Proposition C.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol, Union

import numpy as np

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
    """All results broadcast against ``pairs.c``."""

    @property
    def has_diagonal(self) -> bool:
        """Whether B_aa, hence Q_aa, is not 0: for any block that is not linear."""

    @property
    def is_linear(self) -> bool:
        """Whether kappa and theta are multiples of C0, so that forward rows solve linear equations too."""

    def forward(self, pairs: Pairs) -> tuple[Kernel, Kernel, Kernel]:
        """kappa, kappa_12, theta."""

    def backward(self, pairs: Pairs) -> tuple[Kernel, Kernel, Kernel]:
        """kappa_12, kappa_12,12, theta_12."""

    def diagonal(self, pairs: Pairs) -> tuple[Kernel, Kernel, Kernel]:
        """d_1 kappa, d_1 kappa_12, d_1 theta; asked for only where ``has_diagonal``."""


@dataclass(frozen=True)
class LinearBlock:
    """x + eps W x: kappa = rho_a rho_b C0, theta = C0."""

    has_diagonal: bool = False
    is_linear: bool = True

    def forward(self, pairs: Pairs) -> tuple[Kernel, Kernel, Kernel]:
        return pairs.decay * pairs.c, pairs.decay, pairs.c

    def backward(self, pairs: Pairs) -> tuple[Kernel, Kernel, Kernel]:
        return pairs.decay, 0.0, 1.0

    def diagonal(self, pairs: Pairs) -> tuple[Kernel, Kernel, Kernel]:
        return 0.0, 0.0, 0.0


class Rates(NamedTuple):
    """What the block adds to the rows of a step: density and noise (..., b, m), and of the step with itself
    the diagonal of the density (..., b) or None, and the noise, of the shape of ``own``, or None."""

    density: np.ndarray
    diagonal: np.ndarray | None
    noise: np.ndarray
    own_noise: np.ndarray | None


def variances(own: np.ndarray) -> np.ndarray:
    """(..., b) of the rows of a step, from their covariances (..., b, b), or as they are from a column (..., b, 1)."""
    return np.diagonal(own, axis1=-2, axis2=-1) if own.shape[-1] == own.shape[-2] else own[..., 0]


class Law(Protocol):
    """One direction's densities, as functions of the rows' response r (..., b, m or m + b), their covariance
    with earlier rows c (..., b, m) and with each other own (..., b, b); of passengers variances (..., b, 1) or None."""

    def __call__(self, r: np.ndarray, c: np.ndarray, own: np.ndarray | None) -> Rates: ...

    @property
    def linear(self) -> tuple[Kernel, Kernel, float] | None:
        """(on r, on c, on own) of a linear block: density = on r r + on c c, noise = on r c, own noise = on own own;
        None for other blocks."""


@dataclass(frozen=True)
class ForwardLaw:
    """A = r kappa_12 - w theta and N0 = kappa, with r = G P. Source: [tpcalc/block_densities].

    noise: the constant of the initial matrices; drift: (m,), w with the constant of the updates; right: (..., m)
    variances of the earlier rows; decay, own_decay: rho_a rho_b with them, and among the step's own rows.
    """

    block: BlockKernels
    noise: float
    drift: np.ndarray
    right: np.ndarray
    decay: Kernel
    own_decay: float

    def pairs(self, c: np.ndarray, own: np.ndarray | None) -> Pairs:
        own_decay = self.own_decay or np.nan  # after a decay to 0 nothing is known of rho_b alone
        return Pairs(c, None if own is None else variances(own), self.right, self.decay, self.own_decay,
                     np.square(self.decay) / own_decay)

    def own_pairs(self, own: np.ndarray) -> Pairs:
        left = right = variances(own)
        if own.shape[-1] != own.shape[-2]:  # of passengers each is a pair with itself alone
            own, left, right = own[..., None], left[..., None], right[..., None]
        return Pairs(own, left, right, *3 * (self.own_decay,))

    def __call__(self, r: np.ndarray, c: np.ndarray, own: np.ndarray | None) -> Rates:
        kappa, slope, theta = self.block.forward(self.pairs(c, own))
        own_noise = None
        if own is not None:
            pairs = self.own_pairs(own)
            own_noise = self.noise * np.broadcast_to(self.block.forward(pairs)[0], pairs.c.shape).reshape(own.shape)
        return Rates(self.noise * slope * r - self.drift * theta, None, np.multiply(self.noise, kappa), own_noise)

    @property
    def linear(self) -> tuple[Kernel, Kernel, float] | None:
        if not self.block.is_linear:
            return None
        return self.noise * self.decay, -self.drift, self.noise * self.own_decay

    def slopes(self, r: np.ndarray, c: np.ndarray, own: np.ndarray | None) -> tuple[Kernel, Kernel]:
        """d A / d r = d N0 / d C0, and d A / d C0, entry by entry: what delta_b meets on its way back."""
        slope, curvature, theta = self.block.backward(self.pairs(c, own))
        return self.noise * slope, self.noise * curvature * r - self.drift * theta


class BackwardLaw:
    """B = e kappa_12 + C1 (r kappa_12,12 - w theta_12), its diagonal, and N1 = C1 kappa_12, with e = G' Q.

    forward: the law of the same step; r, c0, own: what its sweep has found. Linear in e and C1. Source:
    [tpcalc/block_densities].
    """

    def __init__(self, forward: ForwardLaw, r: np.ndarray, c0: np.ndarray, own: np.ndarray) -> None:
        block, noise, own_pairs = forward.block, forward.noise, forward.own_pairs(own)
        self.on_e, self.on_c = forward.slopes(r, c0, own)
        self.on_own = noise * block.backward(own_pairs)[0]
        self.linear = forward.linear  # its own mirror
        self.has_diagonal = block.has_diagonal
        if self.has_diagonal:
            kappa, slope, theta = block.diagonal(forward.pairs(c0, own))
            self.past_e, self.past_c = noise * kappa, noise * slope * r - forward.drift * theta
            present = np.broadcast_to(self.on_own + noise * block.diagonal(own_pairs)[0], own.shape)
            self.present = np.diagonal(present, axis1=-2, axis2=-1)

    def __call__(self, r: np.ndarray, c: np.ndarray, own: np.ndarray | None) -> Rates:
        m = c.shape[-1]
        e, diagonal = r[..., :m], None
        if self.has_diagonal:
            diagonal = (self.present * np.diagonal(r[..., m:], axis1=-2, axis2=-1)
                        + np.sum(self.past_e * e + self.past_c * c, axis=-1))
        return Rates(self.on_e * e + self.on_c * c, diagonal, self.on_e * c, None if own is None else self.on_own * own)
