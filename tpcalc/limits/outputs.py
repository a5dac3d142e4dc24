"""Which scalars a program computes."""

from __future__ import annotations

from ..calculus.recursion import RecursionEquations
from ..programs.language import LossDerivative


def computed_scalars(recursion: RecursionEquations) -> tuple[str, ...]:
    """The names of the scalars that a program computes, those of held-out inputs too, but for loss derivatives."""
    return tuple(dict.fromkeys(e.target.name for e in recursion.equations
                               if e.kind == "scalar" and not e.value.has(LossDerivative)))
