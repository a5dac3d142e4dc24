"""The infinite-depth limit with kernels that are sampled: solved once for every scramble of their points.

Given its points a kernel is a smooth function of overlaps, so that layer time is resolved by few nodes; what the points
leave unknown is seen in how solutions of different scrambles differ.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from ..optimizers import SGD
from ..data import Task
from .blocks import GroupKernels
from .collocation import TooCoarse, cut, solve_limit, train_on

NODES = 6, 8          # of an element in the two resolutions that are compared
RESOLVED = 4e-5       # of the scale of f, how far outputs may be off


class SampledLimit(NamedTuple):
    """Outputs (scrambles, steps, rows, d_out); ``error``, what layer time leaves of them, in one scramble."""

    outputs: np.ndarray
    error: float
    scale: float


def solve_sampled(task: Task, optimizer: SGD, noise: float, drift: float, scrambles: Sequence[GroupKernels]
                  ) -> SampledLimit:
    """Train at infinite width and depth with every one of the kernels, on a mesh of layer time that resolves the first.

    noise, drift: the constants of ``CollocationPropagator``. Raises ``Divergence`` where values are not finite, or not
    resolved by ``SAMPLED_ELEMENTS`` elements.
    """
    ends: tuple[float, ...] = (0.0, 1.0)
    while True:
        (trace, propagator, error) = solve_limit(task, optimizer, noise, drift, "plain", RESOLVED, block=scrambles[0],
                                                 ends=ends, nodes=NODES)
        mesh, outputs = propagator.mesh, [trace.outputs]
        try:
            for block in scrambles[1:]:
                later, propagator = train_on(mesh, task, optimizer, noise, drift, "plain", lambda step: None, block,
                                             False, None, propagator)
                propagator.guess = None
                outputs.append(later.outputs)
        except TooCoarse as coarser:
            ends = cut(mesh, coarser, block).ends
            continue
        return SampledLimit(np.array(outputs), error, trace.scale)
