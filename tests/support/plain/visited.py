"""Networks whose layers are visited several times, as anyone would write them; gradients by complex steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Iterator

import numpy as np

Arrays = dict[str, np.ndarray]
STEP = 1e-30  # of a complex step: the derivative is exact to rounding


def linear(x: np.ndarray, w: Arrays, layer: int) -> np.ndarray:
    return w["W"][layer] @ x


def mlp(x: np.ndarray, w: Arrays, layer: int) -> np.ndarray:
    return w["W2"][layer] @ np.tanh(w["W1"][layer] @ x)


def normed_mlp(x: np.ndarray, w: Arrays, layer: int) -> np.ndarray:
    return mlp(x / np.sqrt(np.mean(x * x)), w, layer)


@dataclass(frozen=True)
class PlainLoop:
    """f = nV . x / n of a stream that starts at xi U and meets ``layers`` layers ``visits`` times each."""

    block: Callable[[np.ndarray, Arrays, int], np.ndarray]
    layers: int
    visits: int
    order: str = "cycle"
    inject: float = 0.0
    alpha: float = 0.5
    gamma: float = 0.5
    trained: tuple[str, ...] = field(default=())
    skip: float = 0.0  # times x^0, which every layer adds

    @property
    def way(self) -> Iterator[tuple[int, bool]]:
        """Layers as they are met, and whether a cycle begins there."""
        for outer in range(self.visits if self.order == "cycle" else self.layers):
            for inner in range(self.layers if self.order == "cycle" else self.visits):
                yield (inner, inner == 0) if self.order == "cycle" else (outer, False)

    def output(self, w: Arrays, xi: float) -> complex:
        start = x = xi * w["U"]
        for layer, begins in self.way:
            x = x + (self.inject / self.visits * start if begins else 0)
            x = x + self.layers**-self.alpha / self.visits * self.block(x, w, layer) + self.skip * start
        return complex(w["nV"] @ x / len(x))

    def trace(self, w: Arrays, inputs: np.ndarray, targets: np.ndarray, lr: float, sign: bool = False) -> np.ndarray:
        """Outputs, (steps, batch), of training by gradient descent or its signs on the batch's mean of squared losses.
        """
        w, found = {name: value.copy() for name, value in w.items()}, []
        n, names = len(w["U"]), (*(set(w) - {"U", "nV"}), *self.trained)
        for batch, wanted in zip(inputs, targets):
            f = [self.output(w, xi).real for xi in batch]
            found.append(f)
            gradients = {name: sum((one - y) * self.gradient(w, name, xi) for one, y, xi in zip(f, wanted, batch))
                         / len(batch) for name in names}
            for name, gradient in gradients.items():
                if name in self.trained:
                    w[name] -= lr * (np.sign(gradient) if sign else n * gradient)
                else:
                    w[name] -= lr * (self.layers**-self.gamma * np.sign(gradient) / n if sign else
                                     self.layers ** (self.alpha - self.gamma) * gradient)
        return np.array(found)

    def gradient(self, w: Arrays, name: str, xi: float) -> np.ndarray:
        """df/dw, entry by entry."""
        found = np.zeros_like(w[name])
        for entry in np.ndindex(found.shape):
            moved = w[name].astype(complex)
            moved[entry] += STEP * 1j
            found[entry] = self.output({**w, name: moved}, xi).imag / STEP
        return found
