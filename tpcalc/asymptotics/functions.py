"""Entrywise functions of kets as nodes of the graph.

A function is expanded about the leading part of its argument, the one of order one: its value there, and its slopes
times the rest. A bounded function stays bounded whatever the rest does: where its slope times the rest would be larger
than one (its bend), it is saturated, of order one and random in all that its argument is random in. A function that
goes to zero at both ends, like the slope of tanh, is small where its argument is large: the argument passes the place
where the function lives with a probability like one over its size, which the mean is small by, and the root mean
square by the square root.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Hashable

import sympy as sp

from ..errors import NotCovered
from ..calculus.kets import Hat, Ket, random_parts
from ..gaussian.scalar_functions import H, scalar_function
from ..orders.quantities import BaseQuantity
from ..orders.terms import additive_terms
from ..programs.language import Vector
from .factors import argument_of, factors_of
from .graph import Capped, Leading, GraphNode, OnLeading, Rest
from .unknowns import SHRINK, Bend, Unknown
from .parts import MEAN, READOUT_BIT, STREAM, label_of, sure_of

if TYPE_CHECKING:
    from .expressions import Expressions


@dataclass(frozen=True)
class Argument:
    """What a function acts on; sources: what its leading parts are random in; shifted: a constant is among them, so
    that parity says nothing."""

    expression: sp.Expr
    step: int
    node: GraphNode
    sources: int
    shifted: bool


class Functions:
    """The rules for entrywise functions.

    bends: what bounded functions would add, by what stands for them; arguments: what functions that are 0 at 0 and
    bounded act on, with the step and in words; rests: what functions are expanded in, with their parity; shrinks: the
    sizes of which negative powers are taken.
    """

    def __init__(self, expressions: "Expressions") -> None:
        self.expressions, self.graph = expressions, expressions.graph
        self.bends: dict[Bend, GraphNode] = {}
        self.arguments: dict[tuple[int, str], GraphNode] = {}
        self.rests: dict[tuple[int, str], tuple[GraphNode, int]] = {}
        self.shrinks: dict[Unknown, GraphNode] = {}
        self._kinds: dict[Unknown, tuple[Hashable, Fraction | int]] = {}
        self._of_kind: dict[tuple[Hashable, Fraction | int, int], Unknown] = {}
        self._known: dict[tuple[sp.Expr, sp.Expr], GraphNode] = {}
        self._arguments: dict[sp.Expr, tuple[Argument, sp.Expr]] = {}

    def value(self, function: sp.Expr) -> GraphNode:
        argument, form = self.argument(function)
        return self._value(form, argument)

    def change(self, function: sp.Expr) -> GraphNode:
        """What a function changes by when its argument does."""
        argument, form = self.argument(function)
        return self._change(form, argument)

    def _change(self, form: sp.Expr, argument: Argument) -> GraphNode:
        inner = self.expressions.summed(argument.expression, self.expressions.moved)
        linear = self.graph.times(self._value(scalar_function(form).derivative.expression, argument), inner)
        return self._capped(form, f"change of {form.subs(H, argument.expression)}", argument, linear, inner)

    def derivative(self, function: sp.Expr, base: BaseQuantity) -> GraphNode:
        """A function's derivative in a base ket."""
        argument, slope, inner = self._slope(function, base)
        return self.graph.nothing if inner is self.graph.nothing else self.graph.times(
            self._value(slope, argument), inner)

    def turned(self, function: sp.Expr, base: BaseQuantity) -> GraphNode:
        """The change of a function's derivative in a base ket."""
        argument, slope, inner = self._slope(function, base)
        more = self.expressions.summed(argument.expression, lambda one: self.expressions.turned(one, base))
        changes = [self.graph.times(self._change(slope, argument), inner)] * (inner is not self.graph.nothing)
        changes += [self.graph.times(self._value(slope, argument), more)] * (more is not self.graph.nothing)
        return self.graph.union(changes)

    def _slope(self, function: sp.Expr, base: BaseQuantity) -> tuple[Argument, sp.Expr, GraphNode]:
        """What a function acts on, its slope, and the argument's derivative in a base ket."""
        argument, form = self.argument(function)
        inner = self.expressions.summed(argument.expression, lambda one: self.expressions.derivative(one, base))
        return argument, scalar_function(form).derivative.expression, inner

    def _value(self, form: sp.Expr, argument: Argument) -> GraphNode:
        location = form, argument.expression
        if location not in self._known:
            self._known[location] = self._read(form, argument)
        return self._known[location]

    def _rest(self, argument: Argument) -> GraphNode:
        return self.graph.routed(Rest, argument.node, sources=argument.sources, shifted=argument.shifted)

    def _read(self, form: sp.Expr, argument: Argument) -> GraphNode:
        first, rest = self._on_leading(form, argument), self._rest(argument)
        power, slope, found = rest, form, []
        for _ in range(max(1, scalar_function(form).growth)):
            slope = scalar_function(slope).derivative.expression
            found.append(self.graph.times(self._on_leading(slope, argument), power))
            power = self.graph.times(power, rest)
        name = str(form.subs(H, argument.expression))
        if rest is not self.graph.nothing:
            self.rests[argument.step, name] = self.expressions.size(rest), scalar_function(form).parity
        return self.graph.union([first, self._capped(form, name, argument, self.graph.union(found), rest)])

    def _capped(self, form: sp.Expr, name: str, argument: Argument, linear: GraphNode, inner: GraphNode) -> GraphNode:
        """What a function adds to its value on the leading part, of order one at most where it is bounded."""
        if scalar_function(form).growth or linear is self.graph.nothing:
            return linear
        bend = Bend(argument.step, name, argument.sources)
        self.bends[bend] = self.expressions.size(linear)
        return self.graph.node(Capped, linear, self._rest(argument), inner, bend=bend,
                               has_limits=scalar_function(form).has_limits)

    def _on_leading(self, form: sp.Expr, argument: Argument) -> GraphNode:
        """A function of the leading part alone: far out, and where the leading part is small."""
        if form.is_number:
            return self.graph.nothing if form == 0 else self.graph.unit
        function = scalar_function(form)
        growth = function.growth
        lead = self.graph.routed(Leading, argument.node, sources=argument.sources, shifted=argument.shifted)
        kids = [lead]
        if not growth and function.decays:
            kids += [self.shrunk(lead, Fraction(-1, 2), argument.step), self.shrunk(lead, Fraction(-1), argument.step)]
        if not growth and function.flatness:
            self.arguments[argument.step, str(argument.expression)] = lead
        powers = tuple(sorted({growth, min(growth, function.flatness)})) if growth else ()
        return self.graph.node(OnLeading, *kids, growth=powers, odd=function.parity == -1 and not argument.shifted,
                               constant=not function.flatness, some=label_of(0, argument.sources))

    def shrunk(self, size: GraphNode, power: Fraction | int, step: int | None = None,
               kind: Hashable = None) -> GraphNode:
        """A negative power of a size, of order one at most; kind: the same at all steps."""
        if not size.refs:
            return self.graph.unit
        at = max(key.step for key in size.refs) if step is None else step
        key = Unknown(SHRINK, at, f"({size.number})**({power})")
        self.shrinks[key] = size
        if kind is not None:
            self._kinds[key] = kind, power
            self._of_kind[kind, power, at] = key
        return self.expressions.reference(key)

    def before(self, key: Unknown) -> Unknown | None:
        """A negative power's own unknown at the step before."""
        return self._of_kind.get((*self._kinds[key], key.step - 1)) if key in self._kinds else None

    def argument(self, function: sp.Expr) -> tuple[Argument, sp.Expr]:
        """What a function acts on, and the function of a symbol."""
        if function not in self._arguments:
            self._arguments[function] = self._read_argument(function)
        return self._arguments[function]

    def _read_argument(self, function: sp.Expr) -> tuple[Argument, sp.Expr]:
        reading = self.expressions.reading
        expression, form = argument_of(function)
        if form.free_symbols - {H}:
            raise NotCovered(f"{form.subs(H, expression)}: a function of {expression} and of "
                             f"{', '.join(sorted(map(str, form.free_symbols - {H})))}, of which no rule counts "
                             "powers of L; give what it acts on a name of its own")
        scalar_function(form).growth  # refused where no power is
        led = {label for term in additive_terms(expression) for label in self._leading(term)}
        made = [v for v in vectors_in(expression) if reading.initial(v) is None]
        steps = [reading.step(v) for v in made]
        later = any(steps) or any(reading.family(v) not in reading.forward for v in made)
        sources = READOUT_BIT if later else 0
        for label in led:
            sources |= sure_of(label)
        node = self.graph.union([self.expressions.parts(term, 0) for term in additive_terms(expression)])
        return Argument(expression, max(steps, default=0), node, sources, MEAN in led), form

    def _leading(self, term: sp.Expr) -> list[int]:
        """What a term of order one is random in: the hat-kets that it is made of, the stream; a mean, of a constant."""
        if isinstance(term, sp.Sum) or term == 0:
            return []
        found: list[int] = []
        factors = [factor for factor in factors_of(term) if random_parts(factor)]
        for factor in factors:
            if isinstance(factor, Hat):
                found.append(label_of(self.expressions.reading.source(factor)))
            elif isinstance(factor, Ket):
                found += self._leading_of(factor.vector)
            else:
                found += [label for part in additive_terms(argument_of(factor)[0]) for label in self._leading(part)]
        return found if factors or term.has(sp.Sum) else [MEAN] if term.is_number else []

    def _leading_of(self, vector: Vector) -> list[int]:
        reading = self.expressions.reading
        if reading.initial(vector) is not None or (family := reading.family(vector)) in reading.accumulating:
            return [STREAM]
        _, equation = reading.of_family[family][0]
        return [label for term in additive_terms(equation.value) for label in self._leading(term)]


def vectors_in(expression: sp.Expr) -> list[Vector]:
    """The vectors of an expression's kets, and those that matrices of its hat-kets multiply."""
    return [*(ket.vector for ket in expression.atoms(Ket)), *(hat.vector.vector for hat in expression.atoms(Hat))]
