"""Taylor coefficients of a perceptron's output along the gradient that trains it.

At equal indices eta^k d_I^(k-1) H is the k-th derivative of the output f along eta lambda grad f, with the direction
held fixed; it is k! times a coefficient of this series. So all differentials of type I cost one pass through the
network. Of an output in other units, c f, it is c^(k+1) times as large [meta_principled/dimensionless].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Callable, Sequence

import numpy as np

from .._types import Activation
from .._checks import short
from ..errors import NotCovered
from ..gaussian.scalar_functions import H, scalar_function
from ..scaling.width import ParameterSizes
from ..models.activations import activation

Series = list[np.ndarray]  # coefficients of 1, tau, tau^2, ...
Entry = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Draws:
    """Real perceptrons, a batch of them: weights[l] (samples, n_l, n_(l-1)), biases[l] (samples, n_l), l from 0."""

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]


def draw_weights(sizes: ParameterSizes, widths: Sequence[int], samples: int, rng: np.random.Generator) -> Draws:
    """Gaussian weights of the sizes asked for; biases start at zero and are trained."""
    shapes = list(zip(widths[1:], widths[:-1]))
    return Draws(tuple(std * rng.standard_normal((samples, *shape)) for std, shape in zip(sizes.weight_std, shapes)),
                 tuple(np.zeros((samples, rows)) for rows, _ in shapes))


def output_series(draws: Draws, inputs: np.ndarray, sizes: ParameterSizes, phi: Activation, order: int) -> np.ndarray:
    """The coefficients (order + 1, samples = drawn networks) of the output f(theta + tau eta lambda grad f) in tau.

    inputs: (n_0,), one input; the last layer has one output. phi: an activation as in tp.ResNet, ``order`` times
    differentiable; ``ValueError`` where it has a kink.
    """
    derivatives = smooth_derivatives(phi, order)
    return np.stack([part[:, 0] for part in _forward(draws, inputs, sizes, derivatives, order)[0][-1]])


def kernel_series(draws: Draws, inputs: np.ndarray, sizes: ParameterSizes, phi: Activation, order: int) -> np.ndarray:
    """The coefficients (order + 1, samples) of eta H, the tangent kernel, along the direction of ``output_series``.

    The first is eta H itself, the next 2 eta^2 dH, and the third eta^3 (dd_I H + dd_II H), by (A2) and (A3), which
    is how differentials of type II are found. Arguments and errors are those of ``output_series``, but that ``phi`` is
    differentiated once more.
    """
    derivatives = smooth_derivatives(phi, order + 1)
    values, steps = _forward(draws, inputs, sizes, derivatives, order)
    constant: Series = [np.broadcast_to(inputs, (len(draws.weights[0]), len(inputs)))]
    below = [constant + [np.zeros_like(constant[0])] * order, *(compose(derivatives, value) for value in values[:-1])]
    gradient = [np.ones_like(values[-1][0])] + [np.zeros_like(values[-1][0])] * order
    found = np.zeros((order + 1, len(constant[0])))
    for layer in reversed(range(len(values))):
        of_bias, of_inputs = _square(gradient), _square(below[layer])
        found += np.stack([sizes.bias_rate[layer] * own + sizes.weight_rate[layer] * both
                           for own, both in zip(of_bias, _product(of_bias, of_inputs))])
        if layer:
            turned = draws.weights[layer].swapaxes(1, 2), steps[layer][0].swapaxes(1, 2)
            gradient = _product(compose(derivatives[1:], values[layer - 1]), _matrix(*turned, gradient, order))
    return found


def _forward(draws: Draws, inputs: np.ndarray, sizes: ParameterSizes, derivatives: Sequence[Entry], order: int
             ) -> tuple[list[Series], list[tuple[np.ndarray, np.ndarray]]]:
    """The series of all layers' preactivations along eta lambda grad f, and this direction: steps by layer."""
    activations, slopes, value = [np.broadcast_to(inputs, (len(draws.weights[0]), len(inputs)))], [], None
    for layer, (weight, bias) in enumerate(zip(draws.weights, draws.biases)):
        value = np.einsum("aij,aj->ai", weight, activations[-1]) + bias
        if layer + 1 < len(draws.weights):
            activations.append(derivatives[0](value))
            slopes.append(derivatives[1](value))
    assert value is not None
    gradient, steps = np.ones_like(value), []
    for layer in reversed(range(len(draws.weights))):
        steps.append((sizes.weight_rate[layer] * gradient[:, :, None] * activations[layer][:, None, :],
                      sizes.bias_rate[layer] * gradient))
        if layer:
            gradient = np.einsum("aij,ai->aj", draws.weights[layer], gradient) * slopes[layer - 1]
    steps.reverse()
    below, values = [activations[0]], []
    for layer, (weight_step, bias_step) in enumerate(steps):
        series = _matrix(draws.weights[layer], weight_step, below, order)
        series[0] = series[0] + draws.biases[layer]
        if order:
            series[1] = series[1] + bias_step
        values.append(series)
        below = compose(derivatives, series) if layer + 1 < len(steps) else []
    return values, steps


def _matrix(weight: np.ndarray, step: np.ndarray, vector: Series, order: int) -> Series:
    """The series of the product (W + tau dW) h, to the order that is kept."""
    found = [np.zeros(weight.shape[:2]) for _ in range(order + 1)]
    for power, part in enumerate(vector[:order + 1]):
        found[power] = found[power] + np.einsum("aij,aj->ai", weight, part)
        if power < order:
            found[power + 1] = found[power + 1] + np.einsum("aij,aj->ai", step, part)
    return found


def _product(one: Sequence[np.ndarray], other: Sequence[np.ndarray]) -> Series:
    """The product of two series, entry by entry."""
    return [sum((one[i] * other[k - i] for i in range(1, k + 1)), one[0] * other[k]) for k in range(len(one))]


def _square(series: Series) -> Series:
    """The series of a vector's squared length, (samples,) each."""
    return [part.sum(axis=1) for part in _product(series, series)]


def compose(derivatives: Sequence[Entry], series: Series) -> Series:
    """The series of phi of a series, by Taylor's formula at its constant term."""
    order = len(series) - 1
    power: Series = [np.ones_like(series[0])] + [np.zeros_like(series[0])] * order
    found = [np.zeros_like(series[0]) for _ in series]
    for count in range(order + 1):
        at = derivatives[count](series[0]) / math.factorial(count)
        found = [total + at * part for total, part in zip(found, power)]
        power = [sum((power[i] * series[k - i] for i in range(count, k)), np.zeros_like(series[0]))
                 for k in range(order + 1)]
    return found


@lru_cache(maxsize=64)
def smooth_derivatives(phi: Activation, order: int) -> tuple[Entry, ...]:
    """phi and its derivatives up to ``order``, at least the first, as functions of arrays.

    Raises ``ValueError`` for an activation with a kink, whose second derivative is no function.
    """
    function = scalar_function(activation(phi)(H))
    if function.is_written_with_kinks:
        raise NotCovered(f"phi: got {short(phi)}; it has a kink, where differentials of the tangent kernel are not "
                         "defined; expected smooth activations such as 'tanh', 'gelu' or 'erf'")
    return tuple(function.values(k) for k in range(max(order, 1) + 1))
