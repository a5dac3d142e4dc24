"""Backpropagation through straight-line vector statements, as statements of the language.

Gradients are normalised: a scalar factor (a branch multiplier) is kept apart from the vector it multiplies,
so that the outer products of an update are made of vectors of order one, whatever the multiplier.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Sequence

import sympy as sp

from .language import Mat, MatVec, Moment, Outer, Transpose, Vec, kind
from .program import Assign


@dataclass
class Backward:
    """statements: in execution order; gradients: for every matrix the outer product of its normalised gradient."""

    statements: list[Assign] = field(default_factory=list)
    gradients: list[tuple[Mat, sp.Expr]] = field(default_factory=list)


def backpropagate(forward: Sequence[Assign], output: Vec, signal: Vec, inputs: Sequence[Vec],
                  name: Callable[[Vec], Vec], unit: sp.Symbol) -> Backward:
    """From d output = ``signal`` to ``name(v)`` for the inputs and every vector in between that needs one.

    forward: vector statements, each vector assigned once; a product of a matrix with a vector that has a name stands
    alone, or times a scalar in a sum. name: the vector that holds the gradient of a vector. unit: the branch
    multiplier, whose powers are kept out of gradients. Raises ``ValueError`` for statements that it cannot go back
    through, naming them.
    """
    found = Backward()
    parts: dict[Vec, list[tuple[sp.Expr, sp.Expr]]] = {output: [(sp.Integer(1), signal)]}
    for statement in reversed(forward):
        scale, d = _settle(found, parts, statement.target, signal if statement.target == output else None, name, unit)
        if d is None:
            continue
        for argument, factor, change in _pull_back(found, statement, d, unit):
            parts.setdefault(argument, []).append((scale * factor, change))
    for v in inputs:
        total = sp.Add(*(c * e for c, e in parts.get(v, [])))
        found.statements.append(Assign(name(v), total))
    return found


def _settle(found: Backward, parts: dict, v: Vec, known: Vec | None, name: Callable[[Vec], Vec], unit: sp.Symbol
            ) -> tuple[sp.Expr, Vec | None]:
    """The gradient of ``v`` as (power of the branch multiplier that all its terms share, vector with a name)."""
    if known is not None:
        return sp.Integer(1), known
    terms = parts.get(v)
    if not terms:
        return sp.Integer(1), None
    scale = unit ** min(sp.degree(c, unit) for c, _ in terms)
    expression = sp.Add(*(c / scale * e for c, e in terms))
    if isinstance(expression, Vec):
        return scale, expression
    found.statements.append(Assign(name(v), expression))
    return scale, name(v)


def _pull_back(found: Backward, statement: Assign, d: Vec, unit: sp.Symbol) -> list[tuple[Vec, sp.Expr, sp.Expr]]:
    """(argument, scalar, vector): what a statement sends to the gradients of its arguments."""
    value = statement.value
    sent: list[tuple[Vec, sp.Expr, sp.Expr]] = []
    for product in sorted(value.atoms(MatVec), key=sp.default_sort_key):
        factor = sp.expand(value).coeff(product)
        if kind(factor) != "scalar" or sp.expand(value - factor * product).has(product):
            raise ValueError(f"{statement.target} := {value}: {product} must be named before a function acts on it")
        if not isinstance(product.vector, Vec):  # its gradient would have no name to be collected under
            raise ValueError(f"{statement.target} := {value}: {product.vector} must be named before a matrix acts on "
                             "it")
        front, number = _apart(factor, unit)
        outer = Outer(product.vector, d) if _transposed(product) else Outer(d, product.vector)
        found.gradients.append((_matrix(product), number * outer))
        sent.append((product.vector, front, number * MatVec(Transpose(product.matrix), d)))
    rest = sp.expand(value.subs({p: 0 for p in value.atoms(MatVec)})) if value.has(MatVec) else value
    for argument in sorted(rest.atoms(Vec), key=sp.default_sort_key):
        change = _entrywise(rest, argument, d)
        if change != 0:
            sent.append((argument, *_apart(change, unit)))
    return sent


def _entrywise(value: sp.Expr, argument: Vec, d: sp.Expr) -> sp.Expr:
    """d times the derivative, through averages over coordinates too."""
    averages = sorted(value.atoms(Moment), key=sp.default_sort_key)
    hidden = {m: sp.Dummy(positive=True) for m in averages}
    outside, x = value.xreplace(hidden), sp.Dummy(real=True)
    total = d * sp.diff(outside.xreplace({argument: x}), x).xreplace({x: argument})
    for average, symbol in hidden.items():
        slope = sp.diff(outside, symbol)
        if slope != 0:
            total += _entrywise(average.args[0], argument, Moment(d * slope)) if average.has(argument) else 0
    return total.xreplace({symbol: m for m, symbol in hidden.items()})


def _apart(change: sp.Expr, unit: sp.Symbol) -> tuple[sp.Expr, sp.Expr]:
    """A change as (power of the branch multiplier, the rest)."""
    factors = sp.Mul.make_args(sp.factor_terms(sp.expand(change)) if change.has(unit) else change)
    powers = [f for f in factors if f.as_base_exp()[0] == unit]
    return sp.Mul(*powers), sp.Mul(*(f for f in factors if f not in powers))


def _transposed(product: MatVec) -> bool:
    return isinstance(product.matrix, Transpose)


def _matrix(product: MatVec) -> Mat:
    return product.matrix.args[0] if _transposed(product) else product.matrix
