"""Optimizers as data: rules whose updates are linear in the gradients seen so far, and what they remember of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, ClassVar, Sequence

import numpy as np

from .._checks import flag, learning_rate, memory, nonnegative_number, real_number, rates_by_step, short, whole_number
from ..data.task import Task

Quantity = Any  # an array, a number or an expression: what adds and scales


def settle(opt: Any, *flags: str) -> None:
    """Keep the rate, momentum, decay and flags of a new optimizer as numbers; raises ``ValueError`` for what is none.
    """
    object.__setattr__(opt, "lr", learning_rate("lr", opt.lr))
    for name in ("momentum", "weight_decay"):
        object.__setattr__(opt, name, nonnegative_number(name, getattr(opt, name)))
    for name in flags:
        object.__setattr__(opt, name, flag(name, getattr(opt, name)))


def settle_sphere(opt: Any) -> None:
    """Keep the flag of a new optimizer; raises ``ValueError`` for a decay beside it."""
    object.__setattr__(opt, "sphere", flag("sphere", opt.sphere))
    if opt.sphere and opt.weight_decay != 0:
        rate = "lr / (1 - weight_decay)" if opt.independent else "lr / (1 - lr weight_decay)"
        raise ValueError(f"weight_decay: got {short(opt.weight_decay)} with sphere=True, where it is a no-op: the norm "
                         f"is restored after it, and what is left is the rate {rate}; expected 0, and that rate")


def on_sphere(opt: Any) -> bool:
    """Does an optimizer, or the one that sees clipped gradients, bring matrices back to their norms?"""
    return bool(getattr(getattr(opt, "opt", opt), "sphere", False))


class Scheduled:
    """What has a learning rate, one or one a step. updates_are: a word of ``kind_of_updates``, None where the direction
    says it."""

    lr: Any
    updates_are: ClassVar[str | None] = None

    def schedule(self, steps: int) -> np.ndarray:
        """The learning rate of every step, shape (steps,); raises ``ValueError`` for a symbol."""
        return rates_by_step(self.lr, steps)


@dataclass(frozen=True)
class SGD(Scheduled):
    """Stochastic gradient descent, in PyTorch's conventions, on weights that move by g = L^-gamma times gradients.

    Parameters
    ----------
    lr:
        a number, or one number a step (then exactly as many as the task has steps).
    momentum, dampening, nesterov:
        heavy ball: buf = momentum buf + (1 - dampening) gradient (the first step without dampening), the weights move
        by -lr buf, or by -lr (gradient + momentum buf) with ``nesterov``, which needs a momentum and no dampening.
    weight_decay, decoupled, independent:
        added to the gradient, or, decoupled, W <- (1 - lr weight_decay) W before the update, or, decoupled and
        independent of the rate and its schedule, W <- (1 - weight_decay) W: held at every width over few steps
        [contested/independent_decay].

    The learning rate and the decay are those of the limit, per step. A physical learning rate of hidden weights
    in width muP is ``lr L^(alpha - gamma)``, a physical decay ``weight_decay L^(gamma - alpha)``. Source:
    Tensor Programs VI, Definition 4.1.

    Raises ``ValueError`` for numbers that are not real and finite, negative momentum or decay, flags that are
    neither True nor False, and Nesterov's without momentum or with dampening.

    >>> import tpcalc as tp
    >>> initial_weight_factor, update_response = tp.SGD(lr=0.5, momentum=0.5).memory(3)
    >>> initial_weight_factor.tolist(), update_response.tolist()
    ([1.0, 1.0, 1.0], [[-0.0, -0.0, -0.0], [0.5, -0.0, -0.0], [0.75, 0.5, -0.0]])
    """

    updates_are = "linear"
    lr: float | Sequence[float] = 1.0
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    decoupled: bool = False
    independent: bool = False

    def __post_init__(self) -> None:
        settle(self, "nesterov", "decoupled", "independent")
        object.__setattr__(self, "dampening", real_number("dampening", self.dampening))
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise ValueError(f"nesterov: got True with momentum {self.momentum} and dampening {self.dampening}; "
                             "expected a momentum and no dampening")
        if self.independent and not self.decoupled:
            raise ValueError("independent: got True with decoupled=False; a decay inside the gradient takes part in "
                             "the rate; expected decoupled=True")

    def memory(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """(initial_weight_factor, update_response), rho and w of W_t = rho_t W_0 - g sum_(s < t) w_ts grad_s, shapes
        (steps,) and (steps, steps).

        Found by running the optimizer on formal vectors: coordinates over (W_0, g grad_0, g grad_1, ...). Raises
        ``MemoryError`` where steps^2 numbers cannot fit.
        """
        steps = whole_number("steps", steps, 1)
        memory(24.0 * steps**2, f"what {steps} steps remember of each other", "take fewer steps")
        weights, buffer = np.zeros(steps + 1), np.zeros(steps + 1)
        weights[0] = 1.0
        history = np.zeros((steps, steps + 1))
        for t, rate in enumerate(self.schedule(steps)):
            history[t] = weights
            gradient = np.zeros(steps + 1)
            gradient[1 + t] = 1.0
            weights, buffer = self.step(min(t, 1), rate, weights, gradient, buffer)
        return history[:, 0], -history[:, 1:]

    def step(self, later: Quantity, rate: Quantity, weights: Quantity, gradient: Quantity, buffer: Quantity,
             number: Callable[[SGD, str], Quantity] = getattr, named: Callable[[Quantity], Quantity] = lambda new: new
             ) -> tuple[Quantity, Quantity]:
        """One update of anything that adds and scales, arrays or expressions: (new weights, new buffer).

        later: 0 at the first step, else 1; ``gradient`` carries g; number: reads a setting of the optimizer; named:
        what stands for the new buffer in the new weights.
        """
        momentum, dampening, decay = (number(self, name) for name in ("momentum", "dampening", "weight_decay"))
        if decay and not self.decoupled:
            gradient = gradient + decay * weights
        if momentum:
            buffer = named(momentum * buffer + (1 - dampening * later) * gradient)
            gradient = gradient + momentum * buffer if self.nesterov else buffer
        if decay and self.decoupled:
            weights = kept(self, rate, decay) * weights
        return weights - rate * gradient, buffer


class Directed(Scheduled):
    """An optimizer of matrices that move along what has a size of its own, of gradients or of momentum buffers."""

    of_matrices_alone: ClassVar[bool] = True  # what is trained beside them is refused
    momentum: float
    nesterov: bool
    weight_decay: float
    independent: bool
    sphere: bool

    def __post_init__(self) -> None:
        settle(self, "nesterov", "independent")
        settle_sphere(self)
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov: got True with momentum 0; expected a momentum of more than 0")

    @property
    def linear(self) -> SGD:
        """What moves matrices, once it is known along what."""
        return SGD(self.lr, weight_decay=self.weight_decay, decoupled=True, independent=self.independent)


def kept(opt: object, rate: Quantity, decay: Quantity) -> Quantity:
    """What a step with decoupled decay leaves of the weights."""
    return 1 - (decay if getattr(opt, "independent", False) else rate * decay)


def rows_per_step(task: Task, samples: str) -> int:
    """Rows of a step: a row for every input ("plain"), or for every output ("effective")."""
    return int(task.batch if samples == "plain" else task.d_out)


def update_kernel(update_response: np.ndarray, task: Task, samples: str) -> np.ndarray:
    """w_ab between rows, from w_ts between steps: plain rows carry the mean over the batch."""
    b = rows_per_step(task, samples)
    return np.kron(update_response, np.ones((b, b))) / (task.batch if samples == "plain" else 1)
