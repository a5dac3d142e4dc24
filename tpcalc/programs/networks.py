"""Networks as data: what is computed, without saying how it is scaled or trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._checks import choice
from .activations import activation, is_linear

BLOCKS = ("post", "pre", "mlp", "glu")


@dataclass(frozen=True)
class ResNet:
    """A residual network x^l = x^(l-1) + eps block(x^(l-1)), x^0 = U xi, f = V^T x^L.

    Parameters
    ----------
    phi:
        the activation: "linear", "relu", "abs", "tanh", "erf", "gelu", or a sympy expression in one symbol.
    block:
        "post" phi(W x), "pre" W phi(x), "mlp" W2 phi(W1 x), "glu" W3 (phi(W1 x) * W2 x). The mean over
        coordinates is subtracted from nonlinear "post" blocks.
    norm:
        None, or "rms": the block's input is divided by its root mean square.
    train_ends:
        whether read-in and read-out are trained, by the same optimizer.

    Normalisation (muP): U has entries N(0, 1), matrices N(0, 1/n), n V N(0, 1); source: paper B,
    section 4.2 and Program 1 [tensor_programs_vi/program_1]. Symbolic work takes all of these; numbers (``tp.train``)
    are those of the linear network with one matrix a block in this version, and say so.

    Raises ``ValueError`` for anything else, naming what is allowed.
    """

    phi: Any = "linear"
    block: str = "post"
    norm: str | None = None
    train_ends: bool = False

    def __post_init__(self) -> None:
        activation(self.phi)
        choice("block", self.block, BLOCKS)
        if self.norm not in (None, "rms"):
            raise ValueError(f"norm: {self.norm!r} given; allowed are None and 'rms'")
        if not isinstance(self.train_ends, bool):
            raise ValueError(f"train_ends: {self.train_ends!r} given; allowed are False and True")

    @property
    def is_linear(self) -> bool:
        """Are all vectors linear in the matrices met last?"""
        return is_linear(self.phi) and self.norm is None and self.block != "glu"

    def require_plain(self, what: str, trained_ends: bool = False) -> None:
        """Raise ``ValueError`` unless this is the linear network with one matrix a block and, but for
        ``trained_ends``, frozen ends."""
        if not self.is_linear or self.block == "mlp" or (self.train_ends and not trained_ends):
            raise ValueError(f"net: {self!r} given; {what} takes phi='linear', one matrix a block ('post' or 'pre'), "
                             + ("norm=None" if trained_ends else "norm=None and frozen ends"))
