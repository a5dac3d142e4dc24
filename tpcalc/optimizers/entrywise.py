"""Entrywise optimizers as data: their updates are functions of the gradients' entries."""

from __future__ import annotations

import sys
from dataclasses import InitVar, dataclass
from typing import Any, Callable, Protocol

import numpy as np
import sympy as sp

from .._types import Number
from .._checks import exact, flag, learning_rate, short
from .sgd import Scheduled, settle_sphere

BETAS = (0.9, 0.999)  # PyTorch's
LION_BETAS = (0.9, 0.99)  # its authors'
Gradient = Callable[[sp.Expr], sp.Expr]


class Entrywise(Protocol):
    """An optimizer that moves weights by ``-lr g`` times a function of the entries of all gradients so far.

    What is written elsewhere needs these four, and a hash: frozen dataclasses have one. lr: a number, or one a step;
    weight_decay: decoupled, as AdamW's, 0 for none.
    """

    def __hash__(self) -> int: ...

    @property
    def lr(self) -> Number: ...

    @property
    def weight_decay(self) -> Number: ...

    def schedule(self, steps: int) -> np.ndarray:
        """The learning rate of every step, shape (steps,)."""

    def direction(self, gradient: Gradient, step: sp.Symbol) -> sp.Expr:
        """What the weights move along at ``step``; ``gradient(k)`` is that of step k, of order one."""


def is_entrywise(opt: object) -> bool:
    """Has an object, which is no class, what ``Entrywise`` asks for?"""
    return not isinstance(opt, type) and all(hasattr(opt, name) for name in ("lr", "weight_decay")) and all(
        callable(getattr(opt, name, None)) for name in ("schedule", "direction"))


