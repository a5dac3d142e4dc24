"""What running a program will need, before it runs: how often matrices are met, and until when vectors are read."""

from __future__ import annotations

from collections import Counter
from typing import Callable, Sequence

import sympy as sp

from tpcalc._types import Value
from tpcalc.programs.language import Matrix, MatVec, Outer, Vector
from tpcalc.programs.program import Assign


def products(statements: Sequence[Assign]) -> Counter[Matrix]:
    """How many products, either way, are made with every initial matrix: those of trained ones count too."""
    made: dict[sp.Basic, frozenset[Matrix]] = {}
    found: Counter[Matrix] = Counter()

    def origins(expression: sp.Expr) -> frozenset[Matrix]:
        return frozenset().union(*(made.get(m, frozenset((m,))) for m in expression.atoms(Matrix)))

    for statement in statements:
        for product in statement.value.atoms(MatVec):
            found.update(origins(product.matrix))
        if isinstance(statement.target, Matrix):
            made[statement.target] = origins(statement.value)
    return found


def last_reads(statements: Sequence[Assign], kept: Callable[[Value], bool]) -> list[list[sp.Expr]]:
    """The vectors and matrices that statement i assigns or reads, and none after it does; without those ``kept``."""
    last: dict[sp.Expr, int] = {}
    for i, statement in enumerate(statements):
        last[statement.target] = i
        last.update(dict.fromkeys(statement.value.atoms(Vector, Matrix), i))
    ends: list[list[sp.Expr]] = [[] for _ in statements]
    for member, i in last.items():
        if isinstance(member, (Vector, Matrix)) and not kept(member):
            ends[i].append(member)
    return ends


def most_vectors(statements: Sequence[Assign], ends: Sequence[Sequence[sp.Expr]]) -> int:
    """The most vectors that are held at a time, initial ones included; those of outer products stay."""
    outer = {v for s in statements for o in s.value.atoms(Outer) for v in o.args}
    initial = {v for s in statements for v in s.value.atoms(Vector)} - {s.target for s in statements}
    held = outer | initial
    most = now = len(initial) + sum(not isinstance(v, Vector) for v in outer)
    for statement, ending in zip(statements, ends):
        now += isinstance(statement.target, Vector)
        most = max(most, now)
        now -= sum(isinstance(member, Vector) and member not in held for member in ending)
    return most
