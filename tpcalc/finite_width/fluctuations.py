"""What finite width does to a trained network: error bars, biases and cumulants of its outputs, computed.

Over initializations an output of a network of width n has mean f + b / n, covariances Sigma / n and a k-th cumulant of
order n^(1 - k), to leading order; Sigma, b and the cumulants' constants are derivatives of the output under a tilt, or
of the determinant of fluctuations: through layers, or through layer time at infinite depth. Of nonlinear blocks that
close on kernels, at infinite depth, covariances are known; their biases are sampled (``results.limit_biases``).

Source: [tpcalc/finite_width]; two steps in closed form: [tpcalc/two_steps_at_finite_width].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Callable, NamedTuple, Sequence

import numpy as np

from .. import _checks
from .._shown import Short
from ..errors import Divergence, NotCovered
from ..optimizers import SGD
from ..models import ResNet
from ..data import Task
from ..propagators.mesh import Mesh
from .tilted import TiltedSolution, series_in_tilt, base_solution, tilted_network
from .tilted_determinant import TANGENTS, BiasGradient, LayersGradient, TiltResponse, response
from .tilted_determinant_layer_time import TANGENTS as IN_LAYER_TIME, LayerTimeGradient
from .tilted_layer_time import LimitNetwork
from .tilted_limit import Known, LimitTask, Values, infinite_depth

ROUND_OFF = float(16 * np.finfo(np.float64).eps)
TOLERANCE = 3e-11  # at infinite depth, relative to the largest value
SMALL = 0.1  # what the next order may change a standard deviation by before it is said
KEPT = 2.0**29  # bytes of answers to tilts; what is larger is found again
# of some rows of a network, with their answers to tilts; errors are those of round-off
Quantity = Callable[[TiltedSolution, np.ndarray, "TiltedResponses"], Known]


class OutputsAtWidth(NamedTuple):
    """What real networks of one width give: mean and std, (steps, samples, d_out), over initializations; warning: None,
    or a sentence where the next order in 1/n is not small.

    Of nonlinear blocks at infinite depth the next order is not known, and warning says so."""

    mean: np.ndarray
    std: np.ndarray
    warning: str | None


@dataclass(frozen=True, repr=False)
class Fluctuations(Short):
    """Differences between a network of width n and its limit, to leading order in 1/n, found when asked for.

    depth: layers, None for infinitely many; noise, drift: eps^2 and eps g of a layer, or the constants of the
    infinite-depth limit; net: of nonlinear blocks, else None. Outputs are of shape (steps T, batch B, d_out), those of
    the task's m probes (T, m, d_out). Of nonlinear blocks the covariances and two cumulants are known here; the rest
    raises ``ValueError``. What covariance and bias share is kept up to half a GiB, and left out of pickles.

    >>> import tpcalc as tp
    >>> task = tp.Task(inputs=[1, 0.8], targets=[1, -0.7])
    >>> run = tp.train(tp.ResNet("linear"), task, tp.SGD(lr=0.3), tp.DepthScaling(0.5, 0.5), depth=tp.oo)
    >>> run.fluctuations.covariance.reshape(2, 2).round(6).tolist()
    [[2.718282, 0.844595], [0.844595, 3.109077]]
    >>> run.fluctuations.bias.ravel().round(6).tolist()[1:]
    [-0.828165]

    Source: [tpcalc/finite_width]; kernels before training fluctuate too [depthwise_transfer/kernel_fluctuations].
    """

    task: Task
    optimizer: SGD
    depth: int | None
    noise: float
    drift: float
    train_embedding_readout: bool
    net: ResNet | None = None

    @cached_property
    def covariance(self) -> np.ndarray:
        """Sigma, the limit of n Cov of the outputs over initializations, shape (T, B, d_out, T, B, d_out)."""
        return self._covariance.values[0]

    @cached_property
    def probe_covariance(self) -> np.ndarray:
        """The covariance of the probes' outputs, shape (T, m, d_out, T, m, d_out); ``ValueError`` without any."""
        return self._found(_covariance, self._probes).values[0]

    @property
    def covariance_error(self) -> float:
        """How far ``covariance`` may be off, absolutely: round-off (how far it is from symmetric), and at infinite
        depth twice the difference between two resolutions of layer time."""
        return self._covariance.errors[0]

    @cached_property
    def bias(self) -> np.ndarray:
        """b, the limit of n (mean - f), shape (T, B, d_out).

        Time O(L N^6) in the N = T B rows: 6 ms a layer for eight. Raises ``ValueError`` at infinite depth where it
        would take hours.
        """
        return self._bias.values[0]

    @cached_property
    def probe_bias(self) -> np.ndarray:
        """The bias of the probes' outputs, shape (T, m, d_out), one probe after the other."""
        self.require_linear("bias")
        return self._of_each_probe(_biases)[0]

    @property
    def bias_error(self) -> float:
        """How far ``bias`` may be off, absolutely: what is found for step 0, where b vanishes by symmetry, and at
        infinite depth twice the difference between two resolutions of layer time."""
        return self._bias.errors[0]

    def cumulant(self, k: int) -> np.ndarray:
        """The limit of n^(k - 1) times the k-th cumulant of each output, shape (T, B, d_out); the first is f itself.

        Raises ``ValueError`` unless k is a whole number of at least 1.
        """
        return self.cumulants(k)[-1]

    def probe_cumulant(self, k: int) -> np.ndarray:
        """The k-th cumulant of the probes' outputs, shape (T, m, d_out), one probe after the other."""
        return self.cumulants(k, probes=True)[-1]

    def cumulants(self, k: int, probes: bool = False) -> Values:
        """The first k of them, found together: k arrays (T, B, d_out), or (T, m, d_out) of probes."""
        order = _checks.positive_integer("k", k)
        if order > 2:
            self.require_linear(f"the cumulant of order {order}")
        if len(self._known.get(probes, ())) < order:
            quantity = _cumulants(order)
            self._known[probes] = self._of_each_probe(quantity) if probes else self._found(quantity).values
        return self._known[probes][:order]

    def at_width(self, outputs: np.ndarray, width: int, probes: bool) -> OutputsAtWidth:
        """Mean and standard deviation of outputs at a width, and a warning where the next order is not small."""
        bias = self.probe_bias if probes else self.bias
        _, second, third, fourth = self.cumulants(4, probes)
        change = next_order(second, third, fourth) / width
        worst = np.unravel_index(int(np.argmax(change)), change.shape)
        warning = None
        if change[worst] > SMALL:
            step, sample, k = map(int, worst)
            warning = (f"at width {width} the next order in 1/n may change the standard deviation of output {k} of "
                       f"{'probe' if probes else 'sample'} {sample} at step {step} by {100 * change[worst]:.0f} %; it "
                       f"is below {100 * SMALL:.0f} % from width {math.ceil(width * change[worst] / SMALL)} on")
        return OutputsAtWidth(outputs + bias / width, np.sqrt(np.maximum(second, 0.0) / width), warning)

    def excess(self, slopes: np.ndarray, curvatures: np.ndarray) -> tuple[np.ndarray, ...]:
        """What bias and covariance add to n times the mean loss of the last step, of draws each, whose means it is the
        sum of; slopes: (B, d_out) of the loss in outputs, curvatures: (B, d_out, d_out)."""
        return (np.array([np.sum(slopes * self.bias[-1]) + of_curvature(self.covariance, curvatures)]),)

    def told(self, parts: Sequence[np.ndarray]) -> tuple[float, float]:
        """The sum of the means over draws of what is linear in parts of ``excess``, and how far it may be off by
        chance, with 95% confidence."""
        return float(sum(np.mean(part) for part in parts)), 0.0

    def require_linear(self, what: str) -> None:
        """Raise ``ValueError`` for what is known of linear blocks only."""
        if self.net is not None:
            raise NotCovered(f"fluctuations: {what} of {self.net!r} at depth=tp.oo asked for; expected linear networks "
                             "of one matrix a block; of others the covariance is known there, "
                             "run.fluctuations.covariance, and the bias is sampled, run.fluctuations.bias")

    @cached_property
    def _covariance(self) -> Known:
        if "_bias" in vars(self):  # which knows it, too
            return Known(self._bias.values[1:], self._bias.errors[1:])
        return self._found(_covariance)

    @cached_property
    def _bias(self) -> Known:
        self.require_linear("bias")
        return self._found(_biases)

    @cached_property
    def _known(self) -> dict[bool, Values]:
        return {}

    @cached_property
    def _responses(self) -> TiltedResponses:
        """What is known so far of how the batch's outputs respond to tilts."""
        return TiltedResponses()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_responses"}

    @property
    def _probes(self) -> np.ndarray:
        if self.task.probes is None:
            raise ValueError("probes: got none with the task; expected tp.Task(probes=...), for held-out outputs")
        return self.task.probes

    def _of_each_probe(self, quantity: Quantity) -> Values:
        found = [self._found(quantity, probe[None]).values for probe in self._probes]
        return tuple(np.concatenate(arrays, axis=1) for arrays in zip(*found))

    def _found(self, quantity: Quantity, probes: np.ndarray | None = None) -> Known:
        """Quantities of the outputs, or of those of probes, in the shape of outputs."""
        network = tilted_network(self.task, self.optimizer, self.depth or 1, self.noise, self.drift,
                                 self.train_embedding_readout,
                                 probes)
        rows = np.flatnonzero(network.learnt if probes is None else ~network.learnt)
        responses = self._responses if probes is None else TiltedResponses()
        with np.errstate(over="ignore", invalid="ignore"):
            if self.depth is None:
                limit = LimitTask(self.task, self.optimizer, self.noise, self.drift, self.train_embedding_readout,
                                  probes, self.net)
                found = infinite_depth(limit, network, lambda base: quantity(base, rows, responses), TOLERANCE)
            else:
                found = quantity(base_solution(network), rows, responses)
        shape = self.task.steps, self.task.batch if probes is None else len(probes), self.task.d_out
        if not all(np.all(np.isfinite(value)) for value in found.values):
            raise Divergence(f"fluctuations: values at {network.where} are too large to be known; a smaller learning "
                             "rate may help")
        return found._replace(values=tuple(value.reshape(shape * (value.ndim // 2)) for value in found.values))


def of_curvature(covariance: np.ndarray, curvatures: np.ndarray) -> float:
    """Half of Sigma at the last step, (T, B, d_out, T, B, d_out), times second derivatives (B, d_out, d_out)."""
    return float(np.einsum("ikil,ikl->", covariance[-1, :, :, -1], curvatures) / 2)


def _covariance(base: TiltedSolution, rows: np.ndarray, responses: TiltedResponses) -> Known:
    """The covariance of outputs (R, d_out, R, d_out): how every output answers a tilt of every other."""
    return _symmetric(np.array([[responses.of(base, row, k).f[1, rows] for k in range(base.network.d_out)]
                                for row in rows.tolist()]))


def _symmetric(value: np.ndarray) -> Known:
    return Known((value,), (_round_off(value) + float(np.max(np.abs(value - value.transpose(2, 3, 0, 1)))),))


def _cumulants(orders: int) -> Quantity:
    """The first cumulants of every output, ``orders`` arrays (R, d_out)."""

    def found(base: TiltedSolution, rows: np.ndarray, responses: TiltedResponses) -> Known:
        if orders == 1:
            values: Values = (base.f[0, rows],)
        else:
            series = np.array([[series_in_tilt(base, row, k, orders).f[:, row, k] for k in range(base.network.d_out)]
                               for row in rows])
            values = tuple(math.factorial(k) * series[..., k] for k in range(orders))
        return Known(values, tuple(map(_round_off, values)))

    return found


def _biases(base: TiltedSolution, rows: np.ndarray, responses: TiltedResponses) -> Known:
    """b, (R, d_out), that of step 0 vanishes by symmetry; and the covariances, found on the way."""
    gradient = bias_gradient(base)
    d_out = base.network.d_out
    bias, answers = np.zeros((len(rows), d_out)), np.zeros((len(rows), d_out, len(rows), d_out))
    for i, row in enumerate(rows.tolist()):
        for k in range(d_out):
            answer = responses.of(base, row, k)
            bias[i, k], answers[i, k] = gradient.along(answer), answer.f[1, rows]
    covariance = _symmetric(answers)
    error = _round_off(bias) + float(np.max(np.abs(bias[rows < base.network.per_step])))
    size = float(np.max(np.abs(answers)))  # b comes from them, and may vanish
    return Known((bias, *covariance.values), (error, *covariance.errors), (size, size))


def _round_off(value: np.ndarray) -> float:
    return ROUND_OFF * float(np.max(np.abs(value), initial=0.0))


def next_order(second: np.ndarray, third: np.ndarray, fourth: np.ndarray) -> np.ndarray:
    """n times the relative change of a standard deviation that the next order of its variance may make.

    An output that is a function g of one Gaussian z / n^(1/2) has a variance of Sigma (1 + (k / 4 - 5 s / 18) / n), k
    = c4 / Sigma^2 and s = c3^2 / Sigma^3, c the leading constants of its cumulants; outputs are functions of many,
    whose parts may add up, so that absolute values are taken. Outputs without fluctuations have none.
    """
    size = np.where(second > 0, second, np.inf)
    return (np.abs(fourth / size / size) / 4 + 5 * (third / size / np.sqrt(size))**2 / 18) / 2  # no power overflows


def bias_gradient(base: TiltedSolution) -> BiasGradient:
    """The bias at finite or infinite depth, as a function of answers to a tilt."""
    return LayerTimeGradient(base) if isinstance(base.network, LimitNetwork) else LayersGradient(base)


class TiltedResponses:
    """How outputs answer tilts of one another, to first order, on every mesh of layer time, or at a depth.

    Answers that would exceed ``KEPT`` bytes in all are not kept. Their networks are of one training and one set of
    rows.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Mesh | int, int, int], TiltResponse] = {}
        self._size = 0.0

    def of(self, base: TiltedSolution, row: int, output: int) -> TiltResponse | TiltedSolution:
        """The response to the tilt of one output."""
        network = base.network
        tangents, at = (TANGENTS, network.depth)
        if isinstance(network, LimitNetwork):
            tangents, at = IN_LAYER_TIME, network.mesh
        if (at, row, output) in self._known:
            return self._known[at, row, output]
        series = series_in_tilt(base, row, output, 2)
        size = 8.0 * len(tangents) * base.left.added[0].size
        if self._size + size > KEPT:
            return series
        self._size += size
        self._known[at, row, output] = found = response(base, series, tangents)
        return found
