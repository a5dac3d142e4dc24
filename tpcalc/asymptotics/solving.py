"""A step's unknowns in the order in which they are solved, and one sweep's exponents: from below, until they settle.

The least solution of equations over sums and maxima is what values tend to that start from nothing and are put in until
they stay. Where a cycle has a positive weight they would go on for ever: what is on it explodes, and the rest goes on.
Negative powers are held, first at order one, or at what they were the step before, which bounds all others from above;
then at what these bounds make of them, which bounds from below, and so on, until two in turn are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Mapping, Sequence

from sympy.utilities.iterables import strongly_connected_components

from ..errors import NotCovered
from .cycles import Cycles
from .graph import GraphNode, Over, TermEntry
from .parts import INFINITE, MEAN, SHRINK, Parts, Unknown, is_infinite, union

if TYPE_CHECKING:
    from .solution import SizeSolution


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


ROUNDS = 12  # after which loops are looked for that grow
MOST_ROUNDS = 600
MOST_OF_NORMS = 60  # of what divides itself, which may go to and fro
ALTERNATIONS = 40


def solve_sweep(at: SizeSolution, sweep: UnknownSweep) -> None:
    if not sweep.cyclic:
        key, = sweep.keys
        at.table[key] = at.of(key)
        return
    _note_forgetting(at, sweep)
    _Iteration(at, sweep).solve()
    if not at.forgets.keys().isdisjoint(sweep.plain):
        _require_forgotten_faster(at, sweep)
    at.forget_values(sweep.all)  # some were read on the way


def _note_forgetting(at: SizeSolution, sweep: UnknownSweep) -> None:
    """The streams of a sweep that forget, with their rates. y <- y (1 - c L^(v - 1)) with v > 0 forgets what is older
    than L^(1 - v) layers: it keeps nothing of where it started, and sums over that many layers."""
    for key in sweep.plain:
        rates = [at.value(entry.damping)[MEAN] for entry in at.entries(key) if entry.damping is not None]
        if rates and max(rates) + at.scale.unit > 0:
            at.forgets[key] = max(rates) + at.scale.unit


def _require_forgotten_faster(at: SizeSolution, sweep: UnknownSweep) -> None:
    """Raise ``NotCovered`` where a loop feeds a stream that forgets at least as fast as it forgets."""
    cycle = Cycles(at, sweep, {key: at.table.get(key, {}) for key in sweep.shrinks}).through(at.forgets.keys())
    if cycle:
        key = next(key for key, _ in cycle if key in at.forgets)
        vector = at.counted.equations.setting.families[int(key.name)].name
        raise NotCovered(f"{vector} at step {key.step}: its layers forget, and it is fed by what it makes as fast as "
                         "it forgets it; coefficients decide whether it grows, and no rule compares them")


class _Iteration:
    """The unknowns of a sweep, and what is found of them so far."""

    def __init__(self, at: SizeSolution, sweep: UnknownSweep) -> None:
        self.at, self.sweep, self.plain = at, sweep, sweep.plain
        self.seen: dict[Unknown, int] = {}  # when the terms of an unknown were last put in

    def put(self, key: Unknown, value: Parts) -> bool:
        """Is it another value?"""
        if self.at.table.get(key, {}) == value:
            return False
        self.at.table[key] = value
        return True

    def read(self, key: Unknown) -> Parts:
        """An unknown's parts at the values of now."""
        self.at.evaluate(self.sweep.nodes[key])
        return self.at.of(key)

    def clear(self) -> None:
        self.seen.clear()
        for key in self.plain:
            self.at.table[key] = {}

    def solve(self) -> None:
        at, shrinks = self.at, self.sweep.shrinks
        held: dict[Unknown, Parts | None] = {key: self.at_the_step_before(key) for key in shrinks}
        exploded = self.iterate(held)
        if exploded and shrinks:
            self._without_bound()
            return
        if exploded or not shrinks:
            return
        bound = {key: at.table[key] for key in self.plain}
        for _ in range(ALTERNATIONS):
            known: dict[Unknown, Parts | None] = {key: self.read(key) for key in shrinks}
            self.clear()
            if self.iterate(known):  # no rule: the first bound stands
                at.table.update(bound)
                at.table.update({key: {MEAN: 0} for key in shrinks})
                return
            after = {key: at.table[key] for key in self.plain}
            if after == bound:
                return
            bound = after
        raise NotCovered(f"program {at.counted.reading.name}: what it divides by grows with what it divides, and "
                         "neither settles; no rule for powers between those that exponents tend to in turn")

    def at_the_step_before(self, key: Unknown) -> Parts | None:
        """A negative power as it was, of what did not become smaller since: what becomes of it tells."""
        before = self.at.counted.entries.functions.before(key)
        return None if before is None else self.at.table.get(before)

    def _without_bound(self) -> None:
        """A negative power of what explodes is nothing, where it does not feed what explodes: does it without it?"""
        at = self.at
        known: dict[Unknown, Parts | None] = {key: self.read(key) for key in self.sweep.shrinks}
        found = list(at.explosions)
        before = {key: at.table.get(key, {}) for key in self.sweep.keys}
        self.clear()
        again = self.iterate(known)
        at.explosions = found
        if not again:
            at.table.update(before)

    def iterate(self, held: dict[Unknown, Parts | None]) -> bool:
        """Put values in until they stay, with negative powers held, those of None at order one; does one explode?"""
        at, exploded = self.at, False
        fixed: dict[Unknown, Parts] = {}
        self.clear()
        for _ in range(0, MOST_OF_NORMS if self.sweep.normed else MOST_ROUNDS, ROUNDS):
            if self._settles(held, fixed):
                return exploded
            cycle, rate = Cycles(at, self.sweep, held, fixed).find()
            self.seen.clear()  # it read values itself
            if not cycle:  # a long way round
                continue
            if not exploded and not any(self._held_by_explosion(key) for key in self.plain):
                at.explosions.append((cycle[0][0], rate))
            exploded = True
            for key, label in cycle:
                fixed.setdefault(key, {})[label] = INFINITE
            self.clear()
            for key in fixed:
                at.table[key] = dict(fixed[key])
        raise NotCovered(f"program {at.counted.reading.name}: exponents do not settle, and no loop is found that grows")

    def _settles(self, held: dict[Unknown, Parts | None], fixed: dict[Unknown, Parts]) -> bool:
        at = self.at
        for _ in range(ROUNDS):
            moved = False
            for key, known in held.items():
                if known is None:  # of order one at most: as soon as there is what it is made of
                    at.evaluate(self.sweep.nodes[key])
                    there = at.value(at.counted.entries.functions.shrinks[key])
                    known = {MEAN: 0} if there else {}
                moved |= self.put(key, known)
            for key in self.plain:
                at.evaluate(self.sweep.nodes[key])
                now = at.changes(key, self.seen.get(key, -1))
                if now is None:
                    continue
                self.seen[key], new = now, at.of(key)
                before = None if self.sweep.normed else at.table.get(key)
                more = [one for one in (before, fixed.get(key)) if one]
                moved |= self.put(key, union([new, *more]) if more else new)
            if not moved:
                return True
        return False

    def _held_by_explosion(self, key: Unknown) -> bool:
        """Does it read a negative power of what explodes? Of order one is its bound, and no rate follows from it."""
        shrinks = self.at.counted.entries.functions.shrinks
        return any(ref.sort == SHRINK and is_infinite(self.at.value(shrinks[ref]))
                   for entry in self.at.entries(key) for ref in entry.node.refs)
