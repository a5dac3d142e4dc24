"""Muon as data: every matrix moves along the orthogonal factor of its gradient, or of its momentum buffer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Sequence

import numpy as np
import sympy as sp

from .._checks import exact, whole_number
from ..errors import NotCovered
from .entrywise import Gradient
from ..programs.language import Outer
from .sgd import Directed
from .polar import polar


@dataclass(frozen=True)
class Muon(Directed):
    """Muon: a matrix W moves by ``-lr g`` times U V^T of the singular vectors of its gradient, g = L^-gamma.

    Parameters
    ----------
    lr:
        a number, or one number a step: the singular values of an update, in units in which those of the initial
        matrices go up to 2. At width n it is the same number: sqrt(outputs / inputs) and sqrt(max(1, outputs /
        inputs)), factors of other conventions, are 1 for the square matrices of layers.
    momentum, nesterov:
        the factor is that of sum_s momentum^(t - s) gradient_s, or, with ``nesterov``, of gradient_t + momentum times
        that sum. A dampening would change nothing: only directions count.
    newton_schulz_steps:
        None for the factor itself; k for k Newton-Schulz steps a X + b (X X^T) X + c (X X^T)^2 X from the gradient over
        its Frobenius norm, with a, b, c = 3.4445, -4.7750, 2.0315, as Muon was published (Jordan et al. 2024,
        https://kellerjordan.github.io/posts/muon). Singular values then end near 1, and not at it.
    weight_decay, independent:
        decoupled, W <- (1 - lr weight_decay) W before the update; independent of the rate, W <- (1 - weight_decay) W.
    sphere:
        whether every matrix is brought back, after its update, to the Frobenius norm that it started with
        (``tpcalc.optimizers.sphere``); beside a decay it is refused.

    It moves matrices; embedding and readout are vectors, and stay frozen. Singular values that are 0 are left 0: a
    direction in which the gradient of an infinitely wide network vanishes is refused by name, since at every finite
    width a fluctuation would be blown up to order one there. Where no rule counts directions (positions, unusual skips
    and places of norms) real networks beside the particles tell them. Raises ``ValueError`` for numbers that are not
    real and finite, a negative momentum or decay, nesterov without momentum, and newton_schulz_steps that are no whole
    number of at least 1. Source: [tpcalc/muon_on_gram_matrices].

    >>> import tpcalc as tp
    >>> task, scale = tp.Task([0.9, -0.5, 0.7], [1, 0.3, -0.8]), tp.DepthScaling()
    >>> print([round(float(f), 6) for f in tp.train(tp.ResNet(), task, tp.Muon(0.3), scale, tp.oo).outputs.ravel()])
    [0.0, -0.247308, 0.013416]
    """

    updates_are = "orthogonal"
    lr: float | Sequence[float] = 1.0
    momentum: float = 0.0
    nesterov: bool = False
    newton_schulz_steps: int | None = None
    weight_decay: float = 0.0
    independent: bool = False
    sphere: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.newton_schulz_steps is not None:
            object.__setattr__(self, "newton_schulz_steps", whole_number(
                "newton_schulz_steps", self.newton_schulz_steps, 1, ", or None for the factor itself"))

    def direction(self, gradient: Gradient, step: sp.Symbol) -> sp.Expr:
        """What a matrix moves along at ``step``; ``gradient(k)`` is that of step k, a sum of outer products."""
        now = gradient(step)
        if not now.has(Outer):
            raise NotCovered(f"opt: got {self!r} for {now}, the gradient of a vector; it moves matrices; expected "
                             "frozen embedding and readout")
        beta = exact("momentum", self.momentum)
        if beta:
            k = sp.Symbol("k", integer=True, nonnegative=True)
            buffer = sp.Sum(beta ** (step - k) * gradient(k), (k, 0, step))
            now = now + beta * buffer if self.nesterov else buffer
        return polar(now, self.newton_schulz_steps or 0)

    def weights(self, steps: int) -> np.ndarray:
        """What the gradients of ``steps`` steps weigh in the update of the last one, oldest first, shape (steps,)."""
        steps = whole_number("steps", steps, 1)
        past = self.momentum ** np.arange(steps - 1.0, -1.0, -1.0)
        return self.momentum * past + (np.arange(steps) == steps - 1) if self.nesterov else past

    def memory(self, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """(initial_weight_factor, update_response), rho and w of W_t = rho_t W_0 - g sum_(s < t) w_ts U_s, U_s the
        factor of step s.

        Shapes (steps,) and (steps, steps). Raises ``MemoryError`` where steps^2 numbers cannot fit.
        """
        return self.linear.memory(steps)
