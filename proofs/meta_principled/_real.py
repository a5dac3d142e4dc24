"""Real perceptrons of several inputs and outputs: drawn, differentiated and trained by a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import tpcalc as tp
from tpcalc.scaling.width import ParameterSizes
from tpcalc.width.forward_equations import Differentials, forward_equations


@dataclass(frozen=True)
class Perceptron:
    """Weights, biases and learning rates, tanh; inputs (D, n_0)."""

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    sizes: ParameterSizes
    inputs: np.ndarray

    def differentials(self) -> Differentials:
        return forward_equations(self.weights, self.biases, self.sizes, self.inputs)

    def stepped(self, signals: np.ndarray, rate: float) -> "Perceptron":
        """After a step of gradient descent; signals: derivatives of the loss in all outputs, (D, n_L)."""
        h, slopes = [self.inputs], []
        for w, b in zip(self.weights, self.biases):
            z = h[-1] @ w.T + b
            h.append(np.tanh(z))
            slopes.append(1 - h[-1]**2)
        weights, biases, gradient = list(self.weights), list(self.biases), signals
        for layer in reversed(range(len(weights))):
            below = gradient @ weights[layer] * slopes[layer - 1] if layer else gradient
            weights[layer] = weights[layer] - rate * self.sizes.weight_rate[layer] * gradient.T @ h[layer]
            biases[layer] = biases[layer] - rate * self.sizes.bias_rate[layer] * gradient.sum(axis=0)
            gradient = below
        return Perceptron(tuple(weights), tuple(biases), self.sizes, self.inputs)


def drawn(rng: np.random.Generator, widths: tuple[int, ...] = (3, 4, 3, 2), inputs: int = 2) -> Perceptron:
    """Weights and biases of order one, biases not zero."""
    sizes = tp.meta_principled(0, layers=len(widths) - 1).sizes(widths)
    weights = tuple(std * rng.standard_normal((a, b)) for std, a, b in zip(sizes.weight_std, widths[1:], widths))
    return Perceptron(weights, tuple(rng.standard_normal(n) / 2 for n in widths[1:]), sizes,
                      rng.standard_normal((inputs, widths[0])))
