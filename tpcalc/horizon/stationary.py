"""Where weight decay and gradients balance, at infinite depth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._shown import Short
from ..errors import NotCovered
from .stream import Stream

ANGLES, WIDEST = 4000, 1.5  # at which the state is looked for, up to nearly a right angle
LEAST = 1e-14  # of the widest angle of a teacher: states of large decays are near the initial one


@dataclass(frozen=True, repr=False)
class StationaryState(Short):
    """The stationary state of gradient flow with weight decay.

    weights: (d,), f(x) = weights . x; risk: E (f(x) - teacher . x)^2; squared_norm: of all updates, the integral of
    |A|^2 over layer time, (c |x| |delta|)^2; angle: that between stream and gradient has turned by.
    """

    weights: np.ndarray
    risk: float
    squared_norm: float
    angle: float


def balanced(angle: float) -> tuple[float, float]:
    """(output, size of the updates) of an input of length 1 whose A = c delta x^T in each layer.

    x' = c |x|^2 delta and delta' = -c |delta|^2 x keep f = x . delta, so that |x|^2 = e^(2 c f tau) and |delta|^2 =
    e^(2 c f (1 - tau)). Their directions p and q turn in one plane at one rate, p' = c e^(c f) (q - (p . q) p), from p
    orthogonal to the q at the top: with a turn of ``angle``, q is a right angle less that turn ahead of p, and f =
    e^(c f) sin(angle), angle = c e^(c f) cos(angle). The second over the first has c f = angle tan(angle).
    """
    growth = math.exp(angle * math.tan(angle))
    return growth * math.sin(angle), angle / (growth * math.cos(angle))


def stationary_state(stream: Stream, decay: float) -> StationaryState:
    """The state at which decay A = delta x_b^T, x_b the stream of b = covariance (teacher - weights).

    Streams orthogonal to that one do not move, so that weights are along b, b = ridge weights, and weights are those
    of ridge regression: the ridge is decay times the size of the updates over that of the output. Source:
    [tpcalc/stationary_state].
    """
    from scipy.optimize import brentq

    variances, axes = np.linalg.eigh(stream.covariance)
    target = axes.T @ stream.teacher

    def of_ridge(ridge: float) -> np.ndarray:
        return variances / (variances + ridge) * target

    def missing(angle: float) -> float:
        output, updates = balanced(angle)
        return float(np.linalg.norm(of_ridge(decay * updates / output)) - output)

    if not np.any(np.abs(variances * target) > 0):
        return StationaryState(np.zeros(stream.dimension), 0.0, 0.0, 0.0)
    reach = float(np.linalg.norm(target))
    if reach > balanced(WIDEST)[0]:
        raise NotCovered(f"teacher: got one of length {reach:.6g}; expected at most {balanced(WIDEST)[0]:.6g}")
    last = brentq(lambda angle: balanced(angle)[0] - reach, 0.0, WIDEST)
    angles = np.linspace(LEAST * last, last, ANGLES + 1)
    signs = np.sign([missing(angle) for angle in angles])
    changes = np.flatnonzero(signs[1:] != signs[:-1])
    if len(changes) != 1:
        raise NotCovered(f"decay: got {decay:.6g} with a teacher of length {reach:.6g}; {len(changes)} states are "
                         "stationary, and which of them training comes to is not known; expected a decay or teacher "
                         "with one")
    angle = brentq(missing, angles[changes[0]], angles[changes[0] + 1], xtol=LEAST**2, rtol=LEAST)
    output, updates = balanced(angle)
    found = of_ridge(decay * updates / output)
    return StationaryState(axes @ found, float(np.sum(variances * (target - found) ** 2)),
                           (updates * math.exp(angle * math.tan(angle))) ** 2, angle)
