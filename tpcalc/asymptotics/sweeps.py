"""The unknowns of a training step in the order in which they are solved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Mapping, Sequence

from sympy.utilities.iterables import strongly_connected_components

from .entries import TermEntry
from .graph import GraphNode, Over
from .unknowns import SHRINK, Unknown


@dataclass(frozen=True)
class UnknownSweep:
    """Unknowns that depend on each other, or one alone.

    plain: all but negative powers; shrinks: these; cyclic: do they depend on each other, or on themselves? nodes: those
    that change with them, by the unknown that reads them, each after what it is made of; all: all such nodes.
    """

    plain: tuple[Unknown, ...]
    shrinks: tuple[Unknown, ...]
    cyclic: bool
    nodes: Mapping[Unknown, tuple[GraphNode, ...]]
    all: tuple[GraphNode, ...]

    @cached_property
    def normed(self) -> bool:
        """Is anything in it divided by a size in it, so that values may fall again?"""
        return any(isinstance(node, Over) for node in self.all)

    @property
    def keys(self) -> tuple[Unknown, ...]:
        return (*self.plain, *self.shrinks)


def sweeps_of(keys: Sequence[Unknown], entries: Mapping[Unknown, Sequence[TermEntry]], graph: Sequence[GraphNode]
              ) -> list[UnknownSweep]:
    """Each after what it depends on."""
    inside = set(keys)
    reads = {key: {ref for entry in entries[key] for ref in entry.node.refs if ref in inside} for key in keys}
    location = {key: number for number, key in enumerate(keys)}
    edges = [(key, ref) for key in keys for ref in sorted(reads[key], key=location.__getitem__)]
    found = []
    for together in strongly_connected_components((list(keys), edges)):
        chosen = sorted(together, key=location.__getitem__)
        own = frozenset(chosen)
        cyclic = len(chosen) > 1 or chosen[0] in reads[chosen[0]]
        nodes = {key: _changing([entry.node for entry in entries[key]], own) for key in chosen} if cyclic else {}
        touched = tuple(node for node in graph if not node.refs.isdisjoint(own)) if cyclic else ()
        found.append(UnknownSweep(tuple(key for key in chosen if key.sort != SHRINK),
                                  tuple(key for key in chosen if key.sort == SHRINK), cyclic, nodes, touched))
    return found


def _changing(roots: Sequence[GraphNode], inside: frozenset[Unknown]) -> tuple[GraphNode, ...]:
    found: dict[int, GraphNode] = {}
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node.number not in found and not node.refs.isdisjoint(inside):
            found[node.number] = node
            waiting.extend(node.kids)
    return tuple(found[number] for number in sorted(found))
