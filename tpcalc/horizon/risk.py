"""What stochastic gradient descent has left of the error after a schedule of rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._shown import Short
from ..errors import Divergence, NotCovered
from ..kernels.stochastic_descent import descend
from .curve import OutputCurve
from .stream import Stream

POINTS = 4097  # of the curve between output 0 and the teacher
LARGEST = 1e12   # a risk
MOST_OFF = 0.25  # the square of what tangent kernels are supposed to be off by, at most


@dataclass(frozen=True, repr=False)
class Risk(Short):
    """The excess risk E (f(x) - teacher . x)^2 after the last step, to leading order in the rates.

    risk: bias + variance; bias: of the mean over draws; variance: that of the draws; least_squares: what least squares
    would have left of the same samples, d noise^2 / samples; moved: the squared distance that noise has moved the
    product of all layers by; error_estimate: what this may change the risk by, through tangent kernels that are off by
    the square root of it. Real networks were within it; where their bias is large, it may be several times too much.
    """

    risk: float
    bias: float
    variance: float
    least_squares: float
    moved: float
    error_estimate: float


class StochasticDescent:
    """Stochastic descents on one stream, whose directions all have one variance.

    The mean moves on the curve, K(F) its tangent kernels there: K_1 of the teacher's direction and K_2 of the others.
    Noise is a part of every step, of covariance rate^2 K ((noise^2 + |e|^2) + e e^T) K / batch_size.
    """

    def __init__(self, stream: Stream, variance: float) -> None:
        self.stream, self.variance = stream, variance
        length = max(float(np.linalg.norm(stream.teacher)), 1e-6)
        found = OutputCurve(length).at_values(np.linspace(0.0, length, POINTS))
        self.along, self.across = found.along, found.across
        self.reach = float(np.sqrt(variance)) * length  # of inputs of variance 1, and so outputs and errors below

    @property
    def fastest(self) -> float:
        """The largest tangent kernel times the variance of inputs: steps must be shorter than what it restores in."""
        return self.variance * float(np.max(self.along))

    def risk(self, rates: np.ndarray, batch_size: int) -> Risk:
        """After these rates; raises ``Divergence`` where steps overshoot, ``NotCovered`` where noise moves too far."""
        most = float(np.max(rates))
        if most * self.fastest >= 1:
            raise Divergence(f"rates: got up to {most:.6g}; a step of 1 / (tangent kernel x variance) = "
                             f"{1 / self.fastest:.6g} takes all of the error away, and larger ones overshoot; "
                             "expected smaller ones")
        risk, bias, moved = self._left(rates, batch_size, 1.0)
        if not risk < LARGEST:
            raise Divergence(f"rates: got up to {most:.6g}; squares of errors grow at every step of {batch_size} "
                             "samples; expected smaller rates or larger batches")
        off = min(moved, MOST_OFF) ** 0.5
        around = [self._left(rates, batch_size, 1 + sign * off)[0] for sign in (-1, 1)]
        error = abs(sum(around) / 2 - risk) + moved * risk
        if not error <= risk:
            raise NotCovered(f"rates: got up to {most:.6g}, for {len(rates)} steps of {batch_size} samples; noise "
                             f"moves the product of all layers by {moved:.3g} in squares, which may change the risk by "
                             "more than itself; risks are known to leading order in it; expected smaller rates or "
                             "larger batches")
        samples = batch_size * len(rates)
        return Risk(risk, bias, risk - bias, self.stream.dimension * self.stream.noise**2 / samples, moved, error)

    def _left(self, rates: np.ndarray, batch_size: int, scale: float) -> tuple[float, float, float]:
        """(risk, bias, squared distance moved by noise), of tangent kernels times a number."""
        output, parallel, others, moved = descend(
            rates * self.variance, self.reach, scale * self.along, scale * self.across, self.stream.dimension - 1,
            self.stream.noise**2, batch_size)
        bias = (self.reach - output) ** 2
        return bias + parallel + others, bias, moved
