"""Overlaps and tangent kernels of groups of rows, carried through the layers of a network that is not trained.

As for pairs (``initial_overlaps``), with linear maps of Gram matrices in place of products: in layer time C' = kappa(C)
and, of every matrix, Theta' = dkappa(C)[Theta] + theta(C); at finite depth sublayers act one after the other.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np
from scipy.integrate import solve_ivp

from ...action.laws import KAPPA
from ...errors import Divergence
from ..blocks import Grams, GroupKernels, LinearMaps
from .group_laws import within_groups
from .group_sums import SummedKernels

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
    overlaps = np.asarray(overlaps, dtype=np.float64)
    if depth is None:
        return _in_layer_time(SummedKernels(tuple(sublayers)), overlaps, rates)
    tangents: dict[str, np.ndarray] = {}
    for layer in range(1, depth + 1):
        for block in sublayers:
            added, moved = _added(block, overlaps, tangents, rates)
            tangents = {name: tangents.get(name, 0.0) + change for name, change in moved.items()}
            overlaps = overlaps + added
        if not np.all(np.isfinite(overlaps)):
            raise Divergence("overlaps leave what floats hold", layer=layer)
    return overlaps, tangents


def _added(block: GroupKernels, overlaps: np.ndarray, tangents: dict[str, np.ndarray], rates: tuple[float, float]
           ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """What a layer adds to overlaps, and to tangent kernels."""
    maps, (noise, drift) = with_themselves(block, overlaps), rates
    changes = {name: noise * maps.push(KAPPA, theta) for name, theta in tangents.items()}
    for name, theta in maps.tangents().items():
        changes[name] = changes.get(name, 0.0) + drift * theta
    return noise * maps.value(KAPPA), changes


def _in_layer_time(block: GroupKernels, overlaps: np.ndarray, rates: tuple[float, float]
                   ) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    names = tuple(with_themselves(block, overlaps).tangents())

    def slope(time: float, state: np.ndarray) -> np.ndarray:
        now, *tangents = state.reshape(-1, *overlaps.shape)
        added, changes = _added(block, now, dict(zip(names, tangents)), rates)
        return np.stack([added, *(changes[name] for name in names)]).ravel()

    start = np.stack([overlaps, *(np.zeros_like(overlaps) for _ in names)])
    found = solve_ivp(slope, (0.0, 1.0), start.ravel(), "DOP853", [1.0], rtol=RELATIVE,
                      atol=RELATIVE * float(np.max(np.abs(overlaps))))
    if not found.success or not np.all(np.isfinite(found.y)):
        raise Divergence("overlaps blow up in layer time", layer=float(found.t[-1]) if len(found.t) else 0.0)
    end, *tangents = found.y[:, -1].reshape(-1, *overlaps.shape)
    return end, dict(zip(names, tangents))
