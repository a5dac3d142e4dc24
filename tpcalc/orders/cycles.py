"""How fast a sweep grows whose loops do not stay bounded: exp(L^v), v the largest mean weight of a cycle.

It is squares that are followed. A square of a stream passes two layers where a layer adds coherently (first one factor
grows, then the other), one where it adds independently; a covariance is a square, and passes a layer where it is a sum
over base layers. At a point of the parameters the largest mean weight is that of closed walks; its affine form is taken
there, and then where each of the forms found is the largest, until no other comes up.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Sequence

from .affine import Affine
from .exponent import EXPLODES, Exponent
from .quantities import Quantity, Sort
from .region import Region
from .terms import Contribution

Pair = tuple[Quantity, Quantity]
Loops = dict[Pair, Exponent]
Weights = dict[Pair, tuple[Fraction, Affine]]  # value at a point, and as a form


def passed(one: Contribution) -> int:
    """How many layers the square of a term's target passes with it."""
    if _is_square(one.target):
        return int(one.rule == "base layers")
    return {"layers": 2, "independent layers": 1}.get(one.rule, 0)


def growth(region: Region, by_layers: Sequence[Loops]) -> Exponent:
    """The v of exp(L^v) on a region; ``EXPLODES`` where covariances and other quantities feed each other faster than
    either alone, for which there is no rule.

    by_layers: what quantities are of each other by terms that pass 0, 1, 2 layers.
    """
    found = _largest(region, by_layers)
    alike = [{(u, f): weight for (u, f), weight in loops.items() if _is_square(u) == _is_square(f)}
             for loops in by_layers]
    return found if found == _largest(region, alike) else EXPLODES


def _is_square(quantity: Quantity) -> bool:
    return quantity.sort == Sort.COVARIANCE


def _largest(region: Region, by_layers: Sequence[Loops]) -> Exponent:
    forms: set[Affine] = set()
    parts = [region]
    while parts:
        point = parts.pop().point()
        found = None if point is None else _at(point, by_layers)
        if found is not None and found not in forms:
            forms.add(found)
            parts = [_where_largest(region, form, forms) for form in sorted(forms)]
    return Exponent(frozenset(forms)).pruned(region)


def _where_largest(region: Region, form: Affine, forms: set[Affine]) -> Region:
    for other in forms - {form}:
        region = region.where(form - other, ">")
    return region


def _at(point: Sequence[Fraction], by_layers: Sequence[Loops]) -> Affine | None:
    """The largest mean weight at a point, as a form; None where nothing comes round."""
    inside, one, two = (_squared(loops, point) for loops in by_layers)
    nodes = {u for u, _ in (*one, *two)}
    inside = _within_a_layer(inside)
    one, two = (_larger(edges, _after(edges, inside)) for edges in (one, two))
    zero = Affine.number(0, len(point))
    walks: list[Weights] = [{}, {(u, u): (Fraction(0), zero) for u in nodes}]
    best: tuple[Fraction, Affine] | None = None
    for layers in range(1, 2 * len(nodes) + 1):
        walks = [walks[1], _larger(_after(one, walks[1]), _after(two, walks[0]))]
        for (u, f), (value, form) in walks[1].items():
            if u == f and (best is None or value / layers > best[0]):
                best = value / layers, form * Fraction(1, layers)
    return None if best is None else best[1]


def _squared(loops: Loops, point: Sequence[Fraction]) -> Weights:
    found: Weights = {}
    for (u, f), exponent in loops.items():
        forms = exponent.forms if _is_square(u) else exponent.power(Fraction(2)).forms
        if forms:
            found[u, f] = max((form.at(point), form) for form in forms)
    return found


def _within_a_layer(edges: Weights) -> Weights:
    """All walks that pass no layer; none of them comes round."""
    found = {pair: weight for pair, weight in edges.items() if pair[0] != pair[1]}
    for middle in sorted({u for u, _ in found}):
        into = {pair: weight for pair, weight in found.items() if pair[1] == middle}
        out = {pair: weight for pair, weight in found.items() if pair[0] == middle}
        through = _after(into, out)
        found = _larger(found, {pair: weight for pair, weight in through.items() if pair[0] != pair[1]})
    return found


def _after(one: Weights, other: Weights) -> Weights:
    """The heaviest walks through ``other``, then ``one``."""
    by_row: dict[Quantity, list[tuple[Quantity, tuple[Fraction, Affine]]]] = {}
    for (row, column), weight in other.items():
        by_row.setdefault(row, []).append((column, weight))
    found: Weights = {}
    for (row, middle), (value, form) in one.items():
        for column, (more, beyond) in by_row.get(middle, ()):
            if (row, column) not in found or value + more > found[row, column][0]:
                found[row, column] = value + more, form + beyond
    return found


def _larger(one: Weights, other: Weights) -> Weights:
    return {**one, **{pair: weight for pair, weight in other.items()
                      if pair not in one or weight[0] > one[pair][0]}}
