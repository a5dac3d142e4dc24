"""What finite width does to a trained linear network: error bars, biases and cumulants of its outputs, computed.

Over initialisations an output of a network of width n has mean f + b / n, covariances Sigma / n and a k-th cumulant of
order n^(1 - k), to leading order; Sigma, b and the cumulants' constants are derivatives of the output under a tilt, or
of the determinant of fluctuations. At infinite depth they are limits of networks whose L layers share the constants of
the limit, power series in 1/L.

Source: [tpcalc/finite_width]; two steps in closed form: [tpcalc/two_steps_at_finite_width].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Callable, NamedTuple

import numpy as np

from .. import _checks
from ..programs import SGD, Task
from .depth_extrapolation import Extrapolated, infinite_depth
from .tilted import TiltedNetwork, along, base_solution, tilted_network
from .tilted_determinant import BiasGradient

ROUND_OFF = 16 * np.finfo(np.float64).eps
TOLERANCE, BIAS_TOLERANCE = 1e-11, 1e-9  # at infinite depth, relative to the largest value
SMALL = 0.1  # what the next order may change a standard deviation by before it is said
Quantity = Callable[[TiltedNetwork, np.ndarray], np.ndarray]  # of some rows of a network


class AtWidth(NamedTuple):
    """What real networks of one width give: mean and std, (steps, samples, d_out), over initialisations; warning: None,
    or a sentence where the next order in 1/n is not small."""

    mean: np.ndarray
    std: np.ndarray
    warning: str | None


@dataclass(frozen=True)
class Fluctuations:
    """Differences between a network of width n and its limit, to leading order in 1/n, found when asked for.

    depth: layers, None for infinitely many; noise, drift: eps^2 and eps g of a layer, or the constants of the
    infinite-depth limit. Outputs are of shape (steps T, batch B, d_out), those of the task's m probes (T, m, d_out).

    >>> import tpcalc as tp
    >>> task = tp.Task(inputs=[1, 0.8], targets=[1, -0.7])
    >>> run = tp.train(tp.ResNet("linear"), task, tp.SGD(lr=0.3), tp.DepthScaling(0.5, 0.5), depth=tp.oo)
    >>> run.fluctuations.covariance.reshape(2, 2).round(6).tolist()
    [[2.718282, 0.844595], [0.844595, 3.109077]]
    >>> run.fluctuations.bias.ravel().round(6).tolist()[1:]
    [-0.828165]

    Source: [tpcalc/finite_width].
    """

    task: Task
    optimizer: SGD
    depth: int | None
    noise: float
    drift: float
    train_ends: bool

    @cached_property
    def covariance(self) -> np.ndarray:
        """Sigma, the limit of n Cov of the outputs over initialisations, shape (T, B, d_out, T, B, d_out)."""
        return self._covariance.value

    @cached_property
    def probe_covariance(self) -> np.ndarray:
        """The same of the probes' outputs, shape (T, m, d_out, T, m, d_out). Raises ``ValueError`` without probes."""
        return self._found(_covariance, self._probes).value

    @property
    def covariance_error(self) -> float:
        """How far ``covariance`` may be off, absolutely: what the last order in 1/L changed at infinite depth, round-
        off (how far it is from symmetric) at finite depth."""
        return self._covariance.error

    @cached_property
    def bias(self) -> np.ndarray:
        """b, the limit of n (mean - f), shape (T, B, d_out).

        Time O(L N^6) in the N = T B rows: 40 ms a layer for eight.
        """
        return self._bias.value

    @cached_property
    def probe_bias(self) -> np.ndarray:
        """The same of the probes' outputs, shape (T, m, d_out), one probe after the other."""
        return self._of_each_probe(_biases, BIAS_TOLERANCE)

    @property
    def bias_error(self) -> float:
        """How far ``bias`` may be off, absolutely; at finite depth what is found for step 0, where b vanishes by
        symmetry."""
        return self._bias.error

    def cumulant(self, k: int) -> np.ndarray:
        """The limit of n^(k - 1) times the k-th cumulant of each output, shape (T, B, d_out); the first is f itself.

        Raises ``ValueError`` unless k is a whole number of at least 1.
        """
        order = _checks.positive_integer("k", k)
        if order not in self._cumulants:
            self._cumulants[order] = self._found(lambda network, rows: _cumulants(network, rows, order)).value
        return self._cumulants[order]

    def probe_cumulant(self, k: int) -> np.ndarray:
        """The same of the probes' outputs, shape (T, m, d_out), one probe after the other."""
        order = _checks.positive_integer("k", k)
        return self._of_each_probe(lambda network, rows: _cumulants(network, rows, order), TOLERANCE)

    @cached_property
    def _covariance(self) -> Extrapolated:
        return self._found(_covariance)

    @cached_property
    def _bias(self) -> Extrapolated:
        return self._found(_biases, tolerance=BIAS_TOLERANCE)

    @cached_property
    def _cumulants(self) -> dict[int | None, np.ndarray]:
        return {}

    @property
    def _probes(self) -> np.ndarray:
        if self.task.probes is None:
            raise ValueError("probes: none given with the task; held-out outputs need tp.Task(probes=...)")
        return self.task.probes

    def _of_each_probe(self, quantity: Quantity, tolerance: float) -> np.ndarray:
        return np.concatenate([self._found(quantity, probe[None], tolerance).value for probe in self._probes], axis=1)

    def _found(self, quantity: Quantity, probes: np.ndarray | None = None, tolerance: float = TOLERANCE
               ) -> Extrapolated:
        """A quantity of the outputs, or of those of probes, in the shape of outputs."""
        def at_depth(depth: int) -> np.ndarray:
            layer = (self.noise, self.drift) if self.depth is not None else (self.noise / depth, self.drift / depth)
            network = tilted_network(self.task, self.optimizer, depth, *layer, self.train_ends, probes)
            return quantity(network, np.flatnonzero(network.learnt if probes is None else ~network.learnt))

        if self.depth is None:
            found = infinite_depth(at_depth, tolerance)
        else:
            value = at_depth(self.depth)
            found = Extrapolated(value, _round_off(value))
        shape = self.task.steps, self.task.batch if probes is None else len(probes), self.task.d_out
        return found._replace(value=found.value.reshape(shape * (found.value.ndim // 2)))


def _covariance(network: TiltedNetwork, rows: np.ndarray) -> np.ndarray:
    """(R, d_out, R, d_out): how every output answers a tilt of every other."""
    base = base_solution(network)
    return np.array([[along(base, row, k, 2).f[1, rows] for k in range(network.d_out)] for row in rows])


def _cumulants(network: TiltedNetwork, rows: np.ndarray, order: int | None) -> np.ndarray:
    """(R, d_out)"""
    assert order is not None
    base = base_solution(network)
    if order == 1:
        return base.f[0, rows]
    return math.factorial(order - 1) * np.array([[along(base, row, k, order).f[order - 1, row, k]
                                                  for k in range(network.d_out)] for row in rows])


def _biases(network: TiltedNetwork, rows: np.ndarray) -> np.ndarray:
    """(R, d_out)"""
    base = base_solution(network)
    gradient = BiasGradient(base)
    return np.array([[gradient.along(along(base, row, k, 2)) for k in range(network.d_out)] for row in rows])


def _round_off(value: np.ndarray) -> float:
    size = ROUND_OFF * float(np.max(np.abs(value), initial=0.0))
    if value.ndim == 4:
        return size + float(np.max(np.abs(value - value.transpose(2, 3, 0, 1))))
    return size + float(np.max(np.abs(value[0])))


def at_width(fluctuations: Fluctuations, outputs: np.ndarray, width: int, probes: bool = False) -> AtWidth:
    """Mean and standard deviation of outputs at a width, and a warning where the next order is not small."""
    bias = fluctuations.probe_bias if probes else fluctuations.bias
    cumulant = fluctuations.probe_cumulant if probes else fluctuations.cumulant
    second, third, fourth = map(cumulant, (2, 3, 4))
    change = next_order(second, third, fourth) / width
    worst = np.unravel_index(int(np.argmax(change)), change.shape)
    warning = None
    if change[worst] > SMALL:
        step, sample, k = map(int, worst)
        warning = (f"at width {width} the next order in 1/n may change the standard deviation of output {k} of "
                   f"{'probe' if probes else 'sample'} {sample} at step {step} by {100 * change[worst]:.0f} %; it is "
                   f"below {100 * SMALL:.0f} % from width {math.ceil(width * change[worst] / SMALL)} on")
    return AtWidth(outputs + bias / width, np.sqrt(np.maximum(second, 0.0) / width), warning)


def next_order(second: np.ndarray, third: np.ndarray, fourth: np.ndarray) -> np.ndarray:
    """n times the relative change of a standard deviation that the next order of its variance may make.

    An output that is a function g of one Gaussian z / n^(1/2) has a variance of Sigma (1 + (k / 4 - 5 s / 18) / n), k
    = c4 / Sigma^2 and s = c3^2 / Sigma^3, c the leading constants of its cumulants; outputs are functions of many,
    whose parts may add up, so that absolute values are taken. Outputs without fluctuations have none.
    """
    size = np.where(second > 0, second, np.inf)
    return (np.abs(fourth) / size**2 / 4 + 5 * third**2 / size**3 / 18) / 2
