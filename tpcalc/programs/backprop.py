"""Backpropagation through straight-line statements, as statements of the language.

Gradients are normalized: that of a vector is n times the derivative, that of a scalar the derivative itself, so that
both are of order one in the width. A scalar factor (a branch multiplier) is kept apart from what it multiplies, so that
the outer products of an update are made of vectors of order one, whatever the multiplier.

Vectors of a position p may be read at another one, m, and summed over it: what is sent back is then summed over the
positions that read it. A state that goes on to the next position, ``before[p + 1] := s[p]`` from ``before[0] := 0``, is
sent back what it becomes there, from the last position on.

``Trainable`` is what an optimizer trains: a family of matrices or vectors with its gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Callable, Collection, Mapping, NamedTuple, Sequence, Union

import sympy as sp

from ..errors import NotCovered
from .by_position import HeadTurn
from .language import Family, HeadSum, MatVec, Matrix, Mean, Member, Outer, Scalar, Transpose, Vector, kind
from .indices import POSITIONS, at_other, m, p, write_out
from .program import Assign

ROWS, COLUMNS = 1, 0  # how the parts of a matrix are put together: one above the other, or next to each other


@dataclass(frozen=True)
class Blocks:
    """The whole matrix of which a family is a part: names and gradients of all parts, which one this is, and ``ROWS``
    or ``COLUMNS``.

    Columns next to each other are those of W / sqrt(parts), so that entries are N(0, 1 / fan-in).
    """

    names: tuple[str, ...]
    gradients: tuple[sp.Expr, ...]
    part: int
    how: int

    @property
    def root(self) -> sp.Expr:
        """A part over what it is in the whole matrix, and so the whole matrix's gradient over the part's."""
        return sp.sqrt(len(self.names)) if self.how == COLUMNS else sp.Integer(1)


@dataclass(frozen=True)
class Trainable:
    """A family under training, a matrix or an end: its normalized gradient at step t and the size g of an update.

    rate: what the optimizer's learning rate is multiplied by, in front of decoupled and coupled decay too; initial:
    what all its coordinates are at first, where they are not drawn; blocks: of a part of a matrix.
    """

    family: Family
    at: tuple[sp.Expr, ...]
    gradient: sp.Expr
    size: sp.Expr
    rate: sp.Expr = sp.Integer(1)
    initial: sp.Expr | None = None
    blocks: Blocks | None = None

    @property
    def root(self) -> sp.Expr:
        """The family over what it is in the whole matrix; 1 for what is no part of one."""
        return sp.Integer(1) if self.blocks is None else self.blocks.root

    def scaled(self, number: sp.Expr) -> Trainable:
        """With gradients times a number of step t."""
        outers = {one: Outer(number * one.left, one.right) for one in self.gradient.atoms(Outer)}
        return replace(self, gradient=self.gradient.xreplace(outers) if outers else number * self.gradient)


def buffer_of(family: Family) -> Family:
    """The momentum buffer of a family."""
    return Family(family.kind, f"m{family.name}", rf"\mathrm{{m}}{family.latex}", family.layered)


def in_blocks(parts: Sequence[Trainable]) -> list[Trainable]:
    """The parts of one matrix, each with the whole: which vectors their gradients share says how they are put together.
    """
    if len(parts) == 1:
        return list(parts)
    for how, shared in ((ROWS, 1), (COLUMNS, 0)):
        if len({frozenset(outer.args[shared] for outer in one.gradient.atoms(Outer)) for one in parts}) == 1:
            whole = Blocks(tuple(one.family.name for one in parts), tuple(one.gradient for one in parts), 0, how)
            return [replace(one, blocks=replace(whole, part=k)) for k, one in enumerate(parts)]
    raise NotCovered(f"{', '.join(one.family.name for one in parts)}: gradients of the parts of one matrix share no "
                     "vectors; expected parts above or beside each other")


Node = Union[Vector, Scalar]
EVERY_POSITION = (m, sp.Integer(0), POSITIONS - 1)


class Gradient(NamedTuple):
    """The normalized gradient in a matrix, an outer product, or in a trained vector: ``factor``, a power of the branch
    multiplier, times ``value``."""

    of: Matrix | Vector
    factor: sp.Expr
    value: sp.Expr


@dataclass
class Backward:
    """statements: in execution order; gradients: those of matrices and trained vectors, one for every place."""

    statements: list[Assign] = field(default_factory=list)
    gradients: list[Gradient] = field(default_factory=list)


def backpropagate(forward: Sequence[Assign], signals: Mapping[Vector, Vector], inputs: Sequence[Vector],
                  name: Callable[[sp.Expr], sp.Expr], unit: sp.Symbol, trained: Collection[Vector] = (),
                  constant: Collection[Node] = ()) -> Backward:
    """From d output = its signal to ``name(v)`` for the inputs and every vector and scalar in between that needs one.

    signals: of every output, which no statement reads, what holds its gradient; trained: vectors that are given for all
    samples and positions alike, whose gradients are asked for; constant: what is given so, of which nothing is asked.
    forward: statements of vectors and scalars, each assigned once; a product of a matrix with a vector that has a name
    stands alone, or times a number in a sum. Members without an index, such as an embedding that is not trained, are
    constants; so are scalars that no statement assigns. name: what holds the gradient of a vector or scalar. unit: the
    branch multiplier, whose powers are kept out of gradients. A sum over positions stands alone. Raises ``ValueError``
    for statements that it cannot go back through, and for vectors and scalars of other layers, naming them.
    """
    found = Backward()
    made = [one for statement in forward for one in {statement.target, _at_own(statement.target)}]
    known = {*made, *inputs}
    parts: dict[Node, list[tuple[sp.Expr, sp.Expr]]] = {v: [(sp.Integer(1), signal)] for v, signal in signals.items()}
    begun: dict[Node, tuple[Node, sp.Expr]] = {}
    for number, statement in reversed(list(enumerate(map(_without_sums, forward)))):
        if p + 1 in statement.target.indices:
            if forward[number + 1:number + 2] == [] or p + 1 not in forward[number + 1].target.indices:
                begun.update(_begin(found, parts, forward[:number + 1], name, unit))
            continue
        if statement.target in begun:
            before, scale = begun[statement.target]
            total = sp.Add(*(c / scale * e for c, e in parts.get(before, [])))
            found.statements.append(Assign(name(before), total))
            continue
        _require_own(statement, made, (*inputs, *trained, *constant))
        scale, d = _settle(found, parts, statement.target, signals.get(statement.target), name, unit)
        if d is None:
            continue
        for argument, factor, change in _pull_back(found, statement, scale, d, made, unit):
            if argument in constant:
                continue
            if argument in trained and not isinstance(argument, Scalar):
                found.gradients.append(Gradient(argument, scale * factor, change))
                continue
            home, gathered = _at_home(statement.target, argument, change, known)
            parts.setdefault(home, []).append((scale * factor, gathered))
    for v in inputs:
        total = sp.Add(*(c * e for c, e in parts.get(v, [])))
        found.statements.append(Assign(name(v), total))
    return found


def _at_own(member: Node) -> Node:
    """A state that goes on to the next position, at its own."""
    own: Node = member.at(*(p if index == p + 1 else index for index in member.indices))
    return own


def _at_position(member: Node, position: sp.Expr) -> Node:
    """A member of the own position at another one."""
    moved: Node = member.at(*(position if index == p else index for index in member.indices))
    return moved


def _begin(found: Backward, parts: dict[Node, list[tuple[sp.Expr, sp.Expr]]], forward: Sequence[Assign],
           name: Callable[[sp.Expr], sp.Expr], unit: sp.Symbol) -> dict[Node, tuple[Node, sp.Expr]]:
    """Begin to go back through states that go on from position to position, the last statements of ``forward``: behind
    the last position nothing is sent to them. Gives, by what they are before the first position, what they are before
    any, and the power of the branch multiplier that all of their gradients share."""
    states = {}
    for statement in reversed(forward):
        if p + 1 not in statement.target.indices:
            break
        states[_at_own(statement.target)] = statement.value
    terms = [c for before, state in states.items() for one in (before, state) for c, _ in parts.get(one, [])]
    if not terms:
        return {}
    scale = unit ** min(sp.degree(c, unit) for c in terms)
    for before, state in states.items():
        sent = name(before)
        parts.setdefault(state, []).append((scale, _at_position(sent, p + 1)))
        found.statements.append(Assign(_at_position(sent, POSITIONS), sp.Integer(0)))
    return {_at_position(before, sp.Integer(0)): (before, scale) for before in states}


def _at_home(target: Node, argument: Node, change: sp.Expr, known: Collection[Node]) -> tuple[Node, sp.Expr]:
    """What is sent to an argument: summed over positions that it has not, and at the position where it was assigned."""
    read = target.free_symbols | change.free_symbols
    for index in sorted({p, m} & read - argument.free_symbols, key=str):
        change = sp.Sum(change, (index, *EVERY_POSITION[1:]))
    return (argument, change) if argument in known or at_other(argument) not in known else (
        at_other(argument), at_other(change))


def _without_sums(statement: Assign) -> Assign:
    """With sums over numbers written out; raises ``NotCovered`` for other sums but one over positions that is all."""
    if isinstance(statement.value, sp.Sum) and statement.value.limits == (sp.Tuple(*EVERY_POSITION),) and (
            not statement.value.function.has(sp.Sum, MatVec) and m not in statement.target.free_symbols):
        return statement
    value = statement.value.replace(
        lambda e: isinstance(e, sp.Sum) and all(end.is_Integer for _, *ends in e.limits for end in ends), write_out)
    for total in value.atoms(sp.Sum):
        bound = {limit[0] for limit in total.limits}
        over = sorted((one for one in total.atoms(Member) if one.free_symbols & bound), key=sp.default_sort_key)
        if over:
            raise NotCovered(f"{statement}: a sum over {over[0]} for symbolic ends; "
                             "expected sums between numbers, of vectors and scalars that the statements assign")
    return Assign(statement.target, value)


def _require_own(statement: Assign, made: Collection[Node], inputs: Collection[Node]) -> None:
    """Raise ``ValueError`` for what is read of other layers or steps: its gradient would be lost."""
    for read in sorted(statement.value.atoms(Vector, Scalar), key=sp.default_sort_key):
        followed = isinstance(read, Vector) or any(read.same_family(one) for one in made)
        if read.indices and followed and not {read, at_other(read)} & {*made, *inputs}:
            raise NotCovered(f"{statement}: {read} is neither "
                             f"{', '.join(map(str, inputs))} nor assigned by these statements, so that its gradient "
                             "cannot be followed")


def _settle(found: Backward, parts: dict[Node, list[tuple[sp.Expr, sp.Expr]]], v: Node, known: Vector | None,
            name: Callable[[sp.Expr], sp.Expr], unit: sp.Symbol) -> tuple[sp.Expr, sp.Expr]:
    """The gradient of ``v`` as (power of the branch multiplier that all its terms share, what holds the rest)."""
    if known is not None:
        return sp.Integer(1), known
    terms = parts.get(v)
    if not terms:
        return sp.Integer(1), None
    scale = unit ** min(sp.degree(c, unit) for c, _ in terms)
    expression = sp.Add(*(c / scale * e for c, e in terms))
    if isinstance(expression, (Vector, Scalar)):
        return scale, expression
    found.statements.append(Assign(name(v), expression))
    return scale, name(v)


def _pull_back(found: Backward, statement: Assign, scale: sp.Expr, d: Node, made: Collection[Node], unit: sp.Symbol
               ) -> list[tuple[Node, sp.Expr, sp.Expr]]:
    """(argument, scalar, change): what a statement sends to the gradients of its arguments."""
    value, said = statement.value, str(statement)
    sent: list[tuple[Node, sp.Expr, sp.Expr]] = []
    for product in sorted(value.atoms(MatVec), key=sp.default_sort_key):
        factor = sp.expand(value).coeff(product)
        if kind(factor) != "scalar" or sp.expand(value - factor * product).has(product):
            raise NotCovered(f"{said}: {product} must be named before a function acts on it")
        if not isinstance(product.vector, Vector):  # its gradient would have no name to be collected under
            raise NotCovered(f"{said}: {product.vector} must be named before a matrix acts on it")
        if factor.has(Vector) or factor.atoms(Scalar) & set(made):  # the factor's gradient contains the product
            raise NotCovered(f"{said}: {product} must be named before {factor} multiplies it")
        if {p, m} & (d.free_symbols ^ product.vector.free_symbols):
            raise NotCovered(f"{said}: {product} must be named at its own position before another one reads it")
        front, number = _apart(factor, unit)
        outer = Outer(product.vector, d) if product.matrix.turned else Outer(d, product.vector)
        found.gradients.append(Gradient(product.matrix.member, scale * front, number * outer))
        sent.append((product.vector, front, number * MatVec(Transpose(product.matrix), d)))
    rest = sp.expand(value.subs({p: 0 for p in value.atoms(MatVec)})) if value.has(MatVec) else value
    for argument in sorted(rest.atoms(Vector) | rest.atoms(Scalar) & set(made), key=sp.default_sort_key):
        change = _derivative(rest, argument, d)
        if change != 0:
            sent.append((argument, *_apart(change, unit)))
    return sent


MOVED = sp.Dummy(real=True)  # one for all: sympy finds derivatives again that it has taken


@lru_cache(maxsize=1024)
def _hidden(average: sp.Expr) -> sp.Dummy:
    """What stands for an average in a derivative."""
    return sp.Dummy(real=True)


def _derivative(value: sp.Expr, argument: Node, d: sp.Expr) -> sp.Expr:
    """d times the derivative in a vector, entrywise, or in a scalar, averaged; sums and averages are gone through."""
    if isinstance(value, sp.Sum):
        return _derivative(value.function, argument, d)
    averages = sorted(value.atoms(Mean, HeadSum, HeadTurn), key=sp.default_sort_key)
    hidden = {m: _hidden(m) for m in averages}
    outside = value.xreplace(hidden)
    total = d * sp.diff(outside.xreplace({argument: MOVED}), MOVED).xreplace({MOVED: argument})
    if isinstance(argument, Scalar):
        total = Mean(total)
    for average, symbol in hidden.items():
        slope = sp.diff(outside, symbol)
        if slope != 0 and average.has(argument):
            total += _derivative(average.args[0], argument, average.adjoint(d * slope))
    return total.xreplace({symbol: m for m, symbol in hidden.items()})


def _apart(change: sp.Expr, unit: sp.Symbol) -> tuple[sp.Expr, sp.Expr]:
    """A change as (power of the branch multiplier, the rest)."""
    factors = sp.Mul.make_args(sp.factor_terms(sp.expand(change)) if change.has(unit) else change)
    powers = [f for f in factors if f.as_base_exp()[0] == unit]
    return sp.Mul(*powers), sp.Mul(*(f for f in factors if f not in powers))
