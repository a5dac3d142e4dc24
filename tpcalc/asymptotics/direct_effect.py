"""What updates do to what was there before them: changes in which all that does not change is as it was at first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..orders.affine import Affine
from .graph import GraphNode, TermEntry
from .parts import CHANGE, MEAN, SHRINK, Bend, Parts, Unknown, exponent_of, union

if TYPE_CHECKING:
    from .solution import SizeSolution


@dataclass
class DirectEffect:
    """Changes up to the last step of a solution, without what they do to each other round a loop.

    untouched: negative powers count as they do at first, where they are of order one, and a function as saturated
    where updates make large at once what it acts on.
    """

    solution: "SizeSolution"
    untouched: bool = False
    _moved: dict[Unknown, Parts] = field(default_factory=dict)
    _known: dict[int, Parts] = field(default_factory=dict)
    _found: dict[tuple[Unknown, frozenset[Unknown]], Parts] = field(default_factory=dict)

    def of(self, key: Unknown, seen: frozenset[Unknown] = frozenset()) -> Parts:
        """The parts of a change; seen: the changes that it is part of."""
        if (key, seen) not in self._found:
            inside = seen | {key}
            self._found[key, seen] = union([self.solution.entering(entry, self.of_entry(entry, inside))
                                            for entry in self.solution.entries(key)])
        return self._found[key, seen]

    def of_entry(self, entry: TermEntry, seen: frozenset[Unknown] = frozenset()) -> Parts:
        """The parts of a term of a change."""
        changes = [ref for ref in entry.node.refs if ref.sort == CHANGE]
        moved = {ref: {} if ref in seen else self.of(ref, seen) for ref in changes}
        self._moved = moved
        return self._value(entry.node)

    def _value(self, node: GraphNode) -> Parts:
        if any(ref.sort == CHANGE for ref in node.refs):
            return node.value(self, [self._value(kid) for kid in node.kids])
        if node.number not in self._known:
            self._known[node.number] = node.value(self, [self._value(kid) for kid in node.kids])
        return self._known[node.number]

    # What nodes ask.

    def parts(self, key: Unknown) -> Parts:
        if key.sort == CHANGE:
            return self._moved[key]
        if key.sort == SHRINK:
            return {MEAN: 0} if self.untouched else self.solution.table.get(key, {})
        base = key.base
        if base is not None and base.step > 0:
            base = type(base)(0, base.number, base.own)
        return self.solution.table.get(key._replace(step=0, base=base), {})

    def weight(self, form: Affine) -> int:
        return self.solution.weight(form)

    def saturates(self, bend: Bend, linear: Parts) -> bool:
        if self.untouched:
            return exponent_of(max(linear.values())) > 0
        return self.solution.saturates(bend, linear)

    def is_saturated(self, step: int) -> bool:
        return not self.untouched and self.solution.is_saturated(step)


class EffectOnOutputs(DirectEffect):
    """What changes do to outputs, which read vectors that do not change."""

    def of(self, key: Unknown, seen: frozenset[Unknown] = frozenset()) -> Parts:
        if key.sort == CHANGE:
            return DirectEffect(self.solution, self.untouched).of(key, seen)
        return super().of(key, seen)

    def is_saturated(self, step: int) -> bool:
        return True  # an output changes by the change that it reads
