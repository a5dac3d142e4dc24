"""What updates of a block's matrices do to the block together: which products of two of them its value has."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Iterable, Mapping

import sympy as sp

from ..gaussian.scalar_functions import H, scalar_function
from ..parametrizations import DepthScaling
from ..programs import SGD
from ..programs.language import LossDerivative, MatVec, Mean, Scalar, Transpose, Vector
from .counted import Judged, counted_program

Pair = tuple[str, str]
SMOOTH, KINK = "smooth", "kink"


@dataclass(frozen=True)
class Jet:
    """A vector's Taylor expansion in the updates: whose it has at first order, and which pairs at second, and how."""

    first: frozenset[str] = frozenset()
    second: Mapping[Pair, str] = field(default_factory=dict)


def _pairs(one: Iterable[str], other: Iterable[str]) -> set[Pair]:
    return {(min(a, b), max(a, b)) for a in one for b in other}


@lru_cache(maxsize=64)
def block_jet(net: Judged) -> Jet:
    """The expansion of what a layer adds to the stream, statement by statement, from a stream that no update changes;
    each of several sublayers from its own input."""
    streams = {one.name for families in net.carried for one in families}
    locations = counted_program(net, SGD(), DepthScaling()).locations()
    known = {v: Jet(frozenset([v.name])) for location in locations for v in location.statement.value.atoms(Vector)
             if v.name in net.vectors_of_block}
    added: list[Jet] = []
    for location in locations:
        one = location.statement
        if one.value.has(LossDerivative):
            break
        if isinstance(one.target, Scalar) or len(location.loops) < 2:
            continue
        jet = _jet(one.value, known)
        if one.target.name in streams:
            added.append(jet)
        else:
            known[one.target] = jet
    return Jet(frozenset().union(*(jet.first for jet in added)), _joined(*(jet.second for jet in added)))


def _joined(*several: Mapping[Pair, str]) -> dict[Pair, str]:
    """Pairs that any of several has; one that has a kink in any has it."""
    return {pair: KINK if KINK in (one.get(pair) for one in several) else SMOOTH for one in several for pair in one}


def _jet(value: sp.Expr, known: Mapping[sp.Expr, Jet]) -> Jet:
    """The jet of an expression in vectors, products and averages: the chain rule to second order."""
    leaves = _outermost(value)
    symbols = {leaf: sp.Symbol(f"leaf{i}", real=True) for i, leaf in enumerate(leaves)}
    outside = value.xreplace(symbols)
    jets = {symbols[leaf]: _leaf(leaf, known) for leaf in leaves}
    first: set[str] = set()
    second: list[Mapping[Pair, str]] = []
    moving = {s: jet for s, jet in jets.items() if jet.first or jet.second}
    for s, jet in moving.items():
        if sp.diff(outside, s) != 0:
            first |= jet.first
            second.append(jet.second)
    for s, r in combinations_with_replacement(moving, 2):
        how = _bends(outside, s, r)
        second.append(dict.fromkeys(_pairs(moving[s].first, moving[r].first), how) if how else {})
    return Jet(frozenset(first), _joined(*second))


def _bends(outside: sp.Expr, s: sp.Symbol, r: sp.Symbol) -> str:
    """Is a function curved in two of its arguments, and is it by a kink alone?"""
    if s == r and any(_has_kinks(f, s) for f in _functions(outside, s)):
        return KINK
    return SMOOTH if sp.diff(sp.diff(outside, s), r) != 0 else ""


def _functions(outside: sp.Expr, s: sp.Symbol) -> list[sp.Expr]:
    return [f for f in outside.atoms(sp.Function, sp.Max, sp.Min, sp.Abs, sp.Piecewise) if f.has(s)]


def _has_kinks(f: sp.Expr, s: sp.Symbol) -> bool:
    others = {x: sp.Integer(1) for x in f.free_symbols - {s}}
    return bool(scalar_function(f.subs(others).subs(s, H)).has_kinks)


def _outermost(value: sp.Expr) -> list[sp.Expr]:
    """Vectors, products with matrices, and averages, none inside another."""
    if isinstance(value, (Vector, MatVec, Mean)):
        return [value]
    return list(dict.fromkeys(leaf for arg in value.args for leaf in _outermost(arg)))


def _leaf(leaf: sp.Expr, known: Mapping[sp.Expr, Jet]) -> Jet:
    if isinstance(leaf, Mean):
        return _jet(leaf.args[0], known)
    if isinstance(leaf, MatVec):
        matrix = leaf.matrix.args[0] if isinstance(leaf.matrix, Transpose) else leaf.matrix
        inner = _jet(leaf.vector, known)
        own = dict.fromkeys(_pairs([matrix.name], inner.first), SMOOTH)
        return Jet(inner.first | {matrix.name}, _joined(inner.second, own))
    return known.get(leaf, Jet())


def pair_power(how: str, one: sp.Expr, other: sp.Expr) -> sp.Expr:
    """The power of L of what two updates do together, when one does L^one and the other L^other by themselves.

    A smooth function has the product. One that is straight but for a kink has the smaller change, where the larger one
    crosses the kink: with its root in mean square, which is what counts.
    """
    return one + other if how == SMOOTH else sp.Min(one, other) + sp.Max(one, other) / 2


def second_order(net: Judged, updates: Mapping[str, sp.Expr]) -> dict[str, tuple[sp.Expr, tuple[str, ...]]]:
    """For every matrix the power of L of the ratio of the second-order to the first-order part of its effect on the
    block, -oo where there is none, as where nothing moves it, and the matrices with whose updates it has it.

    updates: powers of L of what updates do to what their matrix acts on. Source: Tensor Programs VI, appendix K
    [tensor_programs_vi/appendix_k].
    """
    jet, found = block_jet(net), {}
    for name in net.trained_of_block:
        ratios = {(set(pair) - {name} or {name}).pop(): pair_power(how, *(updates[w] for w in pair)) - updates[name]
                  for pair, how in jet.second.items() if name in pair and updates[name] != -sp.oo}
        most = max(ratios.values(), default=-sp.oo)
        found[name] = (most, tuple(sorted(w for w, ratio in ratios.items() if ratio == most)))
    return found


def linearization(net: Judged, branch: sp.Expr, updates: Mapping[str, sp.Expr]) -> sp.Expr:
    """The power of L of what a layer is wrong by in which only the first order of its updates is kept.

    branch: the power of L of the branch multiplier.
    """
    return max((branch + pair_power(how, *(updates[w] for w in pair)) for pair, how in block_jet(net).second.items()),
               default=-sp.oo)
