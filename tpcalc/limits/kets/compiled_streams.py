"""The equations of a ket limit as a function of data and targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
from numpy.typing import ArrayLike

from ..._shown import Short
from ...calculus.kets import Ket
from ...calculus.setting import Setting
from ..collocation import LimitOutputs, numbers_by_step
from ..integral_equations import LimitEquation
from .march import March
from .sampled import SampledMarch

CELLS = (8, 16, 32)          # of layer time, or of each octave of it where functions have kinks
SAMPLED_CELLS = (6, 12)      # where means are sampled
SCRAMBLES, POINTS = 4, 2**9  # of means over what a layer draws
COVERED = 2.0                # standard errors within which means of scrambles are


@dataclass(frozen=True, repr=False)
class CompiledStreams(Short):
    """The equations of a ket limit as a function of data and targets.

    Steps in layer time are second order; outputs are extrapolated from meshes. inside: whether updates stand inside
    functions; means are then over scrambled points.

    >>> import tpcalc as tp
    >>> limit = tp.depth_limit(tp.kets(tp.program(tp.ResNet("tanh"), tp.SGD(), tp.DepthScaling())))
    >>> found = limit.compile()([1.0, 0.8], [1.0, -0.7])
    >>> found.outputs.round(3).tolist()
    [0.0, 0.531]
    """

    setting: Setting
    streams: tuple[Ket, Ket]
    equations: tuple[LimitEquation, ...]
    loss: Callable[[Any, Any], Any]
    inside: bool = False

    def __call__(self, inputs: ArrayLike, targets: ArrayLike, **data: ArrayLike) -> LimitOutputs:
        """Train on inputs and targets of shape (steps,); data: further data of the program by name, such as rates.

        Raises ``ValueError`` for what does not fit, ``Divergence`` naming the step where the solution blows up.
        """
        arrays, y = numbers_by_step(self.setting, inputs, targets, data)
        given = self.setting, self.streams, self.equations, self.loss, arrays, y
        if self.inside:
            return self._sampled(given)
        marches = [March(cells, *given) for cells in CELLS]
        one, two, three = (march.outputs() for march in marches)
        coarse, fine = (4 * two - one) / 3, (4 * three - two) / 3
        last = marches[-1]
        return LimitOutputs(fine, float(np.max(np.abs(fine - coarse))), len(last.mesh), last.values())

    def _sampled(self, given: tuple[Any, ...]) -> LimitOutputs:
        """Means over scrambles; errors are what these scatter by, and what a coarser mesh and fewer points make."""
        coarse, fine = SAMPLED_CELLS
        one, two, few = (np.array([SampledMarch(cells, points, seed, *given).outputs() for seed in range(SCRAMBLES)])
                         for cells, points in ((coarse, POINTS), (fine, POINTS), (coarse, POINTS // 4)))
        found = (4 * two - one) / 3
        error = (COVERED * np.std(found, axis=0, ddof=1) / np.sqrt(SCRAMBLES)
                 + np.abs(np.mean(found - two, axis=0)) + np.abs(np.mean(one - few, axis=0)))
        return LimitOutputs(np.mean(found, axis=0), float(np.max(error)), fine + 1, {})
