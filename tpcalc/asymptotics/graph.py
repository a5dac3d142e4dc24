"""The graph in which sizes are evaluated: few operations, every node once, shared by all points of a plane.

A node's value is parts: an exponent for every label. Most operations only say which labels a part goes to; they are
read in the same way where parts are exponents and where they are linear forms in unknowns (``cycles.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Hashable, Iterable, Mapping, Protocol, Sequence, TypeVar

import sympy as sp

from ..orders.affine import Affine
from . import parts
from .forms import Form, Forms, Part, joined, product_of_forms, raised, to_power, value_of
from .parts import (KET, LARGE, MEAN, READOUT_BIT, Bend, Label, Parts, Unknown, exponent_of, fresh_in, label_of,
                    possible, random_in, sure_of)

T = TypeVar("T")
N = TypeVar("N", bound="GraphNode")


class Point(Protocol):
    """What values of nodes depend on: powers of L, parts of unknowns, which functions are saturated."""

    def weight(self, form: Affine) -> int: ...

    def parts(self, key: Unknown) -> Parts: ...

    def saturates(self, bend: Bend, linear: Parts) -> bool: ...

    def is_saturated(self, step: int) -> bool: ...


class Linear(Protocol):
    """What forms of nodes depend on besides: which parts unknowns have, and the values of a round."""

    current: Mapping[Part, int]

    @property
    def point(self) -> Point: ...

    def labels_of(self, key: Unknown) -> Iterable[Label]: ...


@dataclass(eq=False)
class GraphNode:
    """An operation on nodes; number: its place among all of them, after those it is made of.

    value: of values of these; forms: of linear forms in unknowns.
    """

    number: int
    kids: tuple["GraphNode", ...]
    refs: frozenset[Unknown] = frozenset()

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """Those of what it is made of."""
        return tuple(kid.number for kid in self.kids)

    def value(self, at: Point, kids: Sequence[Parts]) -> Parts:
        raise NotImplementedError

    def forms(self, at: Linear, kids: Sequence[Forms]) -> Forms:
        """The value of what reads no unknown."""
        return {label: {None: value} for label, value in self.value(at.point, []).items()}


@dataclass(eq=False)
class Constant(GraphNode):
    known: Parts = field(default_factory=dict)

    def value(self, at: Point, kids: Sequence[Parts]) -> Parts:
        return self.known


@dataclass(eq=False)
class Weight(GraphNode):
    """A power of L."""

    form: Affine = Affine((), 0)  # type: ignore[arg-type]

    def value(self, at: Point, kids: Sequence[Parts]) -> Parts:
        return {MEAN: at.weight(self.form)}


@dataclass(eq=False)
class Reference(GraphNode):
    """The parts of an unknown; normed: those of it over its own root mean square."""

    key: Unknown = Unknown(KET, 0, 0)
    normed: bool = False

    def value(self, at: Point, kids: Sequence[Parts]) -> Parts:
        found = at.parts(self.key)
        return dict.fromkeys(found, 0) if self.normed else found

    def forms(self, at: Linear, kids: Sequence[Forms]) -> Forms:
        return {label: {None: 0} if self.normed else {(self.key, label): 0} for label in at.labels_of(self.key)}


@dataclass(eq=False)
class Times(GraphNode):
    def value(self, at: Point, kids: Sequence[Parts]) -> Parts:
        return parts.product(*kids)

    def forms(self, at: Linear, kids: Sequence[Forms]) -> Forms:
        return product_of_forms(kids[0], kids[1], at.current)


@dataclass(eq=False)
class Union(GraphNode):
    def value(self, at: Point, kids: Sequence[Parts]) -> Parts:
        return parts.union(kids)

    def forms(self, at: Linear, kids: Sequence[Forms]) -> Forms:
        return joined((label, form) for kid in kids for label, form in kid.items())


@dataclass(eq=False)
class Routed(GraphNode):
    """An operation that gives every part other labels, or none."""

    def labels(self, label: Label) -> Sequence[Label]:
        raise NotImplementedError

    def value(self, at: Point, kids: Sequence[Parts]) -> Parts:
        return parts.union([{to: value} for label, value in kids[0].items() for to in self.labels(label)])

    def forms(self, at: Linear, kids: Sequence[Forms]) -> Forms:
        return joined((to, form) for label, form in kids[0].items() for to in self.labels(label))


@dataclass(eq=False)
class Sized(Routed):
    """The size of all parts as a number."""

    def labels(self, label: Label) -> Sequence[Label]:
        return (MEAN,)

    def value(self, at: Point, kids: Sequence[Parts]) -> Parts:
        return {MEAN: max(kids[0].values())} if kids[0] else {}


@dataclass(eq=False)
class Fresh(Routed):
    """A hat-ket, random in its source, and as all parts together of what its matrix multiplies are in the readouts."""

    source: int = 0

    def labels(self, label: Label) -> Sequence[Label]:
        return (fresh_in(self.source, label),)


@dataclass(eq=False)
class MeanNode(Routed):
    """What is not random for sure."""

    def labels(self, label: Label) -> Sequence[Label]:
        return () if sure_of(label) else (MEAN,)


@dataclass(eq=False)
class Centered(Routed):
    """All but the mean."""

    def labels(self, label: Label) -> Sequence[Label]:
        return random_in(label, ~READOUT_BIT)


@dataclass(eq=False)
class Leading(Routed):
    """The size of the parts that are random in nothing but these sources; shifted: a constant is among them."""

    sources: int = 0
    shifted: bool = False

    def labels(self, label: Label) -> Sequence[Label]:
        inside = not sure_of(label) & ~self.sources and (self.shifted or possible(label) & self.sources)
        return (MEAN,) if inside else ()


@dataclass(eq=False)
class Rest(Routed):
    """All parts but the leading ones."""

    sources: int = 0
    shifted: bool = False

    def labels(self, label: Label) -> Sequence[Label]:
        found = random_in(label, possible(label) & ~self.sources)
        return found if self.shifted or sure_of(label) else (*found, MEAN)


@dataclass(eq=False)
class OnLeading(GraphNode):
    """A function of the leading part of its argument alone; growth: the powers of it that its size is the largest of,
    none where it is bounded; some: what it is random in, in all or in some; odd: it has no mean; constant: it is not 0
    at 0, so that it stays where its argument vanishes.

    Of a bounded function that falls at both ends the other two nodes say how small it is in the root mean square, and
    in the mean."""

    growth: tuple[int, ...] = ()
    some: Label = MEAN
    odd: bool = False
    constant: bool = False

    def value(self, at: Point, kids: Sequence[Parts]) -> Parts:
        if not kids[0]:
            return {MEAN: 0} if self.constant else {}
        size: int | None = 0
        mean: int | None = 0
        if self.growth:
            size = mean = max(to_power(kids[0][MEAN], power) for power in self.growth)
        elif len(kids) > 1:
            size, mean = kids[1].get(MEAN), kids[2].get(MEAN)
        return {label: value for label, value in self.spread(size, mean) if value is not None}

    def forms(self, at: Linear, kids: Sequence[Forms]) -> Forms:
        if not kids[0]:
            return {MEAN: {None: 0}} if self.constant else {}
        form: Form = {None: 0}
        mean = form
        if self.growth:
            form = mean = raised(kids[0][MEAN], self.growth, at.current)
        elif len(kids) > 1:
            form, mean = kids[1].get(MEAN, {}), kids[2].get(MEAN, {})
        return joined((label, one) for label, one in self.spread(form, mean) if one)

    def spread(self, size: T, mean: T) -> list[tuple[Label, T]]:
        """Labels with what is random in them, and the mean."""
        if size == mean and not self.odd:
            return [(self.some, size)]
        random = [(label, size) for label in random_in(self.some, ~READOUT_BIT)]
        return random if self.odd else [*random, (MEAN, mean)]


@dataclass(eq=False)
class Capped(GraphNode):
    """What a bounded function is, and what it adds to what it is on the leading part: of order one where it is
    saturated.

    The nodes: the function of the leading part, none of a change; what would be added; what the function acts on then.
    It is as random for sure as all that is largest there, and what else may be random in it makes no more than a bound
    of a mean: the sign of what one matrix draws has no mean with what another one drew.
    has_limits: far out it goes to numbers, not both 0; else all of it is a bound alone; is_change: it is a change, from
    which goes what the function was before.
    """

    bend: Bend = Bend(0, "", 0)
    has_limits: bool = True
    is_change: bool = False

    def value(self, at: Point, kids: Sequence[Parts]) -> Parts:
        if not kids[1] or not at.saturates(self.bend, kids[1]):
            return parts.union(kids[:2])
        return parts.union([{label: value} for label, value in self.saturated(kids)])

    def forms(self, at: Linear, kids: Sequence[Forms]) -> Forms:
        if not kids[1] or not at.point.saturates(self.bend, {}):
            return joined((label, form) for kid in kids[:2] for label, form in kid.items())
        known = [{label: value for label, form in kid.items() if (value := value_of(form, at.current)) is not None}
                 for kid in kids]
        return joined((label, {None: value}) for label, value in self.saturated(known))

    def saturated(self, kids: Sequence[Parts]) -> list[tuple[Label, int]]:
        seen = kids[2]
        largest = max(map(exponent_of, seen.values()), default=0)
        sources, sure = self.bend.sources, ~0
        for label, value in seen.items():
            sources |= possible(label)
            if exponent_of(value) == largest:
                sure &= sure_of(label)
        cap = 0 if self.has_limits else -1
        before = [(label_of(0, self.bend.sources), cap)] if self.is_change and self.bend.sources else []
        return [(label_of(0, sources), -1), (label_of(sure & sources, sources), cap), *before]


@dataclass(eq=False)
class Over(GraphNode):
    """A term of a vector over this vector's root mean square: nothing cancels in the vector, so that the term is no
    larger. The second node has the vector."""

    def value(self, at: Point, kids: Sequence[Parts]) -> Parts:
        term, whole = kids
        largest = max(whole.values(), default=None)
        return {} if largest is None else {label: over(value, largest) for label, value in term.items()
                                           if largest < LARGE or value > LARGE}

    def forms(self, at: Linear, kids: Sequence[Forms]) -> Forms:
        """The values of the round: what is bounded grows in no loop."""
        known = [{label: value for label, form in side.items() if (value := value_of(form, at.current)) is not None}
                 for side in kids]
        return {label: {None: value} for label, value in self.value(at.point, known).items()}


def over(value: int, whole: int) -> int:
    """The value of a quotient that is at most of order one, a bound where neither is known."""
    return -1 if value > LARGE else min(value - 2 * exponent_of(whole), 0)


@dataclass(eq=False)
class Held(GraphNode):
    """A bracket with an initial vector: by its derivative in it (Stein), which is no guide to what stays bounded where
    a function is saturated; there as change times ket."""

    step: int = 0

    def value(self, at: Point, kids: Sequence[Parts]) -> Parts:
        return kids[0] if at.is_saturated(self.step) else kids[1]

    def forms(self, at: Linear, kids: Sequence[Forms]) -> Forms:
        return kids[0] if at.point.is_saturated(self.step) else kids[1]


class ExponentGraph:
    """Nodes, every one once."""

    def __init__(self) -> None:
        self.nodes: list[GraphNode] = []
        self._known: dict[Hashable, GraphNode] = {}
        self.fine = 1  # a multiple of all denominators of powers of L
        self.unit = self.constant(MEAN)
        self.nothing = self.node(Constant)

    def node(self, kind: type[N], *kids: GraphNode, **data: object) -> N:
        key = kind, tuple(kid.number for kid in kids), tuple(
            frozenset(value.items()) if isinstance(value, dict) else value for value in data.values())
        found = self._known.get(key)
        if found is None:
            refs: frozenset[Unknown] = frozenset().union(*(kid.refs for kid in kids))
            if isinstance(own := data.get("key"), Unknown):
                refs = frozenset((own,))
            found = self._known[key] = kind(len(self.nodes), kids, refs, **data)
            self.nodes.append(found)
        return found  # type: ignore[return-value]

    def constant(self, label: Label, value: int = 0) -> GraphNode:
        return self.node(Constant, known={label: value})

    def weight(self, form: Affine) -> GraphNode:
        self.fine = math.lcm(self.fine, *(x.denominator for x in (*form.slopes, form.constant)))
        return self.node(Weight, form=form)

    def times(self, *several: GraphNode) -> GraphNode:
        found = self.unit
        for one in several:
            if found is self.nothing or one is self.nothing:
                return self.nothing
            if found is self.unit or one is self.unit:
                found = one if found is self.unit else found
            else:
                found = self.node(Times, *sorted((found, one), key=lambda node: node.number))
        return found

    def union(self, many: Sequence[GraphNode]) -> GraphNode:
        some = list(dict.fromkeys(one for one in many if one is not self.nothing))
        return self.nothing if not some else some[0] if len(some) == 1 else self.node(Union, *some)

    def routed(self, kind: type[Routed], node: GraphNode, **data: object) -> GraphNode:
        return node if node is self.nothing else self.node(kind, node, **data)


class Enters(StrEnum):
    """How a term enters: as it is; a stream once; a stream, of its own layer; a stream in every layer."""

    PLAIN = "plain"
    ONCE = "once"
    BORN = "born"
    LAYERS = "layers"


@dataclass(frozen=True, eq=False)
class TermEntry:
    """A term of an unknown: the node of its size; equation, term: where it stands; update: it is there because of
    earlier training steps; damping: of a negative number times what it enters, that number's node."""

    target: Unknown
    node: GraphNode
    enters: Enters
    equation: int
    term: sp.Expr
    update: bool = False
    damping: GraphNode | None = None
