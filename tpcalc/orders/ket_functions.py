"""The parts of entrywise functions of kets.

A function is expanded about the leading part of its argument, the one of order one: its value there, and its slopes
times the rest. A bounded function stays bounded whatever the rest does: where its slope times the rest would be larger
than one (its BEND), it is saturated, of order one and random in all that its argument is random in. A function that
goes to zero at both ends, like the slope of tanh, is small where its argument is large: the argument passes the place
where the function lives with a probability like one over its size, which the mean is small by, and the root mean
square by the square root (SHRINK).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Callable

import sympy as sp

from ..calculus.kets import Hat, Ket, random_parts
from ..programs.language import Vec
from ..gaussian.scalar_functions import H, scalar_function
from ..asymptotics.factors import argument_of, factors_of
from .parts import Monomial, Monomials, Parts, multiply, total
from .quantities import MEAN, STREAM, Base, Label, Quantity, Sort
from .terms import split

if TYPE_CHECKING:
    from .ket_parts import KetParts


@dataclass(frozen=True)
class Argument:
    """What a function acts on: its parts, and which of them are leading.

    sources: what the leading parts are random in; shifted: a constant is among them, so that parity says nothing.
    """

    expression: sp.Expr
    step: int
    parts: Parts
    sources: frozenset[int]
    shifted: bool

    @property
    def leading(self) -> Monomials:
        return frozenset().union(*(size for label, size in self.parts if self._leading(label)))

    @property
    def rest(self) -> Parts:
        """All other parts: random in something else, or means."""
        return total(Parts.single(part, size) for label, size in self.parts for part in (
            *label.random(label.possible - self.sources), *([MEAN] if not (label.sources or self.shifted) else [])))

    def _leading(self, label: Label) -> list[Label]:
        inside = label.within(self.sources)
        return inside if self.shifted else [part for one in inside for part in one.random()]


@dataclass(frozen=True)
class Functions:
    """The rules for entrywise functions, in the reading of one set of ket equations.

    nodes: the BEND, SHRINK and ARGUMENT quantities met while expressions are read, with the monomials that they are
    made of and, for a SHRINK, its power; known, arguments: what has been read already, the former as long as no part is
    new.
    """

    reading: "KetParts"
    nodes: dict[Quantity, tuple[Monomials, Fraction]] = field(default_factory=dict)
    known: dict[tuple[str, sp.Expr, sp.Expr], Parts] = field(default_factory=dict)
    arguments: dict[sp.Expr, tuple[sp.Expr, sp.Expr, frozenset[Label], int]] = field(default_factory=dict)

    def value(self, function: sp.Expr) -> Parts:
        """The parts of a function of a ket."""
        argument, form = self._argument(function)
        return self._value(form, argument)

    def change(self, function: sp.Expr) -> Parts:
        """The parts of what a function changes by when its argument does."""
        argument, form = self._argument(function)
        inner = self._sum(argument.expression, self.reading.moved)
        linear = self._value(scalar_function(form).derivative.expression, argument).times(inner)
        return self._capped(form, f"change of {form.subs(H, argument.expression)}", argument, linear, inner)

    def derivative(self, function: sp.Expr, base: Base) -> Parts:
        """The parts of a function's derivative in a base ket."""
        argument, form = self._argument(function)
        inner = self._sum(argument.expression, lambda factor: self.reading.derivative(factor, base))
        slope = scalar_function(form).derivative.expression
        return self._value(slope, argument).times(inner) if inner.by_label else Parts()

    def _sum(self, expression: sp.Expr, part: Callable[[sp.Expr], Parts]) -> Parts:
        """The product rule over a function's argument, itself a sum."""
        return total(others.times(part(factor)) for term in split(expression) if random_parts(term)
                     for others, factor in self.reading.slopes(term, 0))

    def _value(self, form: sp.Expr, argument: Argument) -> Parts:
        place = ("value", form, argument.expression)
        if place not in self.known:
            self.known[place] = self._read(form, argument)
        return self.known[place]

    def _read(self, form: sp.Expr, argument: Argument) -> Parts:
        found, rest = [self._on_leading(form, argument)], argument.rest
        if not rest.by_label:
            return found[0]
        power, slope = rest, form
        for _ in range(max(1, scalar_function(form).growth)):
            slope = scalar_function(slope).derivative.expression
            found.append(self._on_leading(slope, argument).times(power))
            power = power.times(rest)
        name = str(form.subs(H, argument.expression))
        return total((found[0], self._capped(form, name, argument, total(found[1:]), rest)))

    def _capped(self, form: sp.Expr, name: str, argument: Argument, linear: Parts, inner: Parts) -> Parts:
        """What a function adds to its value on the leading part, of order one at most where it is bounded."""
        if scalar_function(form).growth or not linear.by_label:
            return linear
        bend = Quantity(Sort.BEND, argument.step, name=name)
        self.nodes[bend] = (linear.size(), Fraction(1))
        if bend not in self.reading.saturated:
            return linear
        sources = argument.sources.union(*(label.possible for label, _ in (*argument.rest, *inner)))
        unit = frozenset((Monomial(self.reading.form(0), (), scalar_function(form).vanishes),))
        return Parts.single(Label.of(frozenset(), sources), unit)

    def _on_leading(self, form: sp.Expr, argument: Argument) -> Parts:
        """A function of the leading part alone: random in all of its sources, or in some; a mean unless it is odd."""
        leading, growth = argument.leading, scalar_function(form).growth
        if form == 0 or not leading:
            return Parts()
        size = mean = self.reading.unit
        function = scalar_function(form)
        if growth:  # far out, and where the leading part is small
            size = mean = frozenset().union(*(reduce(multiply, [leading] * power, self.reading.unit)
                                              for power in {growth, min(growth, function.flatness)}))
        elif function.decays:
            name = str(argument.expression)
            size = self.shrunk(leading, f"({name})**(-1/2)", Fraction(-1, 2), argument.step)
            mean = self.shrunk(leading, f"({name})**(-1)", Fraction(-1), argument.step)
        if not growth and function.flatness:
            acted_on = Quantity(Sort.ARGUMENT, argument.step, name=str(argument.expression))
            self.nodes[acted_on] = (leading, Fraction(1))
        odd = scalar_function(form).parity == -1 and not argument.shifted
        some = Label.of(frozenset(), argument.sources if not form.is_number else frozenset())
        if size == mean and not odd:
            return Parts.single(some, size)
        return total([*(Parts.single(label, size) for label in some.random()),
                      *([] if odd else [Parts.single(MEAN, mean)])])

    def shrunk(self, size: Monomials, name: str, power: Fraction | int, step: int | None = None) -> Monomials:
        """A negative power of a size, of order one at most."""
        steps = [factor.step for one in size for factor in one.factors]
        if not steps:
            return self.reading.unit
        shrink = Quantity(Sort.SHRINK, max(steps) if step is None else step, name=name)
        self.nodes[shrink] = (size, Fraction(power))
        return frozenset((Monomial(self.reading.form(0), (shrink,)),))

    def _argument(self, function: sp.Expr) -> tuple[Argument, sp.Expr]:
        if function not in self.arguments:
            expression, form = argument_of(function)
            if form.free_symbols - {H}:
                raise ValueError(f"{form.subs(H, expression)}: a function of {expression} and of "
                                 f"{', '.join(sorted(map(str, form.free_symbols - {H})))}, of which no rule counts "
                                 "powers of L; give what it acts on a name of its own")
            led = frozenset(label for term in split(expression) for label in self._leading(term))
            steps = [int(self.reading.equations.setting.step(k.vector)) for k in expression.atoms(Ket)
                     if self.reading.equations.setting.initial_number(k.vector) is None]
            self.arguments[function] = (expression, form, led, max(steps, default=0))
        expression, form, led, step = self.arguments[function]
        place = ("argument", sp.Integer(0), expression)
        if place not in self.known:
            self.known[place] = total(self.reading.parts(term, 0) for term in split(expression))
        sources = frozenset().union(*(label.sources for label in led))
        return Argument(expression, step, self.known[place], sources, MEAN in led), form

    def _leading(self, term: sp.Expr) -> list[Label]:
        """What a term of order one is random in: the hat-kets that it is made of, the stream; MEAN for a constant."""
        if isinstance(term, sp.Sum) or term == 0:
            return []
        found: list[Label] = []
        factors = [factor for factor in factors_of(term) if random_parts(factor)]
        for factor in factors:
            if isinstance(factor, Hat):
                found.append(self.reading.fresh(factor))
            elif isinstance(factor, Ket):
                found += self._leading_of(factor.vector)
            else:
                found += [label for part in split(argument_of(factor)[0]) for label in self._leading(part)]
        return found if factors or term.has(sp.Sum) else [MEAN] if term.is_number else []

    def _leading_of(self, vector: Vec) -> list[Label]:
        reading = self.reading
        initial = reading.equations.setting.initial_number(vector) is not None
        if initial or reading.family(vector) in reading.accumulating:
            return [STREAM]
        equation = next(e for e in reading.equations.equations
                        if isinstance(e.target, Ket) and e.target.vector.same_family(vector))
        return [label for term in split(equation.value) for label in self._leading(term)]
