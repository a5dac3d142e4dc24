"""The infinite-depth limit with kernels that are sampled: solved once for every scramble of their points.

Given its points a kernel is a smooth function of overlaps, so that layer time is resolved by few nodes; what the points
leave unknown is seen in how solutions of different scrambles differ.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from ..errors import Divergence
from ..optimizers import SGD
from ..data import Task
from .blocks import GroupKernels
from .collocation import SAMPLED_ELEMENTS, CollocationPropagator, TooCoarse, train_on
from .mesh import Mesh

COARSE, FINE = 6, 8   # nodes of an element in the two resolutions that are compared
RESOLVED = 2e-5       # of the scale of f, how far they may differ


class SampledLimit(NamedTuple):
    """Outputs (scrambles, steps, rows, d_out), and ``difference``, between two resolutions of layer time."""

    outputs: np.ndarray
    difference: float
    scale: float


def solve_sampled(task: Task, optimizer: SGD, noise: float, drift: float, scrambles: Sequence[GroupKernels]
                  ) -> SampledLimit:
    """Train at infinite width and depth with every one of the kernels, on one mesh of layer time.

    noise, drift: the constants of ``CollocationPropagator``. Raises ``Divergence`` where values are not finite, or not
    resolved by ``SAMPLED_ELEMENTS`` elements.
    """
    mesh = Mesh.uniform(1, FINE)
    while True:
        try:
            found = _on(mesh, task, optimizer, noise, drift, scrambles)
        except TooCoarse as coarser:
            mesh, step, layer = mesh.cut(coarser.cuts), coarser.step, coarser.layer
            if mesh.elements > SAMPLED_ELEMENTS:
                raise Divergence(f"the infinite-depth limit is not resolved by {SAMPLED_ELEMENTS} elements of layer "
                                 f"time ({coarser}); a smaller learning rate may help", step=step, layer=layer)
            continue
        if isinstance(found, SampledLimit):
            return found
        longer, mesh = mesh, found
        if mesh.elements > SAMPLED_ELEMENTS:
            raise Divergence(f"the infinite-depth limit is not resolved by {longer.elements} elements of layer time; "
                             "a smaller learning rate may help")


def _on(mesh: Mesh, task: Task, optimizer: SGD, noise: float, drift: float, scrambles: Sequence[GroupKernels]
        ) -> SampledLimit | Mesh:
    """The solutions, or a mesh of shorter elements where those of this one are too long."""
    guess: CollocationPropagator | None = None

    def solved(block: GroupKernels, nodes: int) -> tuple[np.ndarray, float]:
        nonlocal guess
        trace, guess = train_on(mesh.with_nodes(nodes), task, optimizer, noise, drift, "plain", lambda step: None,
                                block, False, None, guess)
        guess.guess = None
        return trace.outputs, trace.scale

    coarse, _ = solved(scrambles[0], COARSE)
    fine, size = solved(scrambles[0], FINE)
    difference = float(np.max(np.abs(fine - coarse)))
    assert guess is not None
    if difference > RESOLVED * size:
        tails = guess.tails()
        return mesh.bisect(tails >= 0.1 * np.max(tails))
    outputs = [fine, *(solved(block, FINE)[0] for block in scrambles[1:])]
    return SampledLimit(np.array(outputs), difference, size)
