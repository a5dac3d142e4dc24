"""Differentials of the tangent kernel measured: averages over real perceptrons, with error bars, against the width."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np

from .._types import Activation
from .._checks import finite_array, positive_integer, whole_number
from ..parametrizations import WidthScaling
from .jets import draw, output_series, smooth_derivatives

CHUNK = 2**21  # entries of weights drawn at a time


@dataclass(frozen=True)
class MeasuredDifferential:
    """E[(z) eta^k d_I^(k-1) H], k = order, of real perceptrons: its means and standard errors at hidden widths n.

    widths, means, errors: (k,) each. slope, slope_error: the power of n, fitted to the means weighted by their errors.
    """

    order: int
    insert_output: bool
    widths: np.ndarray
    means: np.ndarray
    errors: np.ndarray

    @property
    def slope(self) -> float:
        return self._fit()[0]

    @property
    def slope_error(self) -> float:
        return self._fit()[1]

    def _fit(self) -> tuple[float, float]:
        """Least squares of log |mean| in log n, each point weighted by its relative error."""
        x, y, weight = np.log(self.widths), np.log(np.abs(self.means)), (self.means / self.errors)**2
        center = np.average(x, weights=weight)
        spread = np.sum(weight * (x - center)**2)
        return float(np.sum(weight * (x - center) * y) / spread), float(1 / math.sqrt(spread))


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
    """
    count, networks = whole_number("highest", highest, 1), whole_number("samples", samples, 2)
    hidden = [int(positive_integer("widths", width) or 1) for width in widths]
    x = finite_array("inputs", inputs)
    if x.ndim != 1 or not len(x):
        raise ValueError(f"inputs: an array of shape {x.shape} given; allowed is one input, of shape (n_0,)")
    if len(set(hidden)) < 2:
        raise ValueError(f"widths: {hidden} given; allowed are at least two different widths, for a slope")
    smooth_derivatives(phi, count)
    means, errors = np.empty((2, count, len(hidden)))
    streams = np.random.default_rng(whole_number("seed", seed)).spawn(len(hidden))
    for at, (rng, width) in enumerate(zip(streams, hidden)):
        values = _values(scaling, [len(x), *(width,) * (scaling.layers - 1), 1], x, phi, count, networks, rng)
        means[:, at] = values.mean(axis=1)
        errors[:, at] = values.std(axis=1, ddof=1) / math.sqrt(networks)
    return tuple(MeasuredDifferential(k, k % 2 == 0, np.array(hidden, dtype=float), means[k - 1], errors[k - 1])
                 for k in range(1, count + 1))


def _values(scaling: WidthScaling, widths: Sequence[int], inputs: np.ndarray, phi: Activation, highest: int,
            samples: int, rng: np.random.Generator) -> np.ndarray:
    """(highest, samples): of each network (z) times the k-th derivative of its output, k = 1, ..., highest."""
    sizes = scaling.sizes(widths)
    chunk = max(1, CHUNK // sum(a * b for a, b in zip(widths, widths[1:])))
    found = []
    for start in range(0, samples, chunk):
        series = output_series(draw(sizes, widths, min(chunk, samples - start), rng), inputs, sizes, phi, highest)
        found.append([math.factorial(k) * series[k] * (1.0 if k % 2 else series[0]) for k in range(1, highest + 1)])
    return np.concatenate(found, axis=1)
