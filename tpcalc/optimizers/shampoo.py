"""Shampoo as data: gradients between inverse roots of sums of their Gram matrices, on both sides."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import Any, ClassVar, Sequence

import numpy as np
import sympy as sp
from sympy.printing.printer import Printer

from .._checks import exact
from ..programs.apart import gradients_so_far
from ..programs.language import Outer
from ..programs.backprop import ROWS
from .entrywise import Gradient, moving_average, require_settings, total_average
from .polar import singular
from .sgd import Scheduled
from .spectral import Spectral

SHAMPOO_BETAS = (0.9, 1.0)  # of its distributed implementation


class Preconditioned(Spectral):
    """A^(-1/4) M B^(-1/4), A = sum_k w_k G_k G_k^T + eps^2 and B = sum_k w_k G_k^T G_k + eps^2, what is 0 left
    0.

    more: eps and beta: w_k are 1 for beta = 1, else those of an average that forgets like beta^k.
    """

    legend = (r"A, B", r"averages, or sums, of $G G^\top$ and of $G^\top G$ over steps so far, of gradients $G$ of the "
              r"matrix that moves, plus $\epsilon^2$; what is 0 is left 0 in their powers")

    def whole(self, now: np.ndarray, past: Sequence[np.ndarray], rounding: float) -> tuple[np.ndarray, np.ndarray]:
        eps, beta = map(float, self.more)
        roots = np.sqrt(weights(beta, len(past)))
        (left, s), (right, r) = (eigenvectors([w * (one if rows else one.T) for w, one in zip(roots, past)], rounding,
                                              whole=eps > 0) for rows in (True, False))
        s, r = np.hypot(s, eps), np.hypot(r, eps)
        turned = without_rounding(left.T @ now @ right, rounding)
        return left @ (turned / np.outer(np.sqrt(s), np.sqrt(r))) @ right.T, np.sort(np.concatenate([s, r]))[::-1]

    def _of_whole(self, inside: str, printer: Printer) -> str:
        return rf"A^{{-1/4}} \left({inside}\right) B^{{-1/4}}"


def weights(beta: float, steps: int) -> np.ndarray:
    """What an average over so many steps weighs them with, oldest first: a sum for beta = 1."""
    found = beta ** np.arange(steps - 1.0, -1.0, -1.0)
    return found if beta == 1 else found / np.sum(found)


def eigenvectors(columns: Sequence[np.ndarray], rounding: float, whole: bool) -> tuple[np.ndarray, np.ndarray]:
    """Those of S S^T and the roots of their eigenvalues, falling; whole: also those whose eigenvalues are 0."""
    stacked = np.concatenate(columns, axis=1)
    if whole:  # columns of 0 make the singular vectors of the left a basis
        stacked = np.pad(stacked, ((0, 0), (0, max(0, len(stacked) - stacked.shape[1]))))
    left, s, _, kept = singular(stacked, rounding)
    return (left, np.where(kept, s, 0.0)) if whole else (left[:, kept], s[kept])


def without_rounding(turned: np.ndarray, rounding: float) -> np.ndarray:
    """With 0 for what rounding leaves, which a small eps would make large."""
    return np.where(np.abs(turned) > rounding, turned, 0.0)


@dataclass(frozen=True)
class Shampoo(Scheduled):
    """Shampoo: a matrix W moves by ``-lr g`` times A^(-1/4) M B^(-1/4), g = L^-gamma.

    Parameters
    ----------
    lr:
        a number, or one number a step: of the first step it is the singular value of the update, as that of tp.Muon is,
        in units in which those of the initial matrices go up to 2.
    beta1, beta2:
        M is the bias-corrected moving average of gradients with beta1. A and B are those of G G^T and of G^T G with
        beta2, or their sums over all steps for beta2 = 1.
    betas:
        both as a pair; (0.9, 1.0) is that of the distributed implementation.
    eps:
        its square is added to the eigenvalues of A and B, so that it is measured, as Adam's, in gradients of order one,
        with widths and depths taken out. With eps = 0 eigenvalues that are 0 are left 0.
    weight_decay, independent:
        decoupled, W <- (1 - lr weight_decay) W before the update; independent of the rate, W <- (1 - weight_decay) W.

    A and B are made anew at every step, without blocks and without grafting. It moves matrices; embedding and readout
    are vectors, and stay frozen. As with tp.Muon a direction in which gradients of an infinitely wide network vanish is
    refused by name, since at every finite width a fluctuation would be blown up to order one there: particles are held
    against real networks. Raises ``ValueError`` for numbers out of these ranges. Source: arXiv:1802.09568, algorithm 1;
    betas of arXiv:2309.06497; [tpcalc/muon_on_gram_matrices].

    >>> import tpcalc as tp
    >>> task, scale = tp.Task([0.9, -0.5], [1, 0.3]), tp.DepthScaling()
    >>> runs = [tp.train(tp.ResNet("tanh"), task, opt, scale, 2, width=32) for opt in (tp.Shampoo(.3), tp.Muon(.3))]
    >>> bool(abs(runs[0].outputs - runs[1].outputs).max() < 1e-9)  # after one step they are one
    True
    """

    of_matrices_alone: ClassVar[bool] = True

    lr: Any = 1.0
    beta1: Any = SHAMPOO_BETAS[0]
    beta2: Any = SHAMPOO_BETAS[1]
    eps: Any = 0.0
    weight_decay: Any = 0.0
    independent: bool = False
    betas: InitVar[Any] = None

    def __post_init__(self, betas: Any) -> None:
        require_settings(self, betas, SHAMPOO_BETAS, ("eps", "weight_decay"), one=("beta2",))

    def direction(self, gradient: Gradient, step: sp.Symbol) -> sp.Expr:
        """What a matrix moves along at ``step``; ``gradient(k)`` is that of step k. Of a single weight both roots
        are numbers."""
        first = moving_average(exact("beta1", self.beta1), gradient, step)
        beta, eps = exact("beta2", self.beta2), exact("eps", self.eps)
        if gradient(step).has(Outer):
            return Preconditioned((first,), (gradients_so_far(gradient, step),), 0, ROWS, eps, beta)
        return first / sp.sqrt(total_average(beta, lambda k: gradient(k) ** 2, step) + eps**2)
