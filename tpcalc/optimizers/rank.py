"""How steps whose size is that of whole matrices go with the rank of gradients, which powers of the width rest on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sympy as sp

from .faithful import NameWithDirection, optimizer_name
from .names import BY_NAME
from .sgd import on_sphere
from .updates import kind_of_updates, unclipped

HALF = sp.Rational(1, 2)
DIRECTIONS = {"fixed": sp.Integer(0), "width": sp.Integer(1)}  # of samples: the power of n that a batch's rank is

UNITS = {"orthogonal": "singular values", "normalized": "norms"}


@dataclass(frozen=True)
class RankPowers:
    """Powers of a gradient's rank r with which steps do the same to every vector that they act on.

    rate: of the learning rate; step: of the Frobenius norm of what the rate makes, beside which that of the weights
    is n^(1/2); unit: what of a step at rate 1 has a fixed size, in a word.
    """

    rate: sp.Expr
    step: sp.Expr
    unit: str

    def in_width(self, data: str) -> dict[str, sp.Expr]:
        """Powers of n of the learning rate, and of a step's norm over that of the weights: of samples of a "fixed"
        number of directions, or of as many as the "width"."""
        rank = DIRECTIONS[data]
        return {"lr": self.rate * rank, "relative step": self.step * rank - HALF}


def rank_powers(optimizer: Any) -> RankPowers | None:
    """The powers of the rank for an optimizer or its name, None where a step has its size entry by entry and weights
    are free, and where directions are other functions of whole matrices.

    r singular values of one size make a Frobenius norm that is r^(1/2) as large. An orthogonal step has the size of the
    former, a normalized one, and one of entries of a fixed size, that of the latter; what a vector meets is the former.

    >>> rank_powers("muon"), rank_powers("adam")
    (RankPowers(rate=0, step=1/2, unit='singular values'), None)
    """
    opt = unclipped(optimizer)
    if isinstance(optimizer, NameWithDirection):
        opt = optimizer.opt
    elif isinstance(optimizer, str):
        opt = BY_NAME[optimizer_name(optimizer)]
    kind = kind_of_updates(opt)
    if kind not in ("orthogonal", "normalized") and not on_sphere(opt):
        return None
    norm = HALF if kind == "orthogonal" else sp.Integer(0)
    rate = HALF - norm
    return RankPowers(rate, rate + norm, UNITS.get(kind, "entries"))


def finite_batches(optimizer: Any) -> tuple[str, ...]:
    """What powers of the width take for granted of batches, in a sentence; nothing where they do not rest on a rank.

    >>> print(*finite_batches("muon"))
    gradients have a fixed rank as the width n grows, as those of finitely many samples; batches in practice have \
more: of rank r, a step's norm over that of the weights is to go like (r/n)^(1/2), and a learning rate of steps' \
singular values stays
    """
    found = rank_powers(optimizer)
    if found is None:
        return ()
    rate = f"is to go like r^({found.rate})" if found.rate else "stays"
    return ("gradients have a fixed rank as the width n grows, as those of finitely many samples; batches in practice "
            f"have more: of rank r, a step's norm over that of the weights is to go like (r/n)^({found.step}), and a "
            f"learning rate of steps' {found.unit} {rate}",)
