"""Recurrences over positions in the count: what is there must not vanish where positions are alike."""

from __future__ import annotations

from functools import singledispatch

import sympy as sp
from sympy.core.function import AppliedUndef

from ..errors import NotCovered
from .indices import p
from .language import HeadSum, MatVec, Mean, Scalar, Vector
from .program import Assign

Known = dict[str, sp.Expr]  # by name, what a vector or a number of a position is made of


def require_terms_that_stay(what: str, statements: tuple[Assign, ...]) -> None:
    """Raise ``NotCovered`` for a state by which what a matrix makes vanishes where a position is as the one before it
    is, as a difference of both does, naming the statement; statements: of a layer; what: they are of.

    Three positions are written out in what matrices make, of different inputs and of one. What stands in a statement of
    the former has to stand in it of the latter.
    """
    own, before = _positions(statements)
    apart = [sp.Symbol(f"x{number}", real=True) for number in range(3)]
    same = dict.fromkeys(apart, apart[-1])
    left: Known = dict.fromkeys(before, sp.Integer(0))
    for x in apart:
        known = dict(left)
        for one in own:
            value = known[one.target.name] = _written(one.value, known, x)
            if _makers(value) != _makers(sp.expand(value.xreplace(same))):
                raise NotCovered(f"{what}, in which a part of {one.target} vanishes where positions are "
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


@singledispatch
def _written(value: sp.Expr, known: Known, x: sp.Expr) -> sp.Expr:
    """In functions of the input; matrices, averages and heads are functions too."""
    return value.func(*_arguments(value, known, x)) if value.args else value


def _arguments(value: sp.Expr, known: Known, x: sp.Expr) -> list[sp.Expr]:
    return [_written(one, known, x) for one in value.args if isinstance(one, sp.Expr)]


@_written.register(Vector)
@_written.register(Scalar)
def _member(value: Vector | Scalar, known: Known, x: sp.Expr) -> sp.Expr:
    return known.get(value.name, x)


@_written.register(MatVec)
def _product(value: MatVec, known: Known, x: sp.Expr) -> sp.Expr:
    made = _written(value.vector, known, x)
    return sp.Function(f"W_{value.matrix}", real=True)(made) if made != 0 else made


@_written.register(Mean)
@_written.register(HeadSum)
def _linear(value: sp.Expr, known: Known, x: sp.Expr) -> sp.Expr:
    body = _written(value.args[0], known, x)
    return sp.Function(value.func.__name__, real=True)(body) if body != 0 else body


@_written.register(sp.Sum)
@_written.register(sp.Piecewise)
def _opaque(value: sp.Expr, known: Known, x: sp.Expr) -> sp.Expr:
    """As a function of all that stands in it."""
    inside = [_written(one, known, x) for one in sorted(value.atoms(Vector, Scalar), key=sp.default_sort_key)]
    return sp.Function(value.func.__name__, real=True)(*inside) if inside else value
