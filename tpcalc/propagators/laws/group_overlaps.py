"""Overlaps and tangent kernels of groups of rows, carried through the layers of a network that is not trained.

As for pairs (``initial_overlaps``), with linear maps of Gram matrices in place of products: in layer time C' = kappa(C)
and, of every matrix, Theta' = dkappa(C)[Theta] + theta(C); at finite depth sublayers act one after the other. Pairs are
no groups of one: a row with itself has functions of its own, since a kink's at correlation 1 has half of its digits.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np

from ...action.densities import KAPPA
from ..blocks import Grams, GroupKernels, LinearMaps
from .group_laws import within_groups
from .group_sums import SummedKernels
from .initial_overlaps import Added, Arrays, by_layers, by_steps

RELATIVE = 1e-7  # of steps in layer time: sampled kernels are known to less


def with_themselves(block: GroupKernels, overlaps: np.ndarray) -> LinearMaps:
    """The kernels of all pairs of groups, of overlaps (G, G, S, S)."""
    own, one = within_groups(overlaps), np.ones(len(overlaps))
    return block.at(Grams(overlaps, own, own, np.ones(overlaps.shape[:2]), one, one))


def through_layers(sublayers: Sequence[GroupKernels], overlaps: np.ndarray, depth: int | None,
                   rates: tuple[float, float]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Overlaps (G, G, S, S) after the last layer, and the tangent kernels of matrices by name.

    rates: what kappa, and what theta, is multiplied by: a layer, or a unit of layer time. Raises ``Divergence`` where
    overlaps leave what floats hold.
    """
    overlaps, layer, (noise, drift) = np.asarray(overlaps, dtype=np.float64), SummedKernels(tuple(sublayers)), rates

    def added_by(block: GroupKernels) -> Added:
        def added(now: Arrays) -> Arrays:
            maps = with_themselves(block, now[0])
            own = maps.tangents()
            return [noise * maps.value(KAPPA), *(noise * maps.push(KAPPA, theta) + drift * own.get(name, 0.0)
                                                 for name, theta in zip(layer.matrices, now[1:]))]
        return added

    start = [overlaps, *(np.zeros_like(overlaps) for _ in layer.matrices)]
    if depth is None:
        floor = RELATIVE * float(np.max(np.abs(overlaps)))
        end, *tangents = by_steps(start, added_by(layer), RELATIVE, [floor] * len(start), "groups")
    else:
        end, *tangents = by_layers(start, [added_by(block) for block in sublayers], depth, "groups")
    return end, dict(zip(layer.matrices, tangents))
