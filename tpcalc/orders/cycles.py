"""How fast a sweep grows whose loops do not stay bounded: exp(L^v), v the largest mean weight of a cycle.

It is squares that are followed. A square of a stream passes two layers where a layer adds coherently (first one factor
grows, then the other), one where it adds independently; a covariance is a square, and passes a layer where it is a sum
over base layers. At a point of the parameters the heaviest cycle is found, as an affine form, and then at the corners
of where each of the forms found is the largest, until no other comes up.
"""

from __future__ import annotations

from fractions import Fraction
from functools import reduce
from itertools import combinations
from math import inf, lcm
from operator import add
from typing import Any, Iterator, NamedTuple, Sequence

from .affine import EXPLODES, Affine, Condition, Contribution, Exponent, Region
from .quantities import Quantity, Sort


class Edge(NamedTuple):
    """What a quantity's square is made of: another's, by a term that passes layers and others that pass none."""

    start: Quantity
    end: Quantity
    layers: int
    value: Fraction
    form: Affine


FAR = 1000  # exponents beyond are nobody's
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
    heaviest: dict[tuple[Fraction, ...], Affine | None] = {}  # at corners
    whole = _within(region)
    while True:
        forms = {form for form in heaviest.values() if form is not None}
        corners = {corner for cell in _where_largest(whole, forms) for corner in _corners(cell)}
        if corners <= heaviest.keys():
            return Exponent(frozenset(forms)).pruned(region)
        heaviest |= {corner: _at(corner, by_layers) for corner in corners - heaviest.keys()}


def _within(region: Region) -> Region:
    """The region with its boundary, as far as powers of L are meant."""
    closed = Region(region.size, tuple(Condition(one.form, False) for one in region.conditions))
    for number in range(region.size):
        coordinate = Affine(tuple(Fraction(i == number) for i in range(region.size)), Fraction(0))
        for side in (coordinate, coordinate * -1):
            closed = closed.where(side + Affine.number(FAR, region.size), ">=")
    return closed


def _where_largest(region: Region, forms: set[Affine]) -> list[Region]:
    """The parts of a region on which each of the forms is the largest. The mean of every cycle being affine, one that
    exceeds a form somewhere on its part does so at a corner of it."""
    parts = []
    for form in forms:
        part = region
        for other in forms - {form}:
            part = part.where(form - other, ">=")
        parts.append(part)
    return parts or [region]


def _corners(region: Region) -> Iterator[tuple[Fraction, ...]]:
    """The corners of a bounded region, each where as many forms as there are parameters vanish."""
    for some in combinations(region.conditions, region.size):
        point = _crossing([one.form for one in some])
        if point is not None and region.contains(point):
            yield point


def _crossing(forms: Sequence[Affine]) -> tuple[Fraction, ...] | None:
    """The point where as many forms as there are parameters vanish; None where it is not one point."""
    rows = [[*form.slopes, -form.constant] for form in forms]
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [entry / rows[k][k] for entry in rows[k]]
        rows = [row if i == k or not row[k] else [one - row[k] * other for one, other in zip(row, rows[k])]
                for i, row in enumerate(rows)]
    return tuple(row[-1] for row in rows)


def _at(point: Sequence[Fraction], by_layers: Sequence[Loops]) -> Affine | None:
    """The largest mean weight at a point, as a form; None where nothing comes round.

    A number is at least the largest mean if no cycle is positive once it is taken from every layer; one that is
    positive has a larger mean, which is the next number.
    """
    inside, *passing = (_squared(loops, point) for loops in by_layers)
    inside = _within_a_layer(inside)
    edges = [Edge(f, u, layers, value, form) for layers, some in enumerate(passing, 1)
             for (u, f), (value, form) in _larger(some, _after(some, inside)).items()]
    least = -sum((abs(edge.value) for edge in edges), Fraction(1))
    best = None
    while cycle := _positive(edges, least):
        layers = sum(edge.layers for edge in cycle)
        least = sum((edge.value for edge in cycle), Fraction(0)) / layers
        best = reduce(add, (edge.form for edge in cycle)) * Fraction(1, layers)
    return best


def _positive(edges: Sequence[Edge], mean: Fraction) -> list[Edge]:
    """A cycle of more than so much a layer, or none: the walks of so many edges as there are nodes come round."""
    nodes = dict.fromkeys(node for edge in edges for node in (edge.start, edge.end))
    number = {node: i for i, node in enumerate(nodes)}
    over = [edge.value - mean * edge.layers for edge in edges]
    unit = lcm(*(one.denominator for one in over))
    return [edges[i] for i in positive_cycle([0] * len(nodes), [
        (number[edge.end], number[edge.start], int(one * unit)) for edge, one in zip(edges, over)])]


def positive_cycle(values: list[Any], edges: Sequence[tuple[int, int, Any]], least: float = -inf, most: float = inf
                   ) -> list[int]:
    """Pass values along edges (to, of, weight), in place, until they stay; or a cycle that raises them for ever, as the
    numbers of its edges, the last first. Values that are not between ``least`` and ``most`` are not passed on."""
    last: dict[int, int] = {}
    raised: int | None = None
    for _ in range(len(values) + 2):
        raised = None
        for number, (to, of, weight) in enumerate(edges):
            value = values[of]
            if least < value < most and value + weight > values[to]:
                values[to] = value + weight
                last[to], raised = number, to
        if raised is None:
            return []
    assert raised is not None
    for _ in values:  # back to where the walk comes round
        raised = edges[last[raised]][1]
    cycle = [last[raised]]
    while edges[cycle[-1]][1] != raised:
        cycle.append(last[edges[cycle[-1]][1]])
    return cycle


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
    return {**one, **{pair: weight for pair, weight in other.items() if pair not in one or weight[0] > one[pair][0]}}
