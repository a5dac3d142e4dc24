"""A layer's Taylor expansion in its updates, and how large products of two of them are."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Iterable, Iterator, Mapping

import sympy as sp

from ..calculus.setting import Setting
from ..gaussian.scalar_functions import H, scalar_function
from ..limits.inlining import trained_vectors
from ..optimizers import SGD
from ..programs.language import LossDerivative, MatVec, Mean, Transpose, Vector
from ..programs.program import Assign, Program
from ..scaling import DepthScaling
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
def layer_jet(program: Program) -> Jet:
    """The expansion of what a layer adds to the streams, statement by statement, from streams that no update changes;
    each of several sublayers from its own input. Trained vectors are updates of their own."""
    trained, depth = trained_vectors(program), Setting.of(program).depth
    layer = list(_forward_in_layers(program, depth))
    streams = {v.name for one in layer for v in one.value.atoms(Vector)  # what a later layer reads
               if v.indices[-1:] != one.target.indices[-1:] and any(v.name == other.target.name for other in layer)}
    known: dict[sp.Expr, Jet] = {}
    added: list[Jet] = []
    for one in layer:
        known.update({v: Jet(frozenset([v.name])) for v in one.value.atoms(Vector) if v.name in trained})
        jet = _jet(one.value, known)
        if one.target.name in streams or _hands_on(one, streams, depth):
            streams.add(one.target.name)
            added.append(jet)
        else:
            known[one.target] = jet
    return Jet(frozenset().union(*(jet.first for jet in added)), joined_pairs(*(jet.second for jet in added)))


def _forward_in_layers(program: Program, depth: sp.Symbol | None) -> Iterator[Assign]:
    """The statements of a layer of the forward pass that make vectors."""
    for location in program.locations():
        one = location.statement
        if one.value.has(LossDerivative):
            return
        over = {loop.index for loop in location.loops if loop.last.has(depth) or loop.first.has(depth)}
        if isinstance(one.target, Vector) and one.target.free_symbols & over:
            yield one


def _hands_on(one: Assign, streams: set[str], depth: sp.Symbol | None) -> bool:
    """Does a statement hand on streams, multiples of them perhaps, to which it adds nothing but what is small in the
    depth? It makes one in the middle of a layer then."""
    terms = sp.Add.make_args(sp.expand(one.value))
    bare = [term.as_coeff_Mul()[1] for term in terms]
    handed = [isinstance(v, Vector) and v.name in streams for v in bare]
    return any(handed) and all(is_handed or term.has(depth) for term, is_handed in zip(terms, handed))


def joined_pairs(*several: Mapping[Pair, str]) -> dict[Pair, str]:
    """Pairs that any of several has; one that has a kink in any has it, which is no less."""
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
    return Jet(frozenset(first), joined_pairs(*second))


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
        return Jet(inner.first | {matrix.name}, joined_pairs(inner.second, own))
    return known.get(leaf, Jet())


def pair_power(how: str, one: sp.Expr, other: sp.Expr) -> sp.Expr:
    """The power of L of what two updates do together, when one does L^one and the other L^other by themselves.

    A smooth function has the product. One that is straight but for a kink has the smaller change, where the larger one
    crosses the kink: with its root in mean square, which is what counts.
    """
    return one + other if how == SMOOTH else sp.Min(one, other) + sp.Max(one, other) / 2


@lru_cache(maxsize=64)
def block_jet(net: Judged) -> Jet:
    """The expansion of what a layer of a network adds to its streams; the program that says it is written once."""
    return layer_jet(counted_program(net, SGD(), DepthScaling()))


def second_order(jet: Jet, updates: Mapping[str, sp.Expr]) -> dict[str, tuple[sp.Expr, tuple[str, ...]]]:
    """For every matrix the power of L of the ratio of the second-order to the first-order part of its effect on the
    block, -oo where there is none, as where nothing moves it, and the matrices with whose updates it has it.

    jet: the block's; updates: powers of L of what updates do to what their matrix acts on. Source: Tensor Programs VI,
    appendix K [tensor_programs_vi/appendix_k].
    """
    found = {}
    for name in updates:
        ratios = {(set(pair) - {name} or {name}).pop(): pair_power(how, *(updates[w] for w in pair)) - updates[name]
                  for pair, how in jet.second.items() if name in pair and updates[name] != -sp.oo}
        most = max(ratios.values(), default=-sp.oo)
        found[name] = (most, tuple(sorted(w for w, ratio in ratios.items() if ratio == most)))
    return found
