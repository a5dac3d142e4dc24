"""Spectra that are power laws: how the best rate and the loss fall with data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._checks import choice, positive_number, short
from .._shown import Short
from .._types import Number

REMAINING = {"constant": 0, "linear": 1}  # rates go like this power of the share of steps that are left
ONE_BY_ONE, FARTHEST, NODES, NOTHING = 512, 1e40, 1000, 1e-100  # modes that are summed; the others, integrated
DECADES = 4.0  # over which slopes are taken


@dataclass(frozen=True, repr=False)
class PowerLaw(Short):
    """The best rate goes like D^-x, its excess loss like D^-loss; errors: by how much both change over DECADES more."""

    x: float
    loss: float
    errors: tuple[float, float]


class Modes:
    """The modes i = 1, 2, ... of a stream, of variance i^-a and initial loss i^-b, under label noise of variance 1.

    A mode of variance v has the excess loss q with q' = -2 r v q + r^2 v^2 at a rate r, batches of one sample.
    """

    def __init__(self, a: float, b: float, schedule: str) -> None:
        first = np.arange(1.0, ONE_BY_ONE)
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        reach = np.log(FARTHEST / (ONE_BY_ONE - 0.5))
        rest = (ONE_BY_ONE - 0.5) * np.exp(reach * (nodes + 1) / 2)
        self.index = np.concatenate([first, rest])
        self.weight = np.concatenate([np.ones_like(first), rest * weights * reach / 2])
        self.variance, self.initial = self.index**-a, self.index**-b
        self.power = REMAINING[schedule]

    def loss(self, rate: float, steps: float) -> float:
        """After all steps, from the solution of each mode: of rates r s^k at the share s that is left, what a step put
        in has fallen by exp(-2 r v T s^(k+1) / (k+1)), and the integral over s is an incomplete gamma function."""
        from scipy.special import gamma, gammainc

        m = self.power + 1
        fall = np.maximum(2 * rate * steps * self.variance / m, NOTHING)
        order = (2 * self.power + 1) / m
        added = rate**2 * self.variance**2 * steps / m * gamma(order) * gammainc(order, fall) * fall**-order
        return float(np.sum(self.weight * (self.initial * np.exp(-fall) + added)))

    def best(self, steps: float) -> tuple[float, float]:
        """(log of the rate, log of its loss) of the best rate up to 1 / (largest variance)."""
        from scipy.optimize import minimize_scalar

        found = minimize_scalar(lambda q: np.log(self.loss(np.exp(q), steps)), bounds=(-np.log(steps), 0.0),
                                method="bounded", options={"xatol": 1e-10})
        edge = float(np.log(self.loss(1.0, steps)))
        return (0.0, edge) if edge <= found.fun else (float(found.x), float(found.fun))


def power_law(a: Number, b: Number, schedule: str = "constant", data: Number = 1e24) -> PowerLaw:
    """x and the exponent of loss at ``data`` samples, from the best rates of the modes' own equations.

    Parameters
    ----------
    a, b:
        above 1: the stream's variances go like i^-a, and a mode's share of the initial loss like i^-b.
    schedule:
        "constant", or "linear" to 0.
    data:
        slopes are those from data / 10^4 to data: asymptotic where it is large, what a sweep sees where it is not.

    Noise of labels of order one is assumed, and rates of at most 1 / (largest variance). Raises ``ValueError`` for
    other numbers.

    >>> found = power_law(1.5, 2.5)
    >>> round(found.x, 4), round(found.loss, 4)
    (0.5, 0.5)
    """
    a, b = (positive_number(name, value) for name, value in (("a", a), ("b", b)))
    for name, value in (("a", a), ("b", b)):
        if value <= 1:
            raise ValueError(f"{name}: got {value:.6g}; the sum of i^-{name} over modes is infinite; expected more "
                             "than 1")
    data = positive_number("data", data)
    if not 1e6 <= data <= 1e30:
        raise ValueError(f"data: got {short(data)}; expected from 1e6 to 1e30")
    modes = Modes(a, b, choice("schedule", schedule, REMAINING))
    ends = [modes.best(data * 10 ** (DECADES * k)) for k in (-1, 0, 1)]
    (x, loss), (later_x, later_loss) = (tuple((np.array(one) - two) / (DECADES * np.log(10)))
                                        for one, two in zip(ends, ends[1:]))
    return PowerLaw(float(x), float(loss), (abs(float(later_x - x)), abs(float(later_loss - loss))))
