"""SOAP as data: Adam in the eigenvectors of averages of gradients' Gram matrices."""

from __future__ import annotations

from dataclasses import InitVar, dataclass
from typing import Any, Sequence

import numpy as np
import sympy as sp
from sympy.printing.printer import Printer

from .._checks import exact
from ..programs.apart import gradients_so_far
from ..programs.language import Outer
from ..programs.backprop import ROWS
from .entrywise import Gradient, moving_average, require_settings
from .sgd import Scheduled
from .shampoo import eigenvectors, weights, without_rounding
from .spectral import Spectral

SOAP_BETAS = (0.95, 0.95)  # its authors'
FELT = 0.05  # of eps: entries below change what is divided by little, whichever eigenvectors they are of


class InEigenvectors(Spectral):
    """P (P^T M Q / (sqrt(V) + eps)) Q^T: P and Q the eigenvectors of averages of G G^T and G^T G, eigenvalues falling,
    and V that of squares of P_k^T G_k Q_k, each in its own step's; what is 0 left 0.

    more: eps, and beta2 of all three averages.
    """

    legend = (r"P, Q, V", r"eigenvectors of averages of $G G^\top$ and of $G^\top G$ over steps so far, of gradients "
              r"$G$ of the matrix that moves; the average of squares of $P^\top G Q$, each in eigenvectors of its step")

    def whole(self, now: np.ndarray, past: Sequence[np.ndarray], rounding: float) -> tuple[np.ndarray, np.ndarray]:
        return self.whole_after([], now, past, rounding)

    def whole_after(self, known: list[Any], now: np.ndarray, past: Sequence[np.ndarray], rounding: float
                    ) -> tuple[np.ndarray, np.ndarray]:
        """known: by step, entries in its eigenvectors, and roots of the eigenvalues of both sides."""
        eps, beta = map(float, self.more)
        for step in range(min(len(known), len(past) - 1), len(past)):
            roots = np.sqrt(weights(beta, step + 1))
            (left, s), (right, r) = (eigenvectors([w * (one if rows else one.T) for w, one in zip(roots, past)],
                                                  rounding, whole=eps > 0) for rows in (True, False))
            known[step:] = [(np.abs(without_rounding(left.T @ past[step] @ right, rounding)), s, r)]
        squares, gaps = np.zeros(now.shape), []
        for weight, (entries, s, r) in zip(np.sqrt(weights(beta, len(past))), known):
            found = weight * entries
            squares[:found.shape[0], :found.shape[1]] += found**2
            gaps += [_gaps(s, np.max(found, axis=1, initial=0.0), eps),
                     _gaps(r, np.max(found, axis=0, initial=0.0), eps)]
        sizes = np.sqrt(squares[:left.shape[1], :right.shape[1]])
        turned = without_rounding(left.T @ now @ right, rounding)
        kept = (sizes > rounding) | (eps > 0)
        over = np.divide(turned, sizes + eps, out=np.zeros_like(turned), where=kept)
        return left @ over @ right.T, np.sort(np.concatenate([*gaps, (sizes + eps)[kept]]))[::-1]

    def _of_whole(self, inside: str, printer: Printer) -> str:
        return (rf"P \left(\frac{{P^\top \left({inside}\right) Q}}{{\sqrt{{V}} + {printer.doprint(self.more[0])}}}"
                r"\right) Q^\top")


def _gaps(roots: np.ndarray, entries: np.ndarray, eps: float) -> np.ndarray:
    """How far eigenvalues that follow each other are apart, as roots, those of 0 aside: eigenvectors turn where they
    are equal. Where what is squared in them, at most ``entries``, is small beside eps it does not matter which they
    are, and eps counts too."""
    some = roots[roots > 0]
    felt = np.maximum(entries[:-1], entries[1:])[:max(0, len(some) - 1)]
    return some[:-1] - some[1:] + (eps / (1.0 + felt / (FELT * eps)) if eps else 0.0)


@dataclass(frozen=True)
class SOAP(Scheduled):
    """SOAP: a matrix W moves by ``-lr g`` times Adam's direction in the eigenvectors of Shampoo's matrices.

    Parameters
    ----------
    lr:
        a number, or one number a step: of the first step it is the singular value of the update, as that of tp.Muon is.
    beta1, beta2:
        of the moving averages of gradients, and of Gram matrices and squares in their eigenvectors; all with bias
        correction.
    betas:
        both as a pair, as PyTorch has them.
    eps:
        added to the root of the second average, in units of gradients' singular values with widths and depths taken
        out. With eps = 0 entries that are 0 are left 0.
    weight_decay, independent:
        decoupled, W <- (1 - lr weight_decay) W before the update; independent of the rate, W <- (1 - weight_decay) W.

    Eigenvectors are those of averages up to the gradient of the step, found anew at every step, in the order of falling
    eigenvalues, in which squares are kept: the published algorithm finds them every few steps by one step of a power
    iteration, begins with the second gradient, and has directions that no gradient had before stand for arbitrary ones.
    Vectors that are trained (embedding, readout, gains) move by Adam. A size that vanishes at infinite width is refused
    by name, and so are eigenvalues that are equal there: particles are held against real networks. Raises
    ``ValueError`` for numbers out of these ranges. Source: arXiv:2409.11321, algorithm 3;
    [tpcalc/muon_on_gram_matrices].

    >>> import tpcalc as tp
    >>> task, scale = tp.Task([0.9, -0.5], [1, 0.3]), tp.DepthScaling()
    >>> runs = [tp.train(tp.ResNet("tanh"), task, opt, scale, 2, width=32) for opt in (tp.SOAP(.3), tp.Muon(.3))]
    >>> bool(abs(runs[0].outputs - runs[1].outputs).max() < 1e-9)  # after one step they are one
    True
    """

    lr: Any = 1.0
    beta1: Any = SOAP_BETAS[0]
    beta2: Any = SOAP_BETAS[1]
    eps: Any = 0.0
    weight_decay: Any = 0.0
    independent: bool = False
    betas: InitVar[Any] = None

    def __post_init__(self, betas: Any) -> None:
        require_settings(self, betas, SOAP_BETAS, ("eps", "weight_decay"))

    def direction(self, gradient: Gradient, step: sp.Symbol) -> sp.Expr:
        """What the weights move along at ``step``; ``gradient(k)`` is that of step k. Of what is no matrix it is
        Adam's."""
        first = moving_average(exact("beta1", self.beta1), gradient, step)
        beta, eps = exact("beta2", self.beta2), exact("eps", self.eps)
        if gradient(step).has(Outer):
            return InEigenvectors((first,), (gradients_so_far(gradient, step),), 0, ROWS, eps, beta)
        return first / (sp.sqrt(moving_average(beta, lambda k: gradient(k) ** 2, step)) + eps)
