"""Entrywise optimizers as data: their updates are functions of the gradient's entries."""

from __future__ import annotations

from dataclasses import dataclass

from .._checks import exact


@dataclass(frozen=True)
class SignSGD:
    """The weights move by ``-lr g`` times the sign of the gradient, entry by entry.

    lr: that of the limit, a number. Raises ``ValueError`` for one that is not finite. Source: paper B,
    Definition 4.1.
    """

    lr: float = 1.0

    def __post_init__(self) -> None:
        exact("lr", self.lr)