@dataclass(frozen=True)
class SignSGD(Scheduled):
    """SignSGD: the weights move by ``-lr g`` times the sign of the gradient, entry by entry.

    lr: that of the limit, a number (or symbol), or one number a step; sphere: whether every matrix is brought back,
    after its update, to the Frobenius norm that it started with. Raises ``ValueError`` for what is not finite.
    Source: Tensor Programs VI, Definition 4.1.

    >>> import tpcalc as tp
    >>> tp.SignSGD(lr=0.1).schedule(3)
    array([0.1, 0.1, 0.1])
    """

    lr: Number = 1.0
    sphere: bool = False
    weight_decay = sp.Integer(0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lr", learning_rate("lr", self.lr, symbols=True))
        settle_sphere(self)

    def direction(self, gradient: Gradient, step: sp.Symbol) -> sp.Expr:
        """What the weights move along at ``step``; ``gradient(k)`` is that of step k."""
        return sp.sign(gradient(step))


@dataclass(frozen=True)
class Adam(Scheduled):
    """Adam with bias correction, and AdamW, in PyTorch's conventions; the weights move by ``-lr g`` times this.

    Parameters
    ----------
    lr:
        a number, or one number a step.
    beta1, beta2:
        of the moving averages of the gradients and of their squares, at least 0 and less than 1.
    betas:
        both as a pair, as PyTorch has them: ``tp.Adam(betas=(0.9, 0.95))``.
    eps:
        added to the root of the second average. It is measured in gradients of order one: with widths and depths
        taken out, which a physical gradient of a hidden weight has as L^-alpha / n. With eps = 0 an entry whose
        gradients have all been zero has no direction, 0/0: PyTorch's NaN (with relu it happens).
    weight_decay, independent:
        decoupled, as AdamW's: W <- (1 - lr weight_decay) W before the update; independent of the rate and its schedule,
        W <- (1 - weight_decay) W.
    sphere:
        whether every matrix is brought back, after its update, to the Frobenius norm that it started with; trained
        vectors are not, and beside a decay it is refused.

    All but flags may be numbers or symbols. Learning rate and decay are those of the limit, per step. Source:
    Tensor Programs VI, Definition 4.1. Raises ``ValueError`` for numbers out of these ranges.

    >>> import tpcalc as tp
    >>> tp.Adam(lr=0.1, eps=1e-8, weight_decay=0.01).schedule(2)
    array([0.1, 0.1])
    """

    lr: Any = 1.0
    beta1: Any = BETAS[0]
    beta2: Any = BETAS[1]
    eps: Any = 0.0
    weight_decay: Any = 0.0
    independent: bool = False
    sphere: bool = False
    betas: InitVar[Any] = None

    def __post_init__(self, betas: Any) -> None:
        require_settings(self, betas, BETAS, ("eps", "weight_decay"))
        settle_sphere(self)

    def direction(self, gradient: Gradient, step: sp.Symbol) -> sp.Expr:
        """What the weights move along at ``step``; ``gradient(k)`` is that of step k."""
        first = moving_average(exact("beta1", self.beta1), gradient, step)
        second = moving_average(exact("beta2", self.beta2), lambda k: gradient(k) ** 2, step)
        return first / (sp.sqrt(second) + exact("eps", self.eps))


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with the decoupled weight decay that goes by this name: W <- (1 - lr weight_decay) W before the update.

    Parameters, units and errors are those of ``tp.Adam``, whose decay is the same; the decay is 0.01 where none is
    given, as PyTorch has it.

    >>> import tpcalc as tp
    >>> tp.AdamW(lr=0.1, betas=(0.9, 0.95))
    AdamW(lr=0.1, beta1=0.9, beta2=0.95, eps=0.0, weight_decay=0.01, independent=False, sphere=False)
    """

    weight_decay: Any = 0.01


@dataclass(frozen=True)
class Lion(Scheduled):
    """Lion: the weights move by ``-lr g`` times the sign of a mean of the gradient and its moving average.

    Parameters
    ----------
    lr:
        a number, or one number a step.
    beta1, beta2:
        m_t = beta2 m_(t-1) + (1 - beta2) G_t from m_(-1) = 0, and the direction is the sign of
        beta1 m_(t-1) + (1 - beta1) G_t; at least 0 and less than 1.
    betas:
        both as a pair.
    weight_decay, independent:
        decoupled: W <- (1 - lr weight_decay) W before the update; independent of the rate, W <- (1 - weight_decay) W.

    All may be numbers or symbols; an entry without a gradient so far has direction 0. Source: arXiv:2302.06675,
    algorithm 2. Raises ``ValueError`` for numbers out of these ranges.

    >>> import tpcalc as tp
    >>> tp.Lion(lr=0.1, betas=(0.9, 0.98))
    Lion(lr=0.1, beta1=0.9, beta2=0.98, weight_decay=0.0, independent=False)
    """

    lr: Any = 1.0
    beta1: Any = LION_BETAS[0]
    beta2: Any = LION_BETAS[1]
    weight_decay: Any = 0.0
    independent: bool = False
    betas: InitVar[Any] = None

    def __post_init__(self, betas: Any) -> None:
        require_settings(self, betas, LION_BETAS, ("weight_decay",))

    def direction(self, gradient: Gradient, step: sp.Symbol) -> sp.Expr:
        """What the weights move along at ``step``; ``gradient(k)`` is that of step k."""
        beta1, beta2 = exact("beta1", self.beta1), exact("beta2", self.beta2)
        before = (1 - beta2) * _decaying(beta2, gradient, step - 1)
        return sp.sign(beta1 * before + (1 - beta1) * gradient(step))


def require_settings(opt: Any, betas: Any, usual: tuple[float, float], nonnegative: tuple[str, ...],
                     one: tuple[str, ...] = ()) -> None:
    """Check rate and betas, given one by one or as a pair, and settings of at least 0; texts become numbers. one: betas
    that may be 1."""
    if betas is not None:
        given = (opt.beta1, opt.beta2)
        if not isinstance(betas, (tuple, list)) or len(betas) != 2 or given != usual:
            beside = f" with beta1, beta2 = {given}" if given != usual else ""
            raise ValueError(f"betas: got {short(betas)}{beside}; expected two numbers in the place of beta1 "
                             f"and beta2, such as {usual}")
        for name, beta in zip(("beta1", "beta2"), betas):
            object.__setattr__(opt, name, beta)
    object.__setattr__(opt, "lr", learning_rate("lr", opt.lr, symbols=True))
    object.__setattr__(opt, "independent", flag("independent", opt.independent))
    for key, below_one in (("beta1", True), ("beta2", True), *((name, False) for name in nonnegative)):
        given, name = getattr(opt, key), key if betas is None or not below_one else "betas"
        value = exact(name, given)
        if isinstance(given, str):
            object.__setattr__(opt, key, value)
        over = value - 1
        above = below_one and (over > 0 if key in one else over >= 0) is sp.true
        if (value < 0) is sp.true or value.is_number and not 0 <= value <= sys.float_info.max or above:
            raise ValueError(f"{name}: got {short(given)}; expected a number of at least 0"
                             + ((" and at most 1" if key in one else " and less than 1") if below_one else
                                " that a float can hold"))


def moving_average(beta: sp.Expr, of: Gradient, step: sp.Symbol) -> sp.Expr:
    """Exponential weights that add to one over the steps so far: the bias-corrected moving average."""
    return of(step) if beta == 0 else (1 - beta) / (1 - beta ** (step + 1)) * _decaying(beta, of, step)


def total_average(beta: sp.Expr, of: Gradient, step: sp.Symbol) -> sp.Expr:
    """The moving average, or the sum over all steps for beta = 1."""
    return _decaying(beta, of, step) if beta == 1 else moving_average(beta, of, step)


def _decaying(beta: sp.Expr, of: Gradient, last: sp.Expr) -> sp.Expr:
    """The sum over steps up to the last, older ones with powers of beta."""
    k = sp.Symbol("k", integer=True, nonnegative=True)
    return sp.Sum(beta ** (last - k) * of(k), (k, 0, last))
