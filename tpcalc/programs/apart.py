"""Matrices step by step, which are not added: what functions of all gradients so far are functions of."""

from __future__ import annotations

from typing import Callable, Iterable

import sympy as sp

from .expression import Expression


class Apart(sp.Sum):  # type: ignore[misc]
    """The matrices that a sum over steps would add; steps are its last index."""

    def doit(self, **hints: object) -> Apart:
        """Itself: it is no sum."""
        return self

    def at(self, step: sp.Expr) -> sp.Expr:
        """The matrix of a step."""
        index, *_ = self.limits[-1]
        inner = self.limits[:-1]
        return (sp.Sum(self.function, *inner) if inner else self.function).subs(index, step)

    def listed(self, matrices: Iterable[sp.Expr]) -> sp.Expr:
        return Listed(*matrices)


class Listed(Expression):
    """The same once steps are numbers, oldest first."""

    is_commutative = True
    own_kind = "matrix"


def each_step(gradient: Callable[[sp.Expr], sp.Expr], step: sp.Expr) -> Apart:
    """The gradients of all steps up to one."""
    k = sp.Symbol("k", integer=True, nonnegative=True)
    found: Apart = Apart(gradient(k), (k, 0, step))
    return found
