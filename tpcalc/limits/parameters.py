"""Exact numbers for the parameters of a limit."""

from __future__ import annotations

from typing import Iterable, Mapping

import sympy as sp

from .._checks import exponent
from .._types import Number


def exact_parameters(values: Mapping[str, Number], parameters: Iterable[sp.Symbol]) -> dict[sp.Symbol, sp.Expr]:
    """Exact numbers of the named parameters; raises ``ValueError`` for unknown names and for what is not real."""
    known = {str(p): p for p in parameters}
    unknown = set(values) - set(known)
    if unknown:
        raise ValueError(f"parameters: got {', '.join(sorted(unknown))}; expected {', '.join(known) or 'none'}")
    numbers = {known[name]: exponent(name, value) for name, value in values.items()}
    for parameter, number in numbers.items():
        if not number.is_number or number.is_real is not True:
            raise ValueError(f"{parameter}: got {number}; expected a real number")
    return numbers
