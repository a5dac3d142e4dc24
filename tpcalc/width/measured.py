"""Differentials of the tangent kernel measured: averages over real perceptrons, with error bars, against the width."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable, Sequence

import numpy as np

from .._types import Activation
from .._checks import finite_array, positive_integer, whole_number
from ..scaling import WidthScaling
from ..scaling.width import ParameterSizes
from .jets import Draws, draw_weights, kernel_series, output_series, smooth_derivatives

CHUNK = 2**21  # entries of weights drawn at a time


@dataclass(frozen=True)
class MeasuredDifferential:
    """E[(z) eta^k d_I^(k-1) H], k = order, of real perceptrons: its means and standard errors at hidden widths n.

    widths, means, errors: (k,) each. slope, slope_error: the power of n, fitted to the means weighted by their errors.
    type_two: of E[eta^3 dd_II H] instead.
    """

    order: int
    insert_output: bool
    widths: np.ndarray
    means: np.ndarray
    errors: np.ndarray
    type_two: bool = False

    @property
    def slope(self) -> float:
        return self._fit()[0]

    @property
    def slope_error(self) -> float:
        return self._fit()[1]

    def _fit(self) -> tuple[float, float]:
        """Least squares of log |mean| in log n, each point weighted by its relative error."""
        (slope, _), covariance = np.polyfit(np.log(self.widths), np.log(np.abs(self.means)), 1,
                                            w=np.abs(self.means / self.errors), cov="unscaled")
        return float(slope), float(math.sqrt(covariance[0, 0]))


def measure_differentials(scaling: WidthScaling, widths: Sequence[int], highest: int = 5, phi: Activation = "tanh",
                          inputs: Any = (1.0, -0.5), samples: int = 10_000, seed: int = 0,
                          ) -> tuple[MeasuredDifferential, ...]:
    """Average E[(z) eta^k d_I^(k-1) H] over real perceptrons of hidden widths ``widths``, for k = 1, ..., highest.

    The output z is inserted where the expectation vanishes without it, which is at even k. All indices are equal: one
    input and one output.

    Parameters
    ----------
    scaling:
        the width scaling, whose number of layers the perceptrons have.
    widths:
        at least two hidden widths, each of all hidden layers.
    phi, inputs:
        a smooth activation, as in tp.ResNet, and the one input (n_0,).
    samples, seed:
        networks at each width, at least 2, and the seed of their weights.

    Raises ``ValueError`` for bad arguments and for activations with kinks. Weights are Gaussian, with all constants 1,
    and biases start at zero. Evidence of [meta_principled/hierarchy].

    >>> import tpcalc as tp
    >>> found = tp.width.measure_differentials(tp.meta_principled(0, 2), (8, 16), samples=4, highest=1)
    >>> found[0].means.shape
    (2,)
    """
    count = whole_number("highest", highest, 1)
    smooth_derivatives(phi, count)

    def values(sizes: ParameterSizes, drawn: Draws, x: np.ndarray) -> np.ndarray:
        series = output_series(drawn, x, sizes, phi, count)
        return np.stack([math.factorial(k) * series[k] * (1.0 if k % 2 else series[0]) for k in range(1, count + 1)])

    hidden, means, errors = _averages(values, count, scaling, widths, inputs, samples, seed)
    return tuple(MeasuredDifferential(k, k % 2 == 0, hidden, means[k - 1], errors[k - 1]) for k in range(1, count + 1))


def measure_type_two(scaling: WidthScaling, widths: Sequence[int], phi: Activation = "tanh",
                     inputs: Any = (1.0, -0.5), samples: int = 10_000, seed: int = 0) -> MeasuredDifferential:
    """Average E[eta^3 dd_II H] over real perceptrons, the differential of two second derivatives, of order 3.

    The arguments and what is raised are those of ``measure_differentials``. It is what the tangent kernel's series has
    besides the output's, by (A3) [meta_principled/taylor].

    >>> from tpcalc.width import meta_principled
    >>> measure_type_two(meta_principled(0, layers=2), [32, 64, 128], samples=1000).slope < -0.9
    True
    """
    smooth_derivatives(phi, 3)

    def values(sizes: ParameterSizes, drawn: Draws, x: np.ndarray) -> np.ndarray:
        both = kernel_series(drawn, x, sizes, phi, 2)[2]
        return (both - math.factorial(3) * output_series(drawn, x, sizes, phi, 3)[3])[None]

    hidden, means, errors = _averages(values, 1, scaling, widths, inputs, samples, seed)
    return MeasuredDifferential(3, False, hidden, means[0], errors[0], type_two=True)


def _averages(values: Callable[[ParameterSizes, Draws, np.ndarray], np.ndarray], count: int, scaling: WidthScaling,
              widths: Sequence[int], inputs: Any, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hidden widths (k,), and means and standard errors (count, k) of values (count, networks) of real perceptrons."""
    networks = whole_number("samples", samples, 2)
    hidden = [positive_integer("widths", width) for width in widths]
    x = finite_array("inputs", inputs)
    if x.ndim != 1 or not len(x):
        raise ValueError(f"inputs: got an array of shape {x.shape}; expected one input, of shape (n_0,)")
    if len(set(hidden)) < 2:
        raise ValueError(f"widths: got {hidden}; expected at least two different widths, for a slope")
    means, errors = np.empty((2, count, len(hidden)))
    streams = np.random.default_rng(whole_number("seed", seed)).spawn(len(hidden))
    for at, (rng, width) in enumerate(zip(streams, hidden)):
        shape = [len(x), *(width,) * (scaling.layers - 1), 1]
        sizes, found = scaling.sizes(shape), []
        chunk = max(1, CHUNK // sum(a * b for a, b in zip(shape, shape[1:])))
        for start in range(0, networks, chunk):
            found.append(values(sizes, draw_weights(sizes, shape, min(chunk, networks - start), rng), x))
        every = np.concatenate(found, axis=1)
        means[:, at], errors[:, at] = every.mean(axis=1), every.std(axis=1, ddof=1) / math.sqrt(networks)
    return np.array(hidden, dtype=float), means, errors
