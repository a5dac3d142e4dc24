"""Loops that explode, since they do not stay bounded: which unknowns grow, and how fast.

At the values of a round every part is a maximum of linear forms in the parts of the sweep's unknowns: a graph with
weights, in which a cycle of positive weight grows without end. It multiplies by exp(L^v) over all layers, v the largest
mean weight of a cycle a layer passed: a stream passes one where a layer adds coherently, half of one where it adds
independently, for it is squares that add up then.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Iterable, Mapping

from ..orders.cycles import positive_cycle
from .graph import Enters, GraphNode, TermEntry
from .forms import Forms, Part, Values
from .parts import LARGE, LEAST, MEAN, STREAM, Label, Parts, Unknown, in_stream, sum_of_values

if TYPE_CHECKING:
    from .solution import SizeSolution
    from .solving import UnknownSweep

Edges = dict[tuple[Part, Part, int], int]  # to, from, halves of layers passed
MOST = 40


class Cycles:
    """The loops of a sweep in which negative powers are held; infinite: the parts that explode already."""

    def __init__(self, at: SizeSolution, sweep: UnknownSweep, held: Mapping[Unknown, Parts | None],
                 infinite: Mapping[Unknown, Parts] | None = None) -> None:
        self.point, self.sweep, self.inside = at, sweep, frozenset(sweep.plain)
        self.current: Mapping[Part, int] = {}
        self.infinite = {(key, label) for key, parts in (infinite or {}).items() for label in parts}
        self.labels: dict[Unknown, set[Label]] = {key: set() for key in sweep.plain}
        for key, known in held.items():
            at.table[key] = {MEAN: 0} if known is None else known
        at.forget_values(sweep.all)

    def find(self) -> tuple[list[Part], Fraction | None]:
        """The parts of a cycle of positive weight, and the v of exp(L^v); none where there is none."""
        current: Values = {}
        settled = False
        for _ in range(MOST):
            edges, alone = self.linear(current)
            new = {(key, label) for key, label in [*alone, *(to for to, _, _ in edges)]
                   if label not in self.labels[key]}
            for key, label in new:
                self.labels[key].add(label)
            values, cycle = longest(edges, alone)
            if settled and cycle:
                return cycle, self.rate(edges, alone)
            if not new and not settled:  # all parts are known: from the start
                settled, current = True, {}
            elif values == current:
                break
            elif not cycle:
                current = values
        return [], None

    def through(self, keys: Iterable[Unknown]) -> list[Part]:
        """A cycle of weight 0, or more, through one of some unknowns, at the values that there are."""
        chosen = set(keys)
        current = {(key, label): value for key in self.sweep.plain
                   for label, value in (self.point.table.get(key) or {MEAN: 0, STREAM: 0}).items()}
        edges: Edges = {}
        alone: Values = {}
        for _ in range(MOST):
            for key, label in current:
                self.labels[key].add(label)
            edges, alone = self.linear(current)
            new = {to: 0 for to, _, _ in edges if to not in current}
            if not new:
                break
            current |= new
        raised = {location: weight + 2 * (location[0][0] in chosen) for location, weight in edges.items()}
        return longest(raised, {part: 0 for location in raised for part in location[:2]} | alone)[1]

    def rate(self, edges: Edges, alone: Values) -> Fraction | None:
        """The largest mean weight of a cycle a layer: a number is at least that if no cycle is positive once it is
        taken from every layer; one that is positive has a larger mean, which is the next number."""
        found = Fraction(0)
        for _ in range(MOST):
            _, cycle = longest(edges, alone, found)
            if not cycle:
                return found
            weight, halves = Fraction(0), 0
            for start, end in zip(cycle, [*cycle[1:], cycle[0]]):
                over, passed, own = max((_over(w, p, found), p, w) for (to, of, p), w in edges.items()
                                        if to == end and of == start)
                weight, halves = weight + own + (own & 1), halves + passed
            if not halves:
                return None
            larger = weight * 2 / halves
            if larger <= found:
                return found
            found = larger
        return None

    def linear(self, current: Values) -> tuple[Edges, Values]:
        """The graph of a round, at values of the round before: weights of edges from part to part of the sweep, and the
        largest value that enters every part from outside."""
        memo: dict[int, Forms] = {}
        self.current = current
        edges: Edges = {}
        alone: Values = {}
        for key in self.sweep.plain:
            for entry in self.point.entries(key):
                for label, form in self.forms(entry.node, memo).items():
                    for to, gain, passed in self._entering(entry, label):
                        for source, weight in form.items() if (key, to) not in self.infinite else ():
                            if source is None:
                                alone[key, to] = max(alone.get((key, to), LEAST), sum_of_values(weight, gain))
                            else:
                                location = (key, to), source, passed
                                edges[location] = max(edges.get(location, LEAST), sum_of_values(weight, gain))
        return edges, alone

    def _entering(self, entry: TermEntry, label: Label) -> list[tuple[Label, int, int]]:
        if entry.enters == Enters.PLAIN:
            return [(label, 0, 0)]
        return [(to, gain, 2 if layers and entry.enters == Enters.LAYERS else 1 if entry.enters == Enters.LAYERS else 0)
                for to, gain, layers in self._targets(entry, label)]

    def _targets(self, entry: TermEntry, label: Label) -> Iterable[tuple[Label, int, bool]]:
        probe = 2  # tells a whole gain from half of one where layers count as nothing
        gain = self.point.gain(entry)
        return [] if gain is None else [(to, gain if more == probe else gain // 2, more == probe)
                                        for to, more in in_stream(label, probe)]

    def forms(self, node: GraphNode, memo: dict[int, Forms]) -> Forms:
        if node.number not in memo:
            if node.refs.isdisjoint(self.inside):
                memo[node.number] = {label: {None: value} for label, value in self.point.value(node).items()}
            else:
                memo[node.number] = node.forms(self, [self.forms(kid, memo) for kid in node.kids])
        return memo[node.number]

    def labels_of(self, key: Unknown) -> set[Label]:
        return self.labels[key]


def _over(weight: int, halves: int, rate: Fraction) -> int | Fraction:
    """A weight less so much a layer; bounds count as what they bound."""
    return weight + (weight & 1) - (rate * halves / 2 if rate else 0)


def longest(edges: Edges, alone: Values, rate: Fraction = Fraction(0)) -> tuple[Values, list[Part]]:
    """The largest values that pass along all edges; or a cycle of positive weight, in the order in which it passes."""
    parts = list(dict.fromkeys([*alone, *(part for to, of, _ in edges for part in (to, of))]))
    number = {part: i for i, part in enumerate(parts)}  # numbers are compared faster than parts
    unit = 2 * rate.denominator if rate else 1  # and whole numbers faster than fractions
    values = [alone.get(part, LEAST) * unit for part in parts]
    over = [(number[to], number[of], (weight + (weight & 1)) * unit - rate.numerator * halves)
            for (to, of, halves), weight in edges.items()]
    cycle = positive_cycle(values, over, LEAST * unit, LARGE * unit)
    found = {part: value // unit for part, value in zip(parts, values) if value > LEAST * unit}
    return found, [parts[over[i][0]] for i in reversed(cycle)]
