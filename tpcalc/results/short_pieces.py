"""What features change by over short pieces of layer time, in parts: noise, and three terms of the next order.

With x' = A delta + noise of density N0, and what delta answers to noise at its own place, (1 - Q P)^-1 Q = Q G,

    d(eps)^2 = <(x^(p + eps) - x^p)^2> = N0 eps + (N0' / 2 + A C1 A^T + 2 A Q G N0) eps^2 + O(eps^3),

the diagonal entry of the row. The last term counts twice: delta moves x after a noise, and before it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev

from ..errors import NotCovered
from ..propagators.collocation import CollocationPropagator
from ..propagators.covariances import inverse
from ..propagators.mesh import Mesh, reference
from .run import Index, Run, layer_time


@dataclass(frozen=True)
class ShortPieces:
    """d(eps)^2 = noise eps + (growth + drift + feedback) eps^2 + O(eps^3).

    noise: of the initial matrices; growth: half the slope of the noise in layer time; drift: squared, what updates and
    responses add along gradients; feedback: gradients that answer the noise of the piece.
    """

    noise: float
    growth: float
    drift: float
    feedback: float

    @property
    def next_order(self) -> float:
        return self.growth + self.drift + self.feedback

    @property
    def steepness(self) -> float:
        """d(eps) / eps^(1/2) grows like 1 + steepness eps / 2; where there is noise."""
        return self.next_order / self.noise if self.noise else np.inf

    @property
    def crossover(self) -> float:
        """eps at which noise, eps^(1/2), and drift, eps, are of one size."""
        return self.noise / self.drift if self.drift else np.inf


def short_pieces(run: Run, t: Index, p: float) -> ShortPieces:
    """The parts of d(eps)^2 of ``run.feature_difference(t, p, eps)`` at infinite depth, for small eps.

    t: a step, or (step, input); p: a layer time in [0, 1]. Trains once more unless ``keep_nodes`` held the solution.
    Raises ``ValueError`` at finite depth. Source: Tensor Programs VI, appendix L.4, whose figures these are the slopes
    of.
    """
    row, at = run.row("t", t), layer_time("p", p)
    if run.depth is not None:
        raise NotCovered(f"run: got one of depth {run.depth}; expected runs with depth=tp.oo")
    propagator = run.solved.propagator  # type: ignore[attr-defined]
    assert isinstance(propagator, CollocationPropagator)
    A, P, Q, N0 = (propagator.mesh.evaluate(v, at) for v in (propagator.A, propagator.P, propagator.Q,
                                                             propagator.left.N))
    C1 = run.solved.covariance(False, np.array([at]))[0]
    answer = Q @ inverse(P, Q)
    return ShortPieces(float(N0[row, row]), float(_slope(propagator.mesh, propagator.left.N[:, row, row], at)) / 2,
                       float((A @ C1 @ A.T)[row, row]), float(2 * (A @ answer @ N0)[row, row]))


def _slope(mesh: Mesh, values: np.ndarray, at: float) -> float:
    """The derivative of a nodal function of one value, from the right where elements meet."""
    e = min(int(np.searchsorted(mesh.ends, at, side="right")) - 1, mesh.elements - 1)
    start, length = mesh.ends[e], mesh.lengths[e]
    derived = chebyshev.chebder(reference(mesh.nodes)[1] @ values[mesh.element(e)])
    return float(chebyshev.chebval(2 * (at - start) / length - 1, derived)) * 2 / length
