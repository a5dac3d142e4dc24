"""Biases of nonlinear blocks at infinite depth, beside their covariances: sampled at doubling depths, extrapolated.

Networks of the depths share their draws, as increments of Brownian motion over layer time do, so that what a draw says
of the bias differs from depth to depth by the depth and little else, and is extrapolated in the derived powers of 1/L.

Source: [tpcalc/finite_width]; the biases are those of ``sampled_fluctuations``, the draws those of ``common_draws``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Sequence

import numpy as np

from .. import _checks
from ..errors import NotCovered
from ..finite_width.fluctuations import Fluctuations, OutputsAtWidth, of_curvature
from ..interpreters.common_draws import Refinement
from ..propagators.depth_orders import depth_orders
from ..propagators.extrapolation import Extrapolation
from ..training.problem import Problem
from .sampled import joint_error
from .sampled_fluctuations import SampledFluctuations, is_smooth

COARSEST, LEVELS = 8, 3       # depths 8, 16, 32
COORDINATES, DRAWS = 256, 512  # of networks by weights


@dataclass(frozen=True, repr=False)
class BlockFluctuations(Fluctuations):
    """What ``Fluctuations`` knows of nonlinear blocks at infinite depth, and their biases, sampled.

    problem: the training. ``bias_errors`` has the standard errors of the biases, and ``bias_remainders`` what the
    finite depths may leave.

    >>> import tpcalc as tp
    >>> task = tp.Task([1, 0.8], [1, -0.7])
    >>> found = tp.train(tp.ResNet("tanh"), task, tp.SGD(0.5), tp.DepthScaling(), depth=tp.oo).fluctuations
    >>> found.covariance.shape, found.problem.depth
    ((2, 1, 1, 2, 1, 1), oo)
    """

    problem: Problem = field(kw_only=True)

    @cached_property
    def bias(self) -> np.ndarray:
        """b, the limit of n (mean - f), shape (T, B, d_out)."""
        return self._shaped(self._sampled.limit, False)

    @cached_property
    def probe_bias(self) -> np.ndarray:
        """The bias of the probes' outputs, shape (T, m, d_out); ``ValueError`` without any."""
        assert len(self._probes)
        return self._shaped(self._sampled.limit, True)

    @property
    def bias_errors(self) -> np.ndarray:
        """The standard error of each bias, of its shape."""
        return self._shaped(self._sampled.standard_error, False)

    @property
    def bias_remainders(self) -> np.ndarray:
        """How far each bias may be off by the finite depths, as the coarsest of them says."""
        return self._shaped(self._sampled.bias_bound, False)

    @property
    def bias_error(self) -> float:
        """How far ``bias`` may be off with 95% confidence, absolutely, by chance and by the finite depths; what is of
        order 1/``COORDINATES`` beside b is not in it."""
        return joint_error(self.bias_errors.ravel(), DRAWS) + float(np.max(self.bias_remainders))

    def excess(self, slopes: np.ndarray, curvatures: np.ndarray) -> tuple[np.ndarray, ...]:
        """What the bias adds, by draw and depth, (draws, depths), and what the covariance does, (1,)."""
        values = self._sampled.values
        last = values.reshape(*values.shape[:2], *self._at(LEVELS - 1).shape)[:, :, -1, :self.problem.task.batch]
        return (np.einsum("njik,ik->nj", last, slopes), np.array([of_curvature(self.covariance, curvatures)]))

    def told(self, parts: Sequence[np.ndarray]) -> tuple[float, float]:
        """With what the finite depths may leave."""
        by_bias = replace(self._sampled, values=parts[0])
        return float(by_bias.limit + parts[1][0]), by_bias.error

    def at_width(self, outputs: np.ndarray, width: int, probes: bool) -> OutputsAtWidth:
        """Mean and deviation at a width, from the outputs of infinite width, and what is not known of them."""
        second = self.cumulants(2, probes)[1]
        bias = self.probe_bias if probes else self.bias
        return OutputsAtWidth(outputs + bias / width, np.sqrt(np.maximum(second, 0.0) / width),
                              f"at width {width} the next order in 1/n is not known: of {self.net!r} the covariance "
                              "is, and a sampled bias, by which the mean may be off by "
                              f"{self.bias_error / width:.2g}; no higher cumulant")

    def _shaped(self, values: np.ndarray, probes: bool) -> np.ndarray:
        finest = self._at(LEVELS - 1)
        return np.asarray(values.reshape(finest.shape)[:, finest.rows(probes)])

    def _at(self, level: int) -> SampledFluctuations:
        return SampledFluctuations(replace(self.problem, depth=COARSEST * 2**level))

    @cached_property
    def _sampled(self) -> Extrapolation:
        """Draw by draw; as many at a time as the finest depth has room for, because seeds are theirs."""
        if not is_smooth(self.problem.net):
            raise NotCovered(f"fluctuations: the bias of {_checks.short(self.problem.net)} asked for; functions with a "
                             "kink have second derivatives that no sample has; expected smooth functions")
        together = self._at(LEVELS - 1).draws_at_once(COORDINATES)
        values = [self._at(level).biases_of_draws(COORDINATES, DRAWS, together, Refinement(COARSEST, level))
                  for level in range(LEVELS)]
        powers = depth_orders(self.problem.net, self.problem.scale).first(LEVELS)
        return Extrapolation(np.stack(values, axis=1), np.array(powers), COARSEST)
