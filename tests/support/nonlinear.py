"""Random nonlinear programs, from random linear ones: functions act on some of their vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sympy as sp
from hypothesis import strategies as st

from tpcalc.programs.language import Mean, Vector
from tpcalc.programs.program import Assign, Loop, Statement
from tpcalc.testing.programs import INITIAL, ProgramExample, linear_programs

FUNCTIONS: tuple[Any, ...] = (sp.tanh, sp.erf, sp.sin, lambda v: sp.tanh(v) + sp.Abs(v) / 2, lambda v: sp.Max(v, 0),
                              lambda v: sp.tanh(v) - Mean(sp.tanh(v)), lambda v: v / sp.sqrt(1 + Mean(v**2)),
                              lambda v: v, lambda v: v)


@st.composite
def nonlinear_programs(draw: st.DrawFn, **settings: Any) -> ProgramExample:
    """Programs of ``linear_programs`` with an entrywise function, a centered or a normalized one around every vector
    that is assigned; all are bounded or 1-homogeneous."""
    example = draw(linear_programs(**settings))
    chosen = draw(st.lists(st.integers(0, len(FUNCTIONS) - 1), min_size=12, max_size=12))
    names: dict[str, Any] = {}

    def bent(statement: Statement) -> Statement:
        if isinstance(statement, Loop):
            return replace(statement, body=tuple(map(bent, statement.body)))
        if not isinstance(statement.target, Vector) or statement.value in INITIAL:
            return statement
        function = names.setdefault(statement.target.name, FUNCTIONS[chosen[len(names) % 12]])
        return Assign(statement.target, function(statement.value))

    body = tuple(map(bent, example.program.body))
    return ProgramExample(replace(example.program, name="drawn nonlinear", body=body), example.sizes, example.data)
