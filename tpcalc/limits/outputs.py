"""Which scalars a program computes, and which of them are its outputs."""

from __future__ import annotations

from typing import Iterable, Protocol

import sympy as sp

from ..calculus.recursion import RecursionEquations
from ..programs.language import LossDerivative


class AnyEquation(Protocol):
    """What this module reads of an equation of kets or of a recursion: its right side."""

    @property
    def value(self) -> sp.Expr: ...


def outputs_of(equations: Iterable[AnyEquation]) -> tuple[str, ...]:
    """The names of the scalars that a loss is taken of, in ket equations or a recursion's."""
    losses = [one for e in equations for one in e.value.atoms(LossDerivative)]
    return tuple(dict.fromkeys(f.name for one in sorted(losses, key=sp.default_sort_key)
                               for f in one.outputs))


def computed_scalars(recursion: RecursionEquations) -> tuple[str, ...]:
    """The names of the scalars that a program computes, those of held-out inputs too, but for loss derivatives."""
    return tuple(dict.fromkeys(e.target.name for e in recursion.equations
                               if e.kind == "scalar" and not e.value.has(LossDerivative)))
