"""What gradients carry: powers of the branch multiplier, and of what other parameters of a branch start at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Callable, Mapping, Sequence

import sympy as sp

from ..errors import NotCovered
from ..programs.backprop import backpropagate
from .builders import UNIT, gradient_name
from ..programs.indices import l, t
from ..programs.by_position import HeadTable, HeadTurn
from ..programs.language import HeadSum, Matrix, MatVec, Mean, Outer, Transpose, Vector
from ..models.network import Network

Degrees = Mapping[str, sp.Expr]  # by the parameter's name; nan where what carries it is not homogeneous in it


@dataclass(frozen=True)
class Carried:
    """What is carried, as powers: of the branch multiplier, and of every parameter of the branch, by name.

    of_branches: what each sublayer adds to the stream carries; of_gradients: the gradient of each matrix and trained
    vector; last: the matrices that a sublayer's output is a product with, or a sum of such; homes: the sublayer of each
    parameter.
    """

    of_branches: tuple[Degrees, ...]
    of_gradients: Mapping[str, tuple[sp.Expr, Degrees]]
    last: tuple[str, ...]
    homes: Mapping[str, int]

    def alphas(self, branches: Sequence[sp.Expr], inits: Mapping[str, sp.Expr]) -> tuple[sp.Expr, ...]:
        """alpha of every sublayer, of multipliers L^branch and of parameters that start L^init times as large as usual.

        Raises ``ValueError`` where one is not homogeneous in such a parameter.
        """
        return tuple(sp.expand(-branch - _power(degrees, inits)) for branch, degrees in zip(branches, self.of_branches))

    def gradient(self, name: str, branches: Sequence[sp.Expr], inits: Mapping[str, sp.Expr]) -> sp.Expr:
        """The power of L of the raw gradient of a parameter, in a stream and with gradients there of order one."""
        power, degrees = self.of_gradients[name]
        return sp.expand(power * branches[self.homes[name]] + _power(degrees, inits))


def _power(degrees: Degrees, inits: Mapping[str, sp.Expr]) -> sp.Expr:
    total = sp.Integer(0)
    for name, init in inits.items():
        degree = degrees.get(name, sp.Integer(0)) if init != 0 else sp.Integer(0)
        if degree is sp.nan:
            raise NotCovered(f"sizes at first: got {name} {init}; what acts on {name} is not homogeneous in it, so "
                             "that its size at first is no factor of the branch's; expected 0")
        total += degree * init
    return total


@lru_cache(maxsize=32)
def carried(net: Network) -> Carried:
    """The powers that a layer's statements, and those that go back through them, have of each parameter.

    A norm's input is the stream, of order one; relu is homogeneous in what it acts on, and so is its derivative, other
    activations are not.

    >>> import tpcalc as tp
    >>> found = carried(tp.Transformer(phi="relu"))
    >>> found.last, found.of_gradients["Wq"][1]["Wo"], found.of_gradients["Wo"][1].get("Wo", 0)
    (('Wo', 'W2'), 1, 0)
    """
    layer, streams = net.layer((t,), UNIT), {one.name for families in net.carried for one in families}
    known: dict[tuple[type, str], Degrees] = {(Vector, v.name): {v.name: sp.Integer(1)} for v in layer.vectors}
    branches: list[Degrees] = []
    last: list[str] = []
    homes: dict[str, int] = {}
    products: dict[str, sp.Expr] = {}  # by the name of the vector
    for one in layer.statements:
        for met in sorted(one.value.atoms(Matrix, Vector), key=sp.default_sort_key):
            homes.setdefault(met.name, len(branches))
        if one.target.name in streams:
            added = sp.Add(*(term for term in sp.Add.make_args(sp.expand(one.value)) if term.has(UNIT)))
            branches.append(_degrees(added, known))
            ends = [term.as_independent(Vector, as_Add=False)[1] for term in sp.Add.make_args(sp.expand(added))]
            ends = [products.get(end.name, end) if isinstance(end, Vector) else end for end in ends]
            last += [end.matrix.name for end in ends if isinstance(end, MatVec)]
        else:
            known[type(one.target), one.target.name] = _degrees(one.value, known)
            if isinstance(one.value, MatVec):
                products[one.target.name] = one.value
    sample = layer.statements[-1].target.indices[:-1]
    after = {stream[(*sample, l)]: gradient_name(stream[(*sample, l)]) for stream in net.streams}
    back = backpropagate(layer.statements, after, tuple(stream[(*sample, l - 1)] for stream in net.streams),
                         gradient_name, UNIT, layer.vectors, layer.keeps)
    for one in back.statements:
        if one.target.name not in {"d" + name for name in streams}:
            known[type(one.target), one.target.name] = _degrees(one.value.subs(UNIT, 1), known)
    gradients: dict[str, tuple[sp.Expr, Degrees]] = {}
    for found in back.gradients:
        each = sp.Integer(sp.degree(found.factor, UNIT)), _degrees(found.value, known)
        power, degrees = gradients.get(found.of.name, each)
        gradients[found.of.name] = min(power, each[0]), _joined((degrees, each[1]))
    return Carried(tuple(branches), gradients, tuple(dict.fromkeys(last)), homes)


def _degrees(value: sp.Expr, known: Mapping[tuple[type, str], Degrees]) -> Degrees:
    """The degrees of an expression in every parameter that it has."""
    for kind, rule in RULES.items():
        if isinstance(value, kind):
            return rule(value, lambda inner: _degrees(inner, known), known)
    return _bent([_degrees(inner, known) for inner in value.args])


def _times(parts: list[Degrees]) -> Degrees:
    return {name: sp.Add(*(one.get(name, sp.Integer(0)) for one in parts)) for one in parts for name in one}


def _joined(parts: Sequence[Degrees]) -> Degrees:
    """Those of a sum: of terms that differ in a degree it has none."""
    names = {name: None for one in parts for name in one}
    each = {name: {one.get(name, sp.Integer(0)) for one in parts} for name in names}
    return {name: found.pop() if len(found) == 1 else sp.nan for name, found in each.items()}


def _bent(parts: list[Degrees]) -> Degrees:
    """Those of a function that is not homogeneous."""
    return {name: sp.nan for one in parts for name, degree in one.items() if degree != 0}


Walk = Callable[[sp.Expr], Degrees]


def _sum(value: sp.Expr, walk: Walk, known: object) -> Degrees:
    return _joined([walk(term) for term in value.args if term != 0])


def _maximum(value: sp.Expr, walk: Walk, known: object) -> Degrees:
    """Those of what relu acts on, the larger of which and 0 it is; another maximum is not homogeneous."""
    rest = [walk(term) for term in value.args if term != 0]
    return _joined(rest) if 0 in value.args else _bent(rest)


def _power_of(value: sp.Expr, walk: Walk, known: object) -> Degrees:
    base = walk(value.base)
    return {name: degree * value.exp for name, degree in base.items()} if value.exp.is_Rational else _bent([base])


def _of_matrix(value: MatVec, walk: Walk, known: object) -> Degrees:
    matrix: Matrix = value.matrix.args[0] if isinstance(value.matrix, Transpose) else value.matrix
    return _times([{matrix.name: sp.Integer(1)}, walk(value.vector)])


RULES: dict[type, Callable[..., Degrees]] = {
    Vector: lambda value, walk, known: known.get((Vector, value.name), {}),
    MatVec: _of_matrix,
    Outer: lambda value, walk, known: _times([walk(value.left), walk(value.right)]),
    Mean: lambda value, walk, known: walk(value.args[0]),
    HeadSum: lambda value, walk, known: walk(value.args[0]),
    HeadTurn: lambda value, walk, known: walk(value.args[0]), HeadTable: lambda value, walk, known: {},
    sp.Sum: lambda value, walk, known: walk(value.function),
    sp.Add: _sum, sp.Max: _maximum, sp.Pow: _power_of,
    sp.Mul: lambda value, walk, known: _times([walk(factor) for factor in value.args]),
    sp.Heaviside: lambda value, walk, known: {},
    sp.Symbol: lambda value, walk, known: {},
}
