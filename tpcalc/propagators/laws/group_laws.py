"""Both directions' densities where rows meet within a block: kernels map Gram matrices of groups of rows.

A step brings whole groups, such as the positions of its sequences. A term of the action is one use of the derivatives
of a kernel as linear maps (``action.densities``), whatever the size of a group. A gradient answers the stream of every
row of its own group, so that the diagonal of B is one of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...action.densities import KAPPA, ActionTerm, Terms, derive_laws
from ...errors import NotCovered
from ..blocks import Grams, GroupKernels, LinearMaps, Linear, BlockRates

NOTHING = np.zeros(())


def grouped(x: np.ndarray, size: int) -> np.ndarray:
    """(..., rows, columns) -> (..., groups, groups, size, size)."""
    *rest, rows, columns = x.shape
    return np.swapaxes(x.reshape(*rest, rows // size, size, columns // size, size), -3, -2)


def ungrouped(x: np.ndarray) -> np.ndarray:
    """The inverse of ``grouped``."""
    *rest, rows, columns, size, _ = x.shape
    return np.swapaxes(x, -3, -2).reshape(*rest, rows * size, columns * size)


def within_groups(x: np.ndarray) -> np.ndarray:
    """(..., G, G, S, S) -> (..., G, S, S), of every group with itself."""
    return np.moveaxis(np.diagonal(x, axis1=-4, axis2=-3), -1, -3)


@dataclass(frozen=True)
class GroupForwardLaw:
    """A and N0 of the rows of a step, as ``ForwardLaw``; right: (..., K, S, S), Gram matrices of earlier groups.

    decay: (K,), rho_a rho_b of groups. Raises ``ValueError`` for updates that mix rows.
    """

    block: GroupKernels
    noise: float
    drift: np.ndarray
    right: np.ndarray
    decay: np.ndarray
    own_decay: float
    linear: Linear | None = None

    def __post_init__(self) -> None:
        if self.drift.ndim > 1:
            raise NotCovered(f"drift: got matrices of shape {self.drift.shape} with {self.block!r}; expected "
                             "weights of rows")

    @property
    def resolution(self) -> float:
        return self.block.resolution

    def maps(self, c: np.ndarray, own: np.ndarray) -> LinearMaps:
        """The block's kernels between the groups of the step and earlier ones."""
        here = np.full(own.shape[-1] // self.block.size, self.own_decay)
        own_decay = self.own_decay or np.nan  # after a decay to 0 nothing is known of rho_b alone
        return self.block.at(Grams(grouped(c, self.block.size), within_groups(grouped(own, self.block.size)),
                                   self.right, np.tile(self.decay, (len(here), 1)), here,
                                   np.square(self.decay) / own_decay))

    def own_maps(self, own: np.ndarray) -> LinearMaps:
        """The block's kernels among the groups of the step."""
        between = grouped(own, self.block.size)
        left, here = within_groups(between), np.full(between.shape[-3], self.own_decay)
        return self.block.at(Grams(between, left, left, np.full((len(here), len(here)), self.own_decay), here, here))

    def summed(self, terms: Terms, maps: LinearMaps, r: np.ndarray, cotangents: dict[str, np.ndarray]
               ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values of the terms, and of those that weigh what comes out (e, C^1) the gradients, between groups and in the
        first ones; a term goes where its last derivative is. Kernels of initial matrices carry the constant ``noise``.
        """
        value, between, left = NOTHING, NOTHING, NOTHING
        for term in terms:
            number = term.number * (self.noise if term.derivative.kernel == KAPPA else 1.0)
            if not term.cotangent:
                kernel = term.derivative.kernel
                found = maps.push(kernel, r) if term.tangent else maps.value(kernel)
                value = value + number * self._weighed(term, found)
                continue
            weights = number * self._weighed(term, cotangents[term.cotangent])
            of_pairs, of_first = maps.pull(term.derivative.kernel, weights, r if term.tangent else None)
            if term.derivative.left:
                left = left + of_first
            else:
                between = between + of_pairs
        return value, between, left

    def _weighed(self, term: ActionTerm, x: np.ndarray) -> np.ndarray:
        return x * self.drift.reshape(-1, 1, self.block.size) if term.weighed else x

    def __call__(self, r: np.ndarray, c: np.ndarray, own: np.ndarray | None) -> BlockRates:
        assert own is not None
        laws, maps, moved = derive_laws(), self.maps(c, own), grouped(r, self.block.size)
        density, noise = (ungrouped(np.broadcast_to(self.summed(terms, maps, moved, {})[0], moved.shape))
                          for terms in (laws.A, laws.N0))
        return BlockRates(density, None, noise, ungrouped(self.summed(laws.N0, self.own_maps(own), NOTHING, {})[0]))


class GroupBackwardLaw:
    """B with its blocks on the diagonal, and N1, of the rows of a step, as ``BackwardLaw``."""

    linear: Linear | None = None

    def __init__(self, forward: GroupForwardLaw, r: np.ndarray, c0: np.ndarray, own: np.ndarray) -> None:
        self.forward, self.resolution, self.r = forward, forward.resolution, grouped(r, forward.block.size)
        self.maps, self.own_maps = forward.maps(c0, own), forward.own_maps(own)

    def __call__(self, r: np.ndarray, c: np.ndarray, own: np.ndarray | None) -> BlockRates:
        m, size, laws, summed = c.shape[-1], self.forward.block.size, derive_laws(), self.forward.summed
        letters = {"e": grouped(r[..., :m], size), "C1": grouped(c, size)}
        density = summed(laws.B, self.maps, self.r, letters)[1]
        noise = summed(laws.N1, self.maps, self.r, letters)[1]
        _, _, of_first = summed(laws.past, self.maps, self.r, letters)
        mine = grouped(r[..., m:], size)
        groups = mine.shape[-3]
        alone = mine * np.eye(groups)[:, :, None, None]  # a gradient answers its own group alone
        _, between, first = summed(laws.present, self.own_maps, NOTHING, {"e": alone})
        diagonal = within_groups(between) + _symmetric(first) + _symmetric(of_first)
        own_noise = None
        if own is not None:
            own_noise = ungrouped(summed(laws.N1, self.own_maps, NOTHING, {"C1": grouped(own, size)})[1])
        blocks = diagonal[..., :, None, :, :] * np.eye(groups)[:, :, None, None]
        return BlockRates(ungrouped(density), ungrouped(blocks), ungrouped(noise), own_noise)


def _symmetric(gradient: np.ndarray) -> np.ndarray:
    """A Gram matrix is symmetric: the action's factor 2 of one row is a gradient and its transpose."""
    return (gradient + np.swapaxes(gradient, -1, -2)) / 2
