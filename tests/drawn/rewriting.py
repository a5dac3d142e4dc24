"""Programs that say the same in other words: other names for families, names for products that have none."""

from __future__ import annotations

from dataclasses import replace
from typing import Mapping

import sympy as sp
from sympy.core.symbol import Str

from tpcalc.programs.language import Family, MatVec, Member, Vector, kind
from tpcalc.programs.program import Assign, Program, Statement, mapped


def renamed(program: Program, names: Mapping[str, str] | None = None) -> Program:
    """The program with other names for families; data keeps its names, because it is given by them.

    names: old to new; by default all families get names in the reverse of their alphabetical order, so that nothing
    that sorts by name stays as it was.
    """
    if names is None:
        given = {member.name for member in program.data}
        old = sorted({m.name for location in program.locations()
                      for m in location.statement.value.atoms(Member) | {location.statement.target}} - given)
        names = {name: f"{chr(ord('a') + 25 - number % 26)}{number // 26 or ''}q" for number, name in enumerate(old)}

    def of(expression: sp.Expr) -> sp.Expr:
        members = expression.atoms(Member)
        return expression.xreplace({m: m.func(Str(names.get(m.name, m.name)), Str(names.get(m.name, str(m.args[1]))),
                                              *m.args[2:]) for m in members})

    return Program(program.name, tuple(map(of, program.vectors)), tuple(map(of, program.matrices)),
                   tuple(map(of, program.data)),
                   mapped(program.body, lambda s: (Assign(of(s.target), of(s.value)),)), program.sizes,
                   program.meaning)


def with_named_products(program: Program) -> Program:
    """The program with ``h := W x`` for every product of a matrix that stands inside a larger expression.

    The names are h_1, h_2, ... in program order, without the underscore; none of them may be taken.
    """
    taken = {location.statement.target.name for location in program.locations()}
    count = 0

    def named(statement: Assign) -> tuple[Statement, ...]:
        nonlocal count
        target, value = statement.target, statement.value
        if kind(target) != "vector" or isinstance(value, MatVec):
            return (statement,)
        found: list[Statement] = []
        products = sorted(value.atoms(MatVec), key=sp.default_sort_key)
        for product in products:
            count += 1
            name = f"h{count}"
            if name in taken:
                raise ValueError(f"program {program.name}: has a family {name}; expected programs without")
            h = Family(Vector, name, layered=bool(int(target.args[2])))[target.indices]
            found.append(Assign(h, product))
            value = value.xreplace({product: h})
        return (*found, Assign(target, value))

    return replace(program, body=mapped(program.body, named))
