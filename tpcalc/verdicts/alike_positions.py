"""Recurrences over positions in the count: what is there must not vanish where positions are alike."""

from __future__ import annotations

import sympy as sp
from sympy.core.function import AppliedUndef

from .._checks import short
from ..errors import NotCovered
from ..models.network import Network
from ..programs.indices import p
from ..programs.language import HeadSum, Matrix, MatVec, Mean, Member
from ..programs.program import Assign

Known = dict[str, sp.Expr]  # by name, what a vector or a number of a position is made of


def require_terms_that_stay(net: Network) -> None:
    """Raise ``NotCovered`` for a state by which what a matrix makes vanishes where a position is as the one before it
    is, as a difference of both does, naming the statement.

    Three positions are written out in what matrices make, of different inputs and of one. What stands in a statement of
    the former has to stand in it of the latter.
    """
    own, before = _positions(net.statements)
    apart = [sp.Symbol(f"x{number}", real=True) for number in range(3)]
    same = dict.fromkeys(apart, apart[-1])
    left: Known = dict.fromkeys(before, sp.Integer(0))
    for x in apart:
        known = dict(left)
        for one in own:
            value = known[one.target.name] = _written(one.value, known, x)
            if _makers(value) != _makers(sp.expand(value.xreplace(same))):
                raise NotCovered(f"net: got {short(net)}, in which a part of {one.target} vanishes where positions are "
                                 "alike, as a difference of what two of them make does; powers of L are counted of one "
                                 "position that stands for all; expected states of which that is left")
        left = {name: known[state] for name, state in before.items()}


def _makers(value: sp.Expr) -> set[object]:
    """Matrices, averages and heads that stand in it."""
    return {one.func for one in value.atoms(AppliedUndef)}


def _positions(statements: tuple[Assign, ...]) -> tuple[list[Assign], dict[str, str]]:
    """The statements of a position, and by what is read of the one before it the state that it is."""
    before = {one.target.name: one.value.name for one in statements if p + 1 in one.target.indices}
    return [one for one in statements if one.target.name not in before], before


def _written(value: sp.Expr, known: Known, x: sp.Symbol) -> sp.Expr:
    """In functions of the input; matrices, averages and heads are functions too."""
    if isinstance(value, Matrix):
        return sp.Symbol(value.name)
    if isinstance(value, Member):
        return known.get(value.name, x)
    if not value.has(Member):
        return value
    args = [_written(one, known, x) for one in value.args if isinstance(one, sp.Expr)]
    if isinstance(value, MatVec):
        return sp.Integer(0) if args[1] == 0 else sp.Function(f"W_{args[0]}", real=True)(args[1])
    if isinstance(value, (Mean, HeadSum)):
        return sp.Integer(0) if args[0] == 0 else sp.Function(value.func.__name__, real=True)(args[0])
    if isinstance(value, (sp.Sum, sp.Piecewise)):
        return sp.Function(value.func.__name__, real=True)(*args)
    return value.func(*args)
