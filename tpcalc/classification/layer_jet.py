"""A layer's Taylor expansion in its updates: which of them it has at first order, and which pairs of them at second."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Iterable, Mapping

import sympy as sp

from ..calculus.setting import Setting
from ..gaussian.scalar_functions import H, scalar_function
from ..limits.trained_vectors import trained_vectors
from ..programs.language import LossDerivative, MatVec, Mean, Transpose, Vector
from ..programs.program import Assign, Program

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
def layer_jet(program: Program) -> Jet:
    """The expansion of what a layer adds to the streams, statement by statement, from streams that no update changes;
    each of several sublayers from its own input. Trained vectors are updates of their own."""
    trained, streams = trained_vectors(program), set[str]()
    depth = Setting.of(program).depth
    known: dict[sp.Expr, Jet] = {}
    added: list[Jet] = []
    for location in program.locations():
        one = location.statement
        if one.value.has(LossDerivative):
            break
        if not isinstance(one.target, Vector) or not one.target.free_symbols & {
                loop.index for loop in location.loops if loop.last.has(depth) or loop.first.has(depth)}:
            continue
        known.update({v: Jet(frozenset([v.name])) for v in one.value.atoms(Vector) if v.name in trained})
        jet = _jet(one.value, known)
        if _is_stream(one, streams, depth):
            streams.add(one.target.name)
            added.append(jet)
        else:
            known[one.target] = jet
    return Jet(frozenset().union(*(jet.first for jet in added)), _joined(*(jet.second for jet in added)))


def _is_stream(one: Assign, streams: set[str], depth: sp.Symbol | None) -> bool:
    """Does a statement hand on a stream, that of the layer before or one in the middle of this layer, to which it adds
    nothing but what is small in the depth?"""
    target, terms = one.target, sp.Add.make_args(sp.expand(one.value))
    if any(v.name == target.name and v != target for v in one.value.atoms(Vector)):
        return True
    handed = []
    for term in terms:
        number, v = term.as_independent(Vector, as_Add=False)
        if number.is_number and isinstance(v, Vector) and (v.name in streams or v.indices[-1] != target.indices[-1]):
            handed.append(term)
    return bool(handed) and all(term in handed or term.has(depth) for term in terms)


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
