"""What an optimizer trains: a family of matrices or vectors with its gradient, and the buffer that remembers it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import sympy as sp

from .language import Family, Outer


@dataclass(frozen=True)
class Trainable:
    """A family under training, a matrix or an end: its normalized gradient at step t and the size g of an update.

    rate: what the optimizer's learning rate is multiplied by, in front of decoupled and coupled decay too; initial:
    what all its coordinates are at first, where they are not drawn.
    """

    family: Family
    at: tuple[sp.Expr, ...]
    gradient: sp.Expr
    size: sp.Expr
    rate: sp.Expr = sp.Integer(1)
    initial: sp.Expr | None = None

    def scaled(self, number: sp.Expr) -> Trainable:
        """With gradients times a number of step t."""
        outers = {one: Outer(number * one.left, one.right) for one in self.gradient.atoms(Outer)}
        return replace(self, gradient=self.gradient.xreplace(outers) if outers else number * self.gradient)


def buffer_of(family: Family) -> Family:
    """The momentum buffer of a family."""
    return Family(family.kind, f"m{family.name}", rf"\mathrm{{m}}{family.latex}", family.layered)
