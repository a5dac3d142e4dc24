"""Losses of one sample, with their derivative in the output; a step's loss is the mean over its batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Sequence, Union, cast

import numpy as np
import sympy as sp
import scipy  # its parts are imported where they are used first

from .._checks import short

UNIT = 1e-6  # what probabilities may miss 1 by: they are often float32


class Loss(Protocol):
    """Anything with these two; ``f`` and ``y`` have shape (batch, d_out).

    Generated code differentiates a third, ``expression(f, y)``: the value of one sample as a sympy expression of its
    outputs and targets. The losses of the package have it; others may.
    """

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Shape (batch,)."""

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """chi, shape (batch, d_out): the derivative of ``value`` in ``f``."""


AnyLoss = Union[str, Loss]  # by name, or itself


@dataclass(frozen=True)
class SquaredLoss:
    """|f - y|^2 / 2."""

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        loss: np.ndarray = 0.5 * np.sum((f - y) ** 2, axis=-1)
        return loss

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        slope: np.ndarray = f - y
        return slope

    def expression(self, f: Sequence[sp.Expr], y: Sequence[sp.Expr]) -> sp.Expr:
        return sp.Add(*((a - b) ** 2 for a, b in zip(f, y))) / 2


@dataclass(frozen=True)
class LogisticLoss:
    """sum_k log(1 + exp(-y_k f_k)), for labels y_k of -1 and 1."""

    def require(self, y: np.ndarray) -> None:
        """Raise ``ValueError`` for targets that are no such labels."""
        other = y[(y != 1) & (y != -1)]
        if other.size:
            raise ValueError(f"targets: got {other[0]} with loss='logistic'; expected the labels -1 and 1 "
                             "(labels of 0 and 1 are 2 y - 1)")

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        loss: np.ndarray = np.sum(np.logaddexp(0.0, -y * f), axis=-1)
        return loss

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        slope: np.ndarray = -y * scipy.special.expit(-y * f)
        return slope

    def expression(self, f: Sequence[sp.Expr], y: Sequence[sp.Expr]) -> sp.Expr:
        return sp.Add(*(sp.log(1 + sp.exp(-b * a)) for a, b in zip(f, y)))


@dataclass(frozen=True)
class SoftmaxLoss:
    """Cross-entropy of softmax(f) with the probabilities y: log sum_k exp(f_k) sum_k y_k - y . f."""

    def require(self, y: np.ndarray) -> None:
        """Raise ``ValueError`` for targets that are no distributions over two classes or more."""
        if y.shape[-1] < 2:
            raise ValueError(f"targets: got {y.shape[-1]} output with loss='softmax', which is then 0 whatever the "
                             "output; expected probabilities of 2 classes or more, or loss='logistic'")
        total = np.sum(y, axis=-1)
        bad = (np.min(y, axis=-1) < 0) | (np.abs(total - 1) > UNIT)
        if np.any(bad):
            raise ValueError(f"targets: got {y[bad][0].tolist()} with loss='softmax'; expected probabilities: "
                             "numbers of at least 0 that add up to 1, such as one-hot rows")

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        loss: np.ndarray = scipy.special.logsumexp(f, axis=-1) * np.sum(y, axis=-1) - np.sum(y * f, axis=-1)
        return loss

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        slope: np.ndarray = scipy.special.softmax(f, axis=-1) * np.sum(y, axis=-1, keepdims=True) - y
        return slope

    def expression(self, f: Sequence[sp.Expr], y: Sequence[sp.Expr]) -> sp.Expr:
        return sp.log(sp.Add(*map(sp.exp, f))) * sp.Add(*y) - sp.Add(*(a * b for a, b in zip(f, y)))


NAMED: dict[str, Loss] = {"mse": SquaredLoss(), "logistic": LogisticLoss(), "softmax": SoftmaxLoss()}


def derivative(loss: Loss, f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """chi, shape (batch, d_out); raises ``ValueError`` for a loss whose derivative has other shapes or is not real."""
    return _real("derivative", loss.derivative(f, y), y.shape)


def values(loss: Loss, f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Losses of the inputs of a step, shape (batch,); raises ``ValueError`` as ``derivative`` does."""
    return _real("value", loss.value(f, y), y.shape[:1])


def _real(method: str, found: object, shape: tuple[int, ...]) -> np.ndarray:
    array = np.asarray(found)
    if array.shape != shape or array.dtype.kind not in "fiu":
        raise ValueError(f"loss: its {method}(f, y) has shape {array.shape} and type {array.dtype}; expected real "
                         f"numbers of shape {shape}")
    return np.asarray(array, dtype=np.float64)


def require_targets(loss: Loss, y: np.ndarray) -> None:
    """Raise ``ValueError`` where targets (steps, batch, d_out) do not follow the loss's convention, and where the loss
    returns what is no loss: at outputs 0, those that training of infinite width starts from."""
    if isinstance(loss, (LogisticLoss, SoftmaxLoss)):
        loss.require(y)
    with np.errstate(all="ignore"):
        for method in (values, derivative):
            method(loss, np.zeros_like(y[0]), y[0].copy())


def loss_of(loss: AnyLoss) -> Loss:
    """A loss by its name, or an object with ``value`` and ``derivative`` as it is."""
    if isinstance(loss, str) and loss.lower() in NAMED:
        return NAMED[loss.lower()]
    if callable(getattr(loss, "value", None)) and callable(getattr(loss, "derivative", None)):
        return cast(Loss, loss)
    raise ValueError(f"loss: got {short(loss)}; expected {', '.join(map(repr, NAMED))} or an object with "
                     "value(f, y) and derivative(f, y)")
