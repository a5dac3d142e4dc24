"""The variable whose powers are counted, the depth."""

from __future__ import annotations

from typing import Iterable

import sympy as sp

from ..calculus.setting import Setting
from ..errors import NotCovered

Values = tuple[tuple[sp.Symbol, sp.Expr], ...]  # of some parameters


def growing_variable(setting: Setting) -> sp.Symbol:
    """The depth; raises ``ValueError`` for a program without layers."""
    if setting.depth is None:
        raise NotCovered(f"program {setting.program.name} has no layers, so that nothing depends on the depth")
    return setting.depth


def free_parameters(values: Iterable[sp.Expr], growing: sp.Expr, at: Values) -> tuple[sp.Symbol, ...]:
    """The symbols in the exponents of the growing variable, with numbers in front of it too, that have no value."""
    powers = {p.exp for value in values for p in value.atoms(sp.Pow) if p.base.free_symbols == {growing}}
    return tuple(sorted(set().union(*(p.free_symbols for p in powers)) - {symbol for symbol, _ in at}, key=str))
