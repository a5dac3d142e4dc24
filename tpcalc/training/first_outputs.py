"""The outputs that a network would have with the weights it started from, which ``zero_readout`` takes away.

Outputs are then 0 before training in every network, as they are in the limit of infinite width; what training adds is
as it was. The network goes forward twice: with its weights, and with those of step 0, on the same inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterable

import sympy as sp

from ..programs.indices import t
from ..programs.language import Family, Matrix, Member, Scalar, Vector
from ..programs.program import Assign, Loop, Statement


@dataclass(frozen=True)
class FirstPass:
    """A forward pass with the weights of step 0. forward: the pass with those of step t; trained: names of vectors that
    are trained, as matrices are."""

    forward: tuple[Statement, ...]
    trained: frozenset[str]

    @property
    def statements(self) -> list[Statement]:
        """What it makes has names of its own."""
        return [self._mapped(one) for one in self.forward]

    def value(self, expression: sp.Expr) -> sp.Expr:
        """An expression of what the pass makes, and of weights."""
        made = set(_made(self.forward))
        members = expression.atoms(Member)
        return expression.xreplace({
            **{one: _first(one) for one in members if one.name in made},
            **{one: one.func(*one.args[:3], sp.Integer(0), *one.args[4:]) for one in members
               if (isinstance(one, Matrix) or one.name in self.trained) and one.indices[:1] == (t,)}})

    def _mapped(self, one: Statement) -> Statement:
        if isinstance(one, Loop):
            return Loop(one.index, one.first, one.last, tuple(map(self._mapped, one.body)), one.descending)
        return Assign(self.value(one.target), self.value(one.value))


def _first(one: Member) -> Member:
    """x[t, l] as the first weights make it."""
    name, latex = str(one.args[0]), str(one.args[1])
    return Family(type(one), f"{name}_first", rf"{{{latex}^{{0}}}}", layered=bool(int(one.args[2])))[one.indices]


def _made(statements: Iterable[Statement]) -> Iterable[str]:
    for one in statements:
        if isinstance(one, Loop):
            yield from _made(one.body)
        elif isinstance(one.target, (Vector, Scalar)):
            yield one.target.name
