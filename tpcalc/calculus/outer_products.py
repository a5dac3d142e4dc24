"""Outer products of vectors that have names: sums and numbers taken out of their sides."""

from __future__ import annotations

from dataclasses import replace

import sympy as sp
from sympy.utilities.iterables import sift

from ..errors import NotCovered
from ..programs.algebra import multiplied_out, replaced
from ..programs.language import NonlinearOuter, Outer, Vector, kind
from ..programs.program import Assign, Program, mapped


def of_named_vectors(program: Program) -> Program:
    """A program that means the same, with numbers in front of outer products: (a u + b w) v^T = a u v^T + b w v^T.

    Raises ``ValueError`` for an outer product of vectors without names, naming it and its statement, and where a side
    inside a function of entries is no name by itself.
    """
    if all(isinstance(side, Vector) for location in program.locations()
           for one in location.statement.value.atoms(Outer) for side in one.args):
        return program
    return replace(program, body=mapped(program.body, lambda statement: [_named(program, statement)]))


def _named(program: Program, statement: Assign) -> Assign:
    inside = statement.value.has(NonlinearOuter)
    value = statement.value if inside else replaced(statement.value, Outer, _expanded)
    for one in sorted(value.atoms(Outer), key=sp.default_sort_key):
        for side in one.args:
            if not isinstance(side, Vector):
                only = ", and no numbers in front of one inside of a function of entries" * inside
                raise NotCovered(f"program {program.name}: got {statement}; {side}, a side of {one}, is no vector "
                                 "with a name; expected outer products of given and assigned vectors, with numbers "
                                 f"in front{only}")
    return Assign(statement.target, value)


def _expanded(one: Outer) -> sp.Expr:
    """An outer product of sums as the sum of outer products: it is linear in both sides."""
    left, right = (_terms(side) for side in one.args)
    return sp.Add(*(a * b * Outer(u, v) for a, u in left for b, v in right))


def _terms(side: sp.Expr) -> list[tuple[sp.Expr, sp.Expr]]:
    """The terms of one side of an outer product, as pairs (number, vector)."""
    found = []
    for term in sp.Add.make_args(multiplied_out(side)):
        vectors, numbers = sift(sp.Mul.make_args(term), lambda f: kind(f) == "vector", binary=True)
        found.append((sp.Mul(*numbers), sp.Mul(*vectors)))
    return found if all(kind(vector) == "vector" for _, vector in found) else [(sp.Integer(1), side)]
