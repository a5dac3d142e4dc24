"""Answers to tilts, which covariances and biases are made of, found once for both."""

from __future__ import annotations

from ..propagators.mesh import Mesh
from .tilted import TiltedSolution, series_in_tilt
from .tilted_determinant import TANGENTS, BiasGradient, LayersGradient, TiltResponse, response
from .tilted_determinant_layer_time import TANGENTS as IN_LAYER_TIME, LayerTimeGradient
from .tilted_layer_time import LimitNetwork

KEPT = 2.0**29  # bytes; what is larger is found again


def bias_gradient(base: TiltedSolution) -> BiasGradient:
    """The bias at finite or infinite depth, as a function of answers to a tilt."""
    return LayerTimeGradient(base) if isinstance(base.network, LimitNetwork) else LayersGradient(base)


class TiltedResponses:
    """How outputs answer tilts of one another, to first order, on every mesh of layer time, or at a depth.

    Answers that would exceed ``KEPT`` bytes in all are not kept. Their networks are of one training and one set of
    rows.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Mesh | int, int, int], TiltResponse] = {}
        self._size = 0.0

    def of(self, base: TiltedSolution, row: int, output: int) -> TiltResponse | TiltedSolution:
        """To the tilt of one output."""
        network = base.network
        tangents, at = (TANGENTS, network.depth)
        if isinstance(network, LimitNetwork):
            tangents, at = IN_LAYER_TIME, network.mesh
        if (at, row, output) in self._known:
            return self._known[at, row, output]
        series = series_in_tilt(base, row, output, 2)
        size = 8.0 * len(tangents) * base.left.added[0].size
        if self._size + size > KEPT:
            return series
        self._size += size
        self._known[at, row, output] = found = response(base, series, tangents)
        return found
