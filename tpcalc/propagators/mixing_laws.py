"""Densities of blocks phi(W x) where an update mixes rows: by a matrix w_ab over the rows of a
step, one for every layer and step, as Muon's.

The update of W is a sum over rows a, b of w_ab dh_a x_b^T / n with dh = phi'(W x) delta. The input is the stream, so
that what the update adds to an argument u of phi is linear in C0: it stands beside the response r, and what phi
does to it is what phi does to r. Back through W^T it mixes the overlaps of dh, phi' phi' C1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .blocks import Linear, BlockRates
from .laws import ForwardLaw, Formulas, compiled_laws, weighted


@dataclass(frozen=True)
class MixingForwardLaw(ForwardLaw):
    """A and N0 as ``ForwardLaw``, of phi(W x); drift: (nodes, m, m). Source: [tpcalc/muon_on_gram_matrices]."""

    def __post_init__(self) -> None:
        """Updates that mix rows are what it is for."""

    linear: Linear | None = None  # type: ignore[assignment]  # phi is not

    def moved(self, r: np.ndarray, c: np.ndarray) -> np.ndarray:
        """What moves the arguments of phi, in units in which kernels carry the decay: noise r - C0 w^T / decay."""
        return self.noise * r - weighted(c, self.drift, True) / self.decay

    def __call__(self, r: np.ndarray, c: np.ndarray, own: np.ndarray | None) -> BlockRates:
        ahead = compiled_laws().ahead
        derivatives = self.block.derivatives(self.pairs(c, own), ahead.asked)
        density = ahead.of(1.0, self.moved(r, c), *derivatives)[0]
        noise = np.asarray(ahead.of(self.noise, 0.0, *derivatives)[2])
        return BlockRates(np.asarray(density), None, noise, self.own_noise(own))


class MixingBackwardLaw:
    """The backward law (density B, its entry of a row with itself, noise N1; see ``BackwardLaw``) of phi(W x) with
    mixed rows."""

    linear: Linear | None = None
    resolution = 0.0

    def __init__(self, forward: MixingForwardLaw, r: np.ndarray, c0: np.ndarray, own: np.ndarray) -> None:
        laws, self.forward = compiled_laws(), forward
        back: Formulas = laws.back_with_diagonal
        derivatives = forward.block.derivatives(forward.pairs(c0, own), back.asked)
        of_noise = back.of(forward.noise, r, *derivatives)
        of_moved = back.of(1.0, forward.moved(r, c0), *derivatives)
        self.on_e, self.on_noise, self.past_e = of_noise[0], of_noise[3], of_noise[4]
        self.on_c, self.past_c = of_moved[1], of_moved[5]
        self.slopes = of_moved[0] / forward.decay  # E phi' phi'
        self.on_own, present = forward.sums(laws.own_back_with_diagonal, forward.own_pairs(own), 0.0)
        self.present = np.diagonal(np.broadcast_to(present, own.shape), axis1=-2, axis2=-1)

    def __call__(self, r: np.ndarray, c: np.ndarray, own: np.ndarray | None) -> BlockRates:
        m = c.shape[-1]
        e = r[..., :m]
        density = self.on_e * e + self.on_c * c - weighted(self.slopes * c, self.forward.drift, False)
        diagonal = (self.present * np.diagonal(r[..., m:], axis1=-2, axis2=-1)
                    + np.sum(self.past_e * e + self.past_c * c, axis=-1))
        return BlockRates(density, diagonal, self.on_noise * c, None if own is None else self.on_own * own)
