"""Losses of one sample, with their derivative in the output; a step's loss is the mean over its batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


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


NAMED = {"mse": SquaredLoss()}


def resolve(loss: Any) -> Loss:
    """A loss by its name, or an object with ``value`` and ``derivative`` as it is."""
    if isinstance(loss, str) and loss in NAMED:
        return NAMED[loss]
    if callable(getattr(loss, "value", None)) and callable(getattr(loss, "derivative", None)):
        return loss
    raise ValueError(f"loss: {loss!r} given; allowed are {', '.join(map(repr, NAMED))} or an object with "
                     "value(f, y) and derivative(f, y)")
