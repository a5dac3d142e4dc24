"""Which scalars of a program are its outputs."""

from __future__ import annotations

from typing import Iterable, Protocol

import sympy as sp

from ..programs.language import LossDerivative


class HasValue(Protocol):
    """An equation, by its right side."""

    @property
    def value(self) -> sp.Expr: ...


def outputs_of(equations: Iterable[HasValue]) -> tuple[str, ...]:
    """The names of the scalars that a loss is taken of, in ket equations or a recursion's."""
    losses = [one for e in equations for one in e.value.atoms(LossDerivative)]
    return tuple(dict.fromkeys(f.name for one in sorted(losses, key=sp.default_sort_key)
                               for f in (one.args[0] if isinstance(one.args[0], sp.Tuple) else one.args[:1])))
