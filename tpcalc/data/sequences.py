"""What a transformer is trained on: sequences of inputs, each with a target."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._checks import finite_array
from .losses import AnyLoss, Loss
from .task import Task, like_targets


class Sequences:
    """Sequences in the order in which they are seen, with a target at every position.

    Parameters
    ----------
    inputs:
        shape (steps, batch, positions, d_in).
    targets:
        shape (steps, batch, positions, d_out), or (steps, batch, positions) for scalars.
    loss:
        as in ``tp.Task``; that of a sequence is the sum over its positions, that of a step the mean over sequences.

    Raises ``ValueError`` for other shapes, and for what ``tp.Task`` does not take either.

    >>> import tpcalc as tp
    >>> task = tp.Sequences(inputs=[[[[1, 0], [0.5, 0.8]]]], targets=[[[1, -1]]])
    >>> task.steps, task.batch, task.positions, task.d_in, task.d_out
    (1, 1, 2, 2, 1)
    """

    probes = None

    def __init__(self, inputs: ArrayLike, targets: ArrayLike, loss: AnyLoss = "mse") -> None:
        self.inputs, self.targets = finite_array("inputs", inputs), finite_array("targets", targets)
        if self.inputs.ndim != 4 or 0 in self.inputs.shape:
            raise ValueError(f"inputs: got shape {self.inputs.shape}; expected (steps, batch, positions, d_in), "
                             "none of them 0")
        if self.targets.ndim == 3:
            self.targets = self.targets[..., None]
        if self.targets.ndim != 4 or self.targets.shape[:3] != self.inputs.shape[:3] or 0 in self.targets.shape:
            raise ValueError(f"targets: got shape {self.targets.shape}; expected {self.inputs.shape[:3]} as the "
                             "inputs', with d_out or without it")
        rows = self.steps, self.batch * self.positions
        self._by_position = Task(self.inputs.reshape(*rows, -1), self.targets.reshape(*rows, -1), loss)
        self.loss: Loss = self._by_position.loss

    steps = property(lambda self: self.inputs.shape[0])
    batch = property(lambda self: self.inputs.shape[1])
    positions = property(lambda self: self.inputs.shape[2])
    d_in = property(lambda self: self.inputs.shape[3])
    d_out = property(lambda self: self.targets.shape[3])

    def losses(self, outputs: np.ndarray) -> np.ndarray:
        """Loss at every step, shape (steps,), of outputs (steps, batch, positions, d_out): the sum over positions, its
        mean over the batch."""
        found = like_targets(outputs, self.targets)
        by_position = self._by_position.losses(found.reshape(self._by_position.targets.shape))
        return np.asarray(self.positions * by_position)

    def __repr__(self) -> str:
        return (f"Sequences(steps={self.steps}, batch={self.batch}, positions={self.positions}, d_in={self.d_in}, "
                f"d_out={self.d_out})")
