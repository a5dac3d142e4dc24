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
        """These, once steps are numbers."""
        return Listed(*matrices)


class Listed(Expression):
    """Matrices step by step, oldest first, where steps are numbers."""

    is_commutative = True
    own_kind = "matrix"


def gradients_so_far(gradient: Callable[[sp.Expr], sp.Expr], step: sp.Expr) -> Apart:
    """The gradients of all steps up to one, step by step, for a function of whole matrices.

    gradient: by step. Raises nothing.

    >>> from tpcalc.theory import Family, Outer, Vector
    >>> u, v, t = Family(Vector, "u"), Family(Vector, "v"), sp.Symbol("t", integer=True)
    >>> gradients_so_far(lambda k: Outer(u[k], v[k]), t)
    Sum(outer(u[k], v[k])/n, (k, 0, t))
    """
    k = sp.Symbol("k", integer=True, nonnegative=True)
    found: Apart = Apart(gradient(k), (k, 0, step))
    return found
