"""Long training of the linear residual network at infinite depth without a step of it, and where decay balances it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Callable

import numpy as np
import sympy as sp

from .._checks import choice, finite_array, instance, positive_integer, positive_number, rates_by_step, short
from .._shown import Short
from .._types import Number
from ..errors import Divergence, NotCovered
from ..models import ResNet
from ..optimizers import SGD
from ..optimizers.schedules import schedule as falling
from ..scaling import DepthScaling
from .curve import OUT_TO, CurvePoint, OutputCurve
from .end_to_end import moved
from .risk import Risk, StochasticDescent
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


SCHEDULES = ("constant", "linear", "inverse")
TRIED = 24        # rates, before the best of them is refined
RANGE = 0.3       # of 1 / (kernel x steps), the least rate that is tried


@dataclass(frozen=True, repr=False)
class BestRate(Short):
    """The peak rate of a schedule with the least risk, and that risk."""

    schedule: str
    rate: float
    risk: Risk


@dataclass(frozen=True)
class LongHorizon:
    """What ``tp.long_horizon`` gives; times are learning rates times steps, in those of the limit."""

    net: ResNet
    stream: Stream
    opt: SGD
    scale: DepthScaling

    def curve(self, z: Number | np.ndarray) -> CurvePoint:
        """The curve F that outputs of unit inputs move on while gradients keep one direction, with its tangents.

        Raises ``ValueError`` beyond the z at which F is infinite, and ``NotCovered`` at alpha = 1/2.
        """
        self._require_drift("its curve")
        return OutputCurve(OUT_TO).at(finite_array("z", z))

    def flow(self, times: object) -> np.ndarray:
        """The weights of inputs, (times, d), f(x) = weights . x, under gradient flow of the stream's mean loss, from 0.

        Any covariance is taken; times do not fall. Raises ``ValueError`` for others, and ``NotCovered`` at alpha = 1/2.
        """
        self._require_drift("gradient flow")
        given = finite_array("times", times)
        if given.ndim != 1 or not given.size or np.any(np.diff(given, prepend=0.0) < 0) or given[-1] == 0:
            raise ValueError(f"times: got {short(times)}; expected numbers of at least 0, one after the other and not "
                             "all 0")
        d, (c, teacher) = self.stream.dimension, (self.stream.covariance, self.stream.teacher)

        def pull(product: np.ndarray) -> np.ndarray:
            found = np.zeros((d + 1, d + 1))
            found[d, :d] = self.scale.drift_constant * c @ (teacher - product[d, :d])
            return found

        return moved(pull, d + 1, given, np.inf)[:, d, :d]

    def risk(self, schedule: object, batch_size: int, steps: int) -> Risk:
        """The excess risk of stochastic gradient descent after ``steps`` batches of fresh samples.

        schedule: "constant", "linear" (to 0) or "inverse", from the rate of ``opt``, one rate, or one a step. Raises
        ``NotCovered`` at alpha = 1/2, for a covariance that is no multiple of the identity and where noise moves the
        network too far, and ``Divergence`` where steps overshoot or squares of errors grow.
        """
        steps = positive_integer("steps", steps)
        batch_size = positive_integer("batch_size", batch_size)
        if isinstance(schedule, str):
            if not isinstance(self.opt.lr, float):
                raise ValueError(f"schedule: got {schedule!r}, and {short(self.opt)}; a schedule falls from one rate; "
                                 "expected a tp.SGD with one, or rates by step")
            rates = self._rates(choice("schedule", schedule, SCHEDULES), steps)(self.opt.lr)
        else:
            rates = rates_by_step(finite_array("schedule", schedule), steps)
        if np.any(rates < 0):
            raise ValueError(f"schedule: got a rate of {np.min(rates):.6g}; expected rates of at least 0")
        return self._descent.risk(self.scale.drift_constant * rates, batch_size)

    def best(self, schedule: str, batch_size: int, steps: int) -> BestRate:
        """The best peak rate of a schedule, "constant", "linear" or "inverse".

        Of risks and what they may be off by the sum is least. "inverse" is rate / (1 + rate K t), 1 / (K (t + t_0)),
        with the teacher's tangent kernel times the variance for K.
        Raises ``NotCovered`` where the best rate is at the edge of what is covered, and what ``risk`` raises.
        """
        from scipy.optimize import minimize_scalar

        schedule = choice("schedule", schedule, SCHEDULES)
        steps, batch_size = positive_integer("steps", steps), positive_integer("batch_size", batch_size)
        rates, descent, unit = self._rates(schedule, steps), self._descent, self.scale.drift_constant

        def left(log_rate: float) -> float:
            try:
                found = descent.risk(unit * rates(np.exp(log_rate)), batch_size)
            except (Divergence, NotCovered):
                return np.inf
            return found.risk + found.error_estimate

        least, most = np.log(np.array([RANGE / steps, 1 - 1e-9]) / (unit * descent.fastest))
        tried = np.linspace(least, most, TRIED)
        risks = [left(one) for one in tried]
        k = int(np.argmin(risks))
        if k in (0, TRIED - 1) or not np.isfinite(risks[k + 1]):
            raise NotCovered(f"schedule: got {schedule!r} for {steps} steps of {batch_size} samples; no rate is best "
                             "among those whose risk is known to leading order; expected more steps or larger batches")
        log_rate = float(minimize_scalar(left, bounds=(tried[k - 1], tried[k + 1]), method="bounded",
                                         options={"xatol": 1e-4}).x)
        found = float(np.exp(log_rate))
        return BestRate(schedule, found, descent.risk(unit * rates(found), batch_size))

    def stationary(self, decay: Number) -> StationaryState:
        """Where gradient flow of the mean loss and a weight decay balance, W <- (1 - rate decay) W.

        Any covariance is taken. At (1/2, 1/2) it is the state after many times 1 / (rate decay) steps, when initial
        weights are forgotten. Raises ``NotCovered`` where more than one state is stationary.
        """
        return stationary_state(self.stream, positive_number("decay", decay) / self.scale.drift_constant)

    def _require_drift(self, what: str) -> None:
        if self.scale.alpha == sp.Rational(1, 2):
            raise NotCovered(f"scale: got {self.scale}; {what} is closed for alpha > 1/2 alone, where initial matrices "
                             "leave nothing; expected alpha > 1/2, or stationary(decay), which has forgotten them")

    @cached_property
    def _descent(self) -> StochasticDescent:
        self._require_drift("the risk")
        if self.stream.variance is None:
            raise NotCovered(f"stream: got a covariance of shape {self.stream.covariance.shape} that is no multiple of "
                             "the identity; noise is followed where gradients keep one direction; expected a multiple "
                             "of the identity, or flow(times), which has no noise")
        return StochasticDescent(self.stream, self.stream.variance)

    def _rates(self, schedule: str, steps: int) -> Callable[[float], np.ndarray]:
        """The rates of a schedule, as a function of the first."""
        at = np.arange(steps)
        if schedule == "inverse":
            restored = self.scale.drift_constant * self._descent.fastest
            return lambda rate: rate / (1 + rate * restored * at)
        shares = np.array(falling(1.0, steps, fall=schedule))
        return lambda rate: rate * shares


def long_horizon(net: ResNet, stream: Stream, opt: Any, scale: DepthScaling) -> LongHorizon:
    """The linear residual network at infinite width and depth, trained on a stream of fresh samples for any time.

    Where alpha > 1/2 initial matrices leave nothing, and the product M of all layers, on the span of the embedding's
    columns and the readout, is moved by M' = int_0^1 (M M^T)^(1 - s) (-dLoss/dM) (M^T M)^s ds, with M = 1 at first.

    Parameters
    ----------
    net:
        phi="linear", one matrix a block, no norm, embedding and readout frozen.
    stream:
        a ``tp.Stream``; outputs are numbers.
    opt:
        a ``tp.SGD`` without momentum and weight decay; ``stationary`` takes a decay.
    scale:
        gamma = 1 - alpha, alpha > 1/2; at alpha = 1/2 ``stationary`` alone.

    Raises ``ValueError`` for bad input, and ``NotCovered``, naming it, for what is not solved: other networks,
    optimizers and scalings.

    >>> import numpy as np, tpcalc as tp
    >>> stream = tp.Stream(np.eye(3), [1.0, 0.0, 0.0], noise=0.5)
    >>> found = tp.long_horizon(tp.ResNet(), stream, tp.SGD(0.01), tp.DepthScaling(1, 0))
    >>> found.curve([0.5, 1.0]).value.round(6).tolist()
    [0.563022, 1.845364]
    >>> found.stationary(0.1).weights.round(6).tolist()
    [0.950563, 0.0, 0.0]
    >>> best = found.best("linear", batch_size=1, steps=10**6)
    >>> round(best.rate * 10**6, 3), round(best.risk.risk / best.risk.least_squares, 3)
    (8.806, 1.794)
    """
    for name, value, kind in (("net", net, ResNet), ("stream", stream, Stream), ("scale", scale, DepthScaling)):
        instance(name, value, kind)
    net.require_plain("long training in closed form")
    if not isinstance(opt, SGD):
        raise NotCovered(f"opt: got {short(opt)}; long training is closed for gradient descent alone; expected a "
                         "tp.SGD without momentum and weight decay")
    if opt.momentum or opt.weight_decay:
        raise NotCovered(f"opt: got {short(opt)}; momentum is not covered by long training in closed form, and "
                         "stationary(decay) takes a decay; expected a tp.SGD without momentum and weight decay")
    scale.require_numbers()
    if scale.alpha < sp.Rational(1, 2) or scale.alpha + scale.gamma != 1:
        raise NotCovered(f"scale: got {scale}; long training in closed form takes gamma = 1 - alpha and alpha of at "
                         "least 1/2: updates of all layers add up to order one there")
    return LongHorizon(net, stream, opt, scale)
