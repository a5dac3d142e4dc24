"""Losses of one sample, with their derivative in the output; a step's loss is the mean over its batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import expit, logsumexp, softmax


class Loss(Protocol):
    """Anything with these two; ``f`` and ``y`` have shape (batch, d_out)."""

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Shape (batch,)."""

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """chi, shape (batch, d_out): the derivative of ``value`` in ``f``."""


@dataclass(frozen=True)
class SquaredLoss:
    """|f - y|^2 / 2."""

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 0.5 * np.sum((f - y) ** 2, axis=-1)

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return f - y


@dataclass(frozen=True)
class LogisticLoss:
    """sum_k log(1 + exp(-y_k f_k)), for labels y_k of -1 and 1."""

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.sum(np.logaddexp(0.0, -y * f), axis=-1)

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -y * expit(-y * f)


@dataclass(frozen=True)
class SoftmaxLoss:
    """Cross-entropy of softmax(f) with the probabilities y: log sum_k exp(f_k) sum_k y_k - y . f."""

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return logsumexp(f, axis=-1) * np.sum(y, axis=-1) - np.sum(y * f, axis=-1)

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return softmax(f, axis=-1) * np.sum(y, axis=-1, keepdims=True) - y


NAMED: dict[str, Loss] = {"mse": SquaredLoss(), "logistic": LogisticLoss(), "softmax": SoftmaxLoss()}


def resolve(loss: Any) -> Loss:
    """A loss by its name, or an object with ``value`` and ``derivative`` as it is."""
    if isinstance(loss, str) and loss in NAMED:
        return NAMED[loss]
    if callable(getattr(loss, "value", None)) and callable(getattr(loss, "derivative", None)):
        return loss
    raise ValueError(f"loss: {loss!r} given; allowed are {', '.join(map(repr, NAMED))} or an object with "
                     "value(f, y) and derivative(f, y)")
