"""Optimizers as data: rules whose updates are linear in the gradients seen so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

import numpy as np

from .._checks import finite_array


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent: the weights move by ``-lr g`` times the normalised gradient, g = L^-gamma.

    Parameters
    ----------
    lr:
        a number, or one number a step (then exactly as many as the task has steps).
    momentum, dampening, nesterov, weight_decay, decoupled:
        plain SGD in this version: 0, 0, False, 0, False.

    The learning rate is that of the limit. A physical learning rate of hidden weights in width muP is
    ``lr L^(alpha - gamma)``. Source: paper B, Definition 4.1.

    Raises ``ValueError`` for a learning rate that is not finite and for anything that is not plain SGD.
    """

    lr: float | Sequence[float] = 1.0
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    decoupled: bool = False

    def __post_init__(self) -> None:
        rates = finite_array("lr", self.lr)
        if rates.ndim > 1:
            raise ValueError(f"lr: an array of shape {rates.shape} given; allowed is a number or one number a step")
        object.__setattr__(self, "lr", float(rates) if rates.ndim == 0 else tuple(float(r) for r in rates))
        for name in ("momentum", "dampening", "nesterov", "weight_decay", "decoupled"):
            if getattr(self, name):
                raise ValueError(f"{name}: {getattr(self, name)!r} given; allowed is {type(getattr(self, name))(0)!r}")

    def schedule(self, steps: int) -> np.ndarray:
        """The learning rate of every step, shape (steps,)."""
        rates = np.asarray(self.lr, dtype=np.float64)
        if rates.ndim == 1 and len(rates) != steps:
            raise ValueError(f"lr: {len(rates)} learning rates given for a task of {steps} steps; allowed is one "
                             "number, or one a step")
        return np.broadcast_to(rates, (steps,)).copy()

    def memory(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """(rho, w) of W_t = rho_t W_0 - g sum_(s < t) w_ts grad_s, shapes (steps,) and (steps, steps)."""
        rates = self.schedule(steps)
        return np.ones(steps), np.tril(np.broadcast_to(rates, (steps, steps)), -1)
