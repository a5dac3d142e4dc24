"""Networks as data: what is computed, without saying how it is scaled or trained."""

from __future__ import annotations

from dataclasses import dataclass

from .._checks import choice


@dataclass(frozen=True)
class ResNet:
    """A residual network x^l = x^(l-1) + eps W^l x^(l-1), x^0 = U xi, f = V^T x^L.

    Parameters
    ----------
    phi:
        the activation; this version has ``"linear"``.
    block:
        the form of a branch; for a linear activation ``"post"`` (phi(W x)) and ``"pre"`` (W phi(x))
        are one network.
    norm, train_ends:
        no normalisation and frozen read-in and read-out in this version.

    Normalisation (muP): U has entries N(0, 1), W^l N(0, 1/n), n V N(0, 1); source: paper B,
    section 4.2 and Program 1.

    Raises ``ValueError`` for anything else, naming what is allowed.
    """

    phi: str = "linear"
    block: str = "post"
    norm: None = None
    train_ends: bool = False

    def __post_init__(self) -> None:
        choice("phi", self.phi, ("linear",))
        choice("block", self.block, ("post", "pre", "mlp"))
        if self.norm is not None:
            raise ValueError(f"norm: {self.norm!r} given; allowed is None")
        if not isinstance(self.train_ends, bool):
            raise ValueError(f"train_ends: {self.train_ends!r} given; allowed are False and True")
