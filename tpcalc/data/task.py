"""What a network is trained on: inputs and targets, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .losses import AnyLoss, Loss, loss_of, require_targets, values
from .._checks import finite_array


class Task:
    """Training data in the order it is seen.

    Parameters
    ----------
    inputs:
        shape (steps, batch, d_in); one-dimensional input is one scalar a step. Whatever NumPy reads as an array:
        tensors and data frames too.
    targets:
        shape (steps, batch, d_out); one-dimensional likewise. Beside three-dimensional inputs also (steps, batch) for
        scalars, and one target a line, (steps * batch,) or (steps * batch, d_out), in the order of the inputs.
    loss:
        ``"mse"`` (|f - y|^2 / 2), ``"logistic"`` (labels -1 and 1), ``"softmax"`` (cross-entropy with
        probabilities), each averaged over the batch, or an object with ``value(f, y)`` of shape
        (batch,) and ``derivative(f, y)`` of shape (batch, d_out).
    probes:
        shape (m, d_in), or (m,) for scalars: held-out inputs, predicted before every update and never trained on.

    Raises ``ValueError`` for data that is complex, NaN or infinite, for shapes that do not fit each other, targets that
    do not follow the convention of a named loss, and losses that return other shapes or what is not real.

    >>> import tpcalc as tp
    >>> task = tp.Task(inputs=[[[1, 0], [0.5, 0.8]]], targets=[[[1], [-1]]])
    >>> task.steps, task.batch, task.d_in, task.d_out
    (1, 2, 2, 1)
    """

    inputs: np.ndarray
    targets: np.ndarray
    loss: Loss
    probes: np.ndarray | None

    def __init__(self, inputs: ArrayLike, targets: ArrayLike, loss: AnyLoss = "mse",
                 probes: ArrayLike | None = None) -> None:
        self.inputs = _three_dimensional("inputs", inputs)
        self.targets = _three_dimensional("targets", targets, self.inputs.shape[:2])
        if self.inputs.shape[:2] != self.targets.shape[:2]:
            raise ValueError(f"inputs, targets: got {self.inputs.shape[0]} steps of {self.inputs.shape[1]} and targets "
                             f"of {self.targets.shape[0]} steps of {self.targets.shape[1]}; expected as many")
        self.loss = loss_of(loss)
        require_targets(self.loss, self.targets)
        self.probes = None if probes is None else finite_array("probes", probes)
        if self.probes is not None and self.probes.ndim == 1 and self.d_in == 1:
            self.probes = self.probes[:, None]
        if self.probes is not None and (self.probes.ndim != 2 or self.probes.shape[1] != self.d_in
                                        or not len(self.probes)):
            raise ValueError(f"probes: got shape {self.probes.shape}; expected (m, {self.d_in}) with m of at least "
                             "1, or None")

    steps = property(lambda self: self.inputs.shape[0])
    batch = property(lambda self: self.inputs.shape[1])
    d_in = property(lambda self: self.inputs.shape[2])
    d_out = property(lambda self: self.targets.shape[2])

    def losses(self, outputs: np.ndarray) -> np.ndarray:
        """Mean loss over the batch at every step, shape (steps,), of outputs (steps, batch, d_out)."""
        found = like_targets(outputs, self.targets)
        return np.array([np.mean(values(self.loss, f, y)) for f, y in zip(found, self.targets)])

    def __repr__(self) -> str:
        return f"Task(steps={self.steps}, batch={self.batch}, d_in={self.d_in}, d_out={self.d_out})"


def like_targets(outputs: ArrayLike, targets: np.ndarray) -> np.ndarray:
    """Outputs as an array; raises ``ValueError`` unless it has the shape of the targets."""
    found = finite_array("outputs", outputs)
    if found.shape != targets.shape:
        raise ValueError(f"outputs: got shape {found.shape}; expected that of the targets, {targets.shape}")
    return found


def _three_dimensional(name: str, value: Any, samples: tuple[int, ...] = ()) -> np.ndarray:
    """(steps, batch, dimension); samples: the steps and the batch where they are known."""
    array = finite_array(name, value)
    if array.ndim == 2 and array.shape == samples:
        array = array[..., None]
    elif samples and array.ndim in (1, 2) and len(array) == samples[0] * samples[1]:
        array = array.reshape(*samples, -1)
    elif array.ndim == 1:
        array = array[:, None, None]
    if array.ndim != 3 or 0 in array.shape:
        hint = "" if array.ndim != 2 or 0 in array.shape else (
            f": a line a sample is {name}.reshape(steps, batch, {array.shape[1]}), one sample a step "
            f"{name}.reshape({len(array)}, 1, {array.shape[1]})")
        raise ValueError(f"{name}: got shape {array.shape}; expected (steps, batch, dimension) or (steps,), "
                         f"none of them 0{hint}")
    return array
