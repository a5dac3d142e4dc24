"""What an optimizer trains: a family of matrices or vectors with its gradient, and the buffer that remembers it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Sequence

import sympy as sp

from ..errors import NotCovered
from .language import Family, Outer


ROWS, COLUMNS = 1, 0  # how the parts of a matrix are put together: one above the other, or next to each other


@dataclass(frozen=True)
class Blocks:
    """The whole matrix of which a family is a part: names and gradients of all parts, which one this is, and ``ROWS``
    or ``COLUMNS``.

    Columns next to each other are those of W / sqrt(parts), so that entries are N(0, 1 / fan-in).
    """

    names: tuple[str, ...]
    gradients: tuple[sp.Expr, ...]
    part: int
    how: int

    @property
    def root(self) -> sp.Expr:
        """A part over what it is in the whole matrix, and so the whole matrix's gradient over the part's."""
        return sp.sqrt(len(self.names)) if self.how == COLUMNS else sp.Integer(1)


@dataclass(frozen=True)
class Trainable:
    """A family under training, a matrix or an end: its normalized gradient at step t and the size g of an update.

    rate: what the optimizer's learning rate is multiplied by, in front of decoupled and coupled decay too; initial:
    what all its coordinates are at first, where they are not drawn; blocks: of a part of a matrix.
    """

    family: Family
    at: tuple[sp.Expr, ...]
    gradient: sp.Expr
    size: sp.Expr
    rate: sp.Expr = sp.Integer(1)
    initial: sp.Expr | None = None
    blocks: Blocks | None = None

    @property
    def root(self) -> sp.Expr:
        """The family over what it is in the whole matrix; 1 for what is no part of one."""
        return sp.Integer(1) if self.blocks is None else self.blocks.root

    def scaled(self, number: sp.Expr) -> Trainable:
        """With gradients times a number of step t."""
        outers = {one: Outer(number * one.left, one.right) for one in self.gradient.atoms(Outer)}
        return replace(self, gradient=self.gradient.xreplace(outers) if outers else number * self.gradient)


def buffer_of(family: Family) -> Family:
    """The momentum buffer of a family."""
    return Family(family.kind, f"m{family.name}", rf"\mathrm{{m}}{family.latex}", family.layered)


def in_blocks(parts: Sequence[Trainable]) -> list[Trainable]:
    """The parts of one matrix, each with the whole: which vectors their gradients share says how they are put together.
    """
    if len(parts) == 1:
        return list(parts)
    for how, shared in ((ROWS, 1), (COLUMNS, 0)):
        if len({frozenset(outer.args[shared] for outer in one.gradient.atoms(Outer)) for one in parts}) == 1:
            whole = Blocks(tuple(one.family.name for one in parts), tuple(one.gradient for one in parts), 0, how)
            return [replace(one, blocks=replace(whole, part=k)) for k, one in enumerate(parts)]
    raise NotCovered(f"{', '.join(one.family.name for one in parts)}: gradients of the parts of one matrix share no "
                     "vectors; expected parts above or beside each other")
