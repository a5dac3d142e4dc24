"""Exponents at a point: the least solution of the graph's equations, training step by training step."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Callable, Sequence

import sympy as sp

from ..errors import NotCovered
from ..orders.affine import Affine
from ..orders.quantities import BaseQuantity
from ..programs.language import Vector
from .graph import Enters, GraphNode, TermEntry
from .explain import explain
from .parts import (CHANGE, DERIVATIVE, KET, LARGE, LEAST, MEAN, SCALAR, SHRINK, Bend, Parts, Scale, Unknown,
                    exponent_of, in_stream, on_subsets, size_of_parts, sum_of_values, union)
from .signs import require_signs
from .solving import solve_sweep

if TYPE_CHECKING:
    from .counted import Counted

MOST_HYPOTHESES = 40


@dataclass(frozen=True)
class CountedPower:
    """An exponent of L: -oo of what vanishes, oo of what explodes; bound: it is an upper bound, and no more is known.
    """

    exponent: sp.Expr
    bound: bool = False


@dataclass(frozen=True)
class Term:
    """A term of an equation with its exponent, sums over layers included; rule: how layers add it up: "layers"
    coherently, "independent layers" like a square root, "" inside a layer."""

    target: Unknown
    equation: int
    term: sp.Expr
    update: bool
    rule: str
    value: int


class SizeSolution:
    """Exponents of all that is counted, at a point.

    explosions: unknowns with v, of sweeps that grow like exp(L^v), None where no rule says how fast, the first first;
    saturated: bounded functions that are so large that they do not grow any more; held: nothing but derivatives
    explodes, or bounded functions hold the outputs whatever explodes; settled: the last step has the exponents of the
    one before; grows: exponents grow from step to step; unsigned: why no gradient of the first step is known, behind
    streams that have grown before, None where all are; forgets: unknowns with v, of streams that forget what is older
    than L^(1 - v) layers.
    """

    def __init__(self, counted: "Counted", point: tuple[Fraction, ...], keep: Callable[[TermEntry], bool] | None = None,
                 directions: tuple[tuple[Fraction, ...], ...] = ()) -> None:
        self.counted, self.scale, self.keep = counted, Scale(point, directions, counted.entries.graph.fine), keep
        self.table: dict[Unknown, Parts] = {}
        self.saturated: frozenset[Bend] = frozenset()
        self.explosions: list[tuple[Unknown, int | Fraction | None]] = []
        self.forgets: dict[Unknown, int] = {}
        self.held = self.grows = self.settled = False
        self.unsigned: NotCovered | None = None
        self.steps = 0
        self._weights: dict[Affine, int] = {}
        self._kept: dict[Unknown, list[TermEntry]] = {}
        self._values: list[Parts | None] = []
        self._changed: list[int] = []  # when a node's value did last, and when its kids' were last read
        self._read: list[int] = []
        self._clock = 0

    def continued(self, keep: Callable[[TermEntry], bool] | None) -> "SizeSolution":
        """A solution that goes on from this one's steps, with other terms."""
        found = SizeSolution(self.counted, self.scale.point, keep, self.scale.directions)
        found.table, found.saturated, found.steps = dict(self.table), self.saturated, self.steps
        found.explosions, found.forgets, found.unsigned = list(self.explosions), dict(self.forgets), self.unsigned
        return found

    # What nodes ask.

    def weight(self, form: Affine) -> int:
        if form not in self._weights:
            self._weights[form] = self.scale.of(form)
        return self._weights[form]

    def parts(self, key: Unknown) -> Parts:
        return self.table.get(key, {})

    def saturates(self, bend: Bend, linear: Parts) -> bool:
        return bend in self.saturated

    def is_saturated(self, step: int) -> bool:
        return any(bend.step == step for bend in self.saturated)

    # Evaluation.

    def value(self, node: GraphNode) -> Parts:
        """The parts of a node, evaluated once as long as nothing that it is made of changes."""
        found = self._values[node.number]
        if found is None:
            found = self._values[node.number] = node.value(self, [self.value(kid) for kid in node.kids])
        return found

    def evaluate(self, nodes: Sequence[GraphNode]) -> None:
        """Evaluate those nodes again whose unknowns have changed, each after what it is made of."""
        values, changed, read = self._values, self._changed, self._read
        for node in nodes:
            number, old = node.number, values[node.number]
            if old is not None and node.kids:
                last = read[number]
                for kid in node.numbers:
                    if changed[kid] > last:
                        break
                else:
                    continue
            self._clock += 1
            new = node.value(self, [self.value(kid) for kid in node.kids])
            read[number] = self._clock
            if new != old:
                values[number], changed[number] = new, self._clock

    def changes(self, key: Unknown, since: int) -> int | None:
        """The time by which terms of an unknown have changed; None where they have not since another time."""
        changed = self._changed
        return self._clock if any(changed[entry.node.number] > since for entry in self.entries(key)) else None

    def forget_values(self, nodes: Sequence[GraphNode] | None = None) -> None:
        """Drop the kept values of some nodes, or of all."""
        if nodes is None:
            size = len(self.counted.nodes)
            self._values = [None] * size
            self._changed, self._read = [0] * size, [0] * size
            return
        for node in nodes:
            self._values[node.number] = None

    def entries(self, key: Unknown) -> list[TermEntry]:
        found = self.counted.entries.of[key]
        if self.keep is None:
            return found
        if key not in self._kept:
            self._kept[key] = [entry for entry in found if self.keep(entry)]
        return self._kept[key]

    def gain(self, entry: TermEntry) -> int | None:
        """The value of the number of layers that a term adds up over, of what forgets that of the last ones; None where
        nothing of it is kept."""
        rate = self.forgets.get(entry.target)
        if rate is not None and (entry.enters != Enters.LAYERS or entry.damping is not None):
            return None
        return self.scale.unit - (rate or 0) if entry.enters == Enters.LAYERS else 0

    def entering(self, entry: TermEntry, parts: Parts) -> Parts:
        """What parts of a term add to its target: in a stream, what layers draw of their own adds up like the square
        root, all else coherently; of what forgets the last layers alone count."""
        if entry.enters == Enters.PLAIN:
            return parts
        gain = self.gain(entry)
        found: Parts = {}
        if gain is None:
            return found
        for label, value in parts.items():
            for to, more in in_stream(label, gain):
                both = sum_of_values(value, more)
                if both > found.get(to, LEAST):
                    found[to] = both
        return found

    def of(self, key: Unknown) -> Parts:
        """An unknown's parts, of what is in the table of all others."""
        if key.sort == SHRINK:
            return self.shrunk(key)
        return union([self.entering(entry, self.value(entry.node)) for entry in self.entries(key)])

    def shrunk(self, key: Unknown) -> Parts:
        """A negative power of a size, of order one where the size is small, nothing where it explodes."""
        known = self.value(self.counted.entries.functions.shrinks[key])
        if not known:
            return {}
        value = max(known.values())
        if value > LARGE:
            return {}
        if exponent_of(value) <= 0:
            return {MEAN: -(value & 1)}
        power = Fraction(str(key.name).rpartition("**(")[2][:-1])
        exact = exponent_of(value) * power
        if exact.denominator != 1:
            raise NotCovered(f"program {self.counted.reading.name}: a size that depends on itself comes ever closer "
                             f"to a power, now L^({self.scale.number(value)}), without reaching it; no rule for what "
                             "it tends to; expected other exponents")
        return {MEAN: 2 * int(exact) - (value & 1)}

    # Steps.

    def solve(self, t: int) -> None:
        """The exponents of step t, when those of all earlier ones are known."""
        sweeps = self.counted.sweeps(t)
        before, tried = list(self.explosions), set()
        forgot = dict(self.forgets)
        for _ in range(MOST_HYPOTHESES):
            tried.add(self.saturated)
            self.explosions, self.forgets = list(before), dict(forgot)
            for sweep in sweeps:
                for key in sweep.keys:
                    self.table.pop(key, None)
            self.forget_values()
            for sweep in sweeps:
                solve_sweep(self, sweep)
            wrong = self._wrong(t)
            changed = self.saturated.symmetric_difference(wrong - self.saturated or wrong)
            if not wrong or changed in tried:
                break
            self.saturated = frozenset(changed)
        self._require_arguments(t)
        if t == 0:
            require_signs(self)
        self.steps = t + 1

    def _wrong(self, t: int) -> frozenset[Bend]:
        """The functions that are saturated and were not taken to be, or the other way round."""
        found = set()
        for bend, node in self.counted.entries.functions.bends.items():
            if bend.step == t:
                value = self.value(node).get(MEAN)
                grows = value is not None and exponent_of(value) > 0
                falls = value is None or exponent_of(value) < 0
                if falls if bend in self.saturated else grows:
                    found.add(bend)
        return frozenset(found)

    def _require_arguments(self, t: int) -> None:
        """Raise ``NotCovered`` where a bounded function that is 0 at 0 acts on what falls with L: no rule counts it.
        """
        for (step, name), node in self.counted.entries.functions.arguments.items():
            if step == t:
                value = self.value(node).get(MEAN)
                if value is not None and exponent_of(value) < 0:
                    raise NotCovered(f"{name}: what a bounded function acts on falls with the depth, and the function "
                                     "with it; powers of L are counted where it is of order one at least")

    # Whether steps that are known decide the others.

    @property
    def _outputs(self) -> list[str]:
        return list(self.counted.reading.scalars)

    def has_powers(self, t: int) -> bool:
        """Does a scalar grow like a power of the depth at a step?"""
        return any(LARGE > v and exponent_of(v) > 0 for v in self._scalars(t))

    def is_held(self, t: int) -> bool:
        """Do saturated functions hold back what explodes at a step?"""
        return bool(t and self.saturated and (self.is_bounded(t) or self.derivatives_alone and not self.has_powers(t)))

    def is_bounded(self, t: int) -> bool:
        return not any(exponent_of(v) > 0 for v in self._scalars(t))

    def _scalars(self, t: int) -> list[int]:
        return [v for name in self._outputs for v in self.table.get(Unknown(SCALAR, t, name), {}).values()]

    @property
    def derivatives_alone(self) -> bool:
        """Is all that explodes a derivative of a ket in a base ket, which bounds the ket and is none of its parts?"""
        return bool(self.explosions) and all(key.sort == DERIVATIVE for key, _ in self.explosions)

    @property
    def gradients_alone(self) -> bool:
        """Is all that explodes made on the way back?"""
        forward = self.counted.reading.forward
        return bool(self.explosions) and all(key.sort == KET and key.name not in forward for key, _ in self.explosions)

    def classes(self, t: int) -> dict[tuple, int]:
        """Exponents of step t: of derivatives in initial vectors, in the step's own and in earlier hat-kets."""
        found: dict[tuple, int] = {}
        for key, parts in self.table.items():
            if key.step == t and key.sort != SHRINK:
                for one, value in on_subsets(parts).items():
                    kind = *kind_of_unknown(key), one
                    found[kind] = max(found.get(kind, LEAST), exponent_of(value))
        return found

    def repeats(self, t: int) -> bool:
        """Are all exponents of step t those of the step before, as far as both are asked for?"""
        now, before = self.classes(t), self.classes(t - 1)
        asked = [{kind_of_unknown(key) for key in self.table if key.step == step} for step in (t - 1, t)]
        return all(now.get(kind) == before.get(kind) for kind in {*now, *before}
                   if all(kind[:3] in some for some in asked))

    def growing(self, t: int) -> list[tuple[int, int]]:
        """Exponents of step t that are positive and larger than at the step before, with that difference, as values."""
        before = self.classes(t - 1)
        return [(2 * value, 2 * (value - before[kind])) for kind, value in self.classes(t).items()
                if kind in before and value > 0 and value > before[kind]]

    def require_forgotten(self) -> None:
        """Raise ``ValueError`` where something forgets where it started, and not all that there is vanishes with it.

        What a sweep forgets still stands in the L^(1 - v) layers next to its start, as gradients do next to the output;
        no rule counts its products with what does not vanish there.
        """
        if self.forgets and not self.explosions and any(
                parts for key, parts in self.table.items() if key.sort == KET):
            key, rate = next(iter(self.forgets.items()))
            vector = self.counted.equations.setting.families[int(key.name)].name
            raise NotCovered(f"{vector} at step {key.step} forgets what is older than "
                             f"L^({1 - self.scale.number(rate)}) layers and is fed by what does not; no rule for what "
                             "these layers add where it starts")

    def require_gradients(self) -> None:
        """Raise ``NotCovered`` where gradients of the first step have a loop of unknown sign."""
        if self.unsigned is not None:
            raise self.unsigned

    # Reading.

    def thresholds(self) -> dict[Unknown | Bend, int | None]:
        """Sizes at whose zeros a rule changes: of what bounded functions would add, and of negative powers' bases."""
        functions = self.counted.entries.functions
        found: dict[Unknown | Bend, int | None] = {
            bend: size_of_parts(self.value(node)) for bend, node in functions.bends.items() if bend.step < self.steps}
        return found | {key: size_of_parts(self.value(node)) for key, node in functions.shrinks.items()
                        if key.step < self.steps}

    def outputs(self) -> list[int | None]:
        """Values of all scalars at all steps."""
        return [self.value_of(Unknown(SCALAR, t, name)) for t in range(self.steps) for name in self._outputs]

    @property
    def names(self) -> tuple[str, ...]:
        """What sizes are known of: vectors and scalars, by name."""
        setting = self.counted.equations.setting
        return tuple(dict.fromkeys([*(setting.families[f].name for f in self.counted.reading.of_family),
                                    *self.counted.reading.scalars]))

    def size(self, name: str, step: int, change: bool = False) -> CountedPower:
        """The exponent of a vector's root mean square, or of its change since the first step, or of a scalar. Raises
        ``KeyError`` for another name or a step that was not counted."""
        return self.power(self.value_of(self._named(name, step, change)))

    def explain(self, name: str, step: int, change: bool = False) -> tuple[str, ...]:
        """Why a size is as large as it is, a sentence a term; raises ``KeyError`` as ``size`` does."""
        return explain(self, self._named(name, step, change))

    def _named(self, name: str, step: int, change: bool) -> Unknown:
        if step not in range(self.steps):
            raise KeyError(f"step {step}: not counted; counted are 0 to {self.steps - 1}")
        if name in self.counted.reading.scalars:
            return Unknown(SCALAR, step, name)
        families = self.counted.equations.setting.families
        family = next((f for f in self.counted.reading.of_family if families[f].name == name), None)
        if family is None:
            raise KeyError(f"{name}: no vector or number of the program; known are {', '.join(self.names)}")
        return Unknown(CHANGE if change else KET, step, family)

    def of_vector(self, vector: Vector, step: int, change: bool = False) -> CountedPower:
        family = self.counted.reading.family(vector)
        return self.power(self.value_of(Unknown(CHANGE if change else KET, step, family)))

    def value_of(self, key: Unknown) -> int | None:
        return size_of_parts(self.table.get(key, {}))

    def power(self, value: int | None) -> CountedPower:
        return CountedPower(self.scale.number(value), value is not None and bool(value & 1))

    def rate(self, value: int | Fraction | None) -> sp.Expr:
        """The v of exp(L^v); oo where no rule says it."""
        if value is None:
            return sp.oo
        found = Fraction(value)
        return self.scale.number(2 * found.numerator) / (2 * found.denominator)

    def form(self, value: int | None) -> Affine | None:
        """The affine form that a value is of, where directions span the plane; None of what vanishes or explodes."""
        return None if value is None or value > LARGE else self.scale.form(value)

    def terms(self, key: Unknown) -> list[Term]:
        """All terms that make up an unknown, each with the ways in which it enters."""
        return [term for entry in self.entries(key) for term in self.terms_of(entry)]

    def terms_of(self, entry: TermEntry) -> list[Term]:
        """A term, once for every rule by which layers add it up."""
        return self.ways(entry, self.value(entry.node))

    def ways(self, entry: TermEntry, parts: Parts) -> list[Term]:
        """A term with given parts, once for every rule by which layers add it up."""
        gain = self.scale.unit - self.forgets.get(entry.target, 0) if entry.enters == Enters.LAYERS else 0
        best: dict[str, int] = {}
        for label, value in parts.items():
            for _, more in [(0, 0)] if entry.enters == Enters.PLAIN else in_stream(label, 2):
                rule = "" if entry.enters != Enters.LAYERS else "layers" if more == 2 else "independent layers"
                both = sum_of_values(value, gain if rule == "layers" else gain // 2 if rule else 0)
                best[rule] = max(best.get(rule, LEAST), both)
        return [Term(entry.target, entry.equation, entry.term, entry.update, rule, value)
                for rule, value in best.items()]


def kind_of_unknown(key: Unknown) -> tuple:
    """What an unknown is whatever its step: a derivative in an initial base ket, in one of its step, or in others."""
    base = key.base
    if base is not None and not base.is_initial:
        base = BaseQuantity(int(base.step == key.step), base.number, base.own)
    return key.sort, key.name, base
