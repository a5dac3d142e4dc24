"""Products of kets taken apart, and entrywise functions of kets as nodes of the graph.

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
from typing import TYPE_CHECKING, Callable, Hashable, Iterable, Iterator

import sympy as sp

from ..calculus.kets import Bracket, Hat, Ket, random_parts
from ..errors import NotCovered
from ..gaussian import Expectation
from ..gaussian.scalar_functions import H, scalar_function
from ..orders.quantities import BaseQuantity, additive_terms
from ..programs.language import Vector
from .graph import Capped, GraphNode, Leading, OnLeading, Rest
from .parts import MEAN, READOUT_BIT, SHRINK, STREAM, Bend, Unknown, label_of, sure_of

if TYPE_CHECKING:
    from .expressions import Expressions


def factors_of(expression: sp.Expr) -> list[sp.Expr]:
    """Factors of a product; functions of the same kets, and powers of such a ket beside them, together."""
    powers: dict[sp.Expr, int] = {}
    plain: list[sp.Expr] = []
    functions: dict[frozenset[sp.Expr], sp.Expr] = {}
    for factor in sp.Mul.make_args(expression):
        base, power = factor.as_base_exp()
        if isinstance(base, (Ket, Hat)) and power.is_Integer and power > 0:
            powers[base] = powers.get(base, 0) + int(power)
        elif random_parts(factor):
            parts = frozenset(random_parts(factor))
            functions[parts] = functions.get(parts, sp.Integer(1)) * factor
        else:
            plain.append(factor)
    for base, power in powers.items():
        if frozenset((base,)) in functions:
            functions[frozenset((base,))] *= base**power
        else:
            plain += [base] * power
    return [*plain, *functions.values()]


def parity(product: sp.Expr, sign: Callable[[Vector], int]) -> int:
    """1 where a product keeps its sign when all base kets change theirs, -1 where it changes it too, 0 for neither.

    sign: the same of a vector.
    """
    found = 1
    for factor in factors_of(product):
        if isinstance(factor, Ket):
            found *= sign(factor.vector)
        elif isinstance(factor, Hat):
            found = -found
        elif random_parts(factor):
            argument, form = argument_of(factor)
            inside = {parity(term, sign) for term in sp.Add.make_args(sp.expand(argument)) if random_parts(term)}
            constant = any(not random_parts(term) for term in sp.Add.make_args(sp.expand(argument)))
            found *= scalar_function(form).parity if inside == {-1} and not constant else 0
    return found


def gathered(terms: Iterable[sp.Expr]) -> list[sp.Expr]:
    """Terms, where those with one ket and equal other factors are one term: a product of these factors and the sum. x
    and -x tanh(h)^2 become x (1 - tanh(h)^2), whose size is smaller than that of x where tanh(h) is near 1 or -1."""
    found: list[sp.Expr] = []
    groups: dict[tuple[sp.Expr, sp.Expr], sp.Expr] = {}
    single = [term for term in terms if not isinstance(term, sp.Sum) and random_parts(term)]
    inside = {argument_of(factor)[0] for term in single for factor in factors_of(term)
              if random_parts(factor) and not isinstance(factor, (Ket, Hat))}
    for term in terms:
        of = [ket for ket in random_parts(term) if ket in inside] if term in single else []
        if len(of) > 1 or term not in single or not of and len(inside) != 1:
            found.append(term)
            continue
        ket = (of or list(inside))[0]
        function = sp.Mul(*(f for f in sp.Mul.make_args(term) if f.is_Number or random_parts(f) == {ket}))
        rest = sp.Mul(*(f for f in sp.Mul.make_args(term) if not (f.is_Number or random_parts(f) == {ket})))
        groups[ket, rest] = groups.get((ket, rest), sp.Integer(0)) + function
    return [*found, *(rest * function if function.is_Number else sp.Mul(rest, function, evaluate=False)
                      for (_, rest), function in groups.items() if function != 0)]


def squares(base: sp.Expr) -> list[sp.Expr]:
    """What a sum of squares, positive numbers among them, is made of; nothing where it is no such sum."""
    found: list[sp.Expr] = []
    for term in sp.Add.make_args(base):
        number, rest = term.as_coeff_Mul()
        if number.is_positive and isinstance(rest, Bracket) and rest.args[0] == rest.args[1]:
            found.append(Ket(rest.args[0]))
        elif number.is_positive and isinstance(rest, Expectation) and rest.args[0].is_Pow and rest.args[0].exp == 2:
            found.append(rest.args[0].base)
        elif not (rest.is_number and (number * rest).is_positive):
            return []
    return found


def normalized(factors: list[sp.Expr], within: Callable[[Ket, Ket], bool]) -> list[tuple[Ket, Ket, sp.Expr]]:
    """The kets of a product that are divided by a root mean square, of what is divided by and with this factor.

    within: is the first ket the second, or a term of it? Nothing cancels, so that it is then no larger.
    """
    found = []
    for factor in factors:
        base, power = factor.as_base_exp()
        if power == -sp.Rational(1, 2):
            found += [(ket, whole, factor) for whole in squares(base) if isinstance(whole, Ket)
                      for ket in [f for f in factors if isinstance(f, Ket) and within(f, whole)][:1]]
    return found


def argument_of(function: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """What an entrywise function acts on, a ket or a sum of several, and the function of a symbol."""
    if function.has(Expectation, Bracket):
        raise NotCovered(f"{function}: no rule for the order of a function of a ket and of averages; name its argument")
    kets = random_parts(function)
    if len(kets) == 1:
        ket, = kets
        return ket, scalar_function(function, ket).expression
    for argument in sorted(_arguments(function), key=lambda e: (-len(random_parts(e)), str(e))):
        form = scalar_function(function, argument).expression
        if not random_parts(form):
            return argument, form
    raise NotCovered(f"{function}: no rule for the order of a function of several kets that is no function of their "
                     "sum; write it as sums and products of functions of one")


def _arguments(function: sp.Expr) -> set[sp.Expr]:
    """What the functions in an expression act on."""
    nodes = [e for e in sp.preorder_traversal(function) if isinstance(e, (sp.Function, sp.Max, sp.Min, sp.Pow))]
    return {a for e in nodes for a in e.args if isinstance(a, sp.Expr) and random_parts(a)}


def centered_pairs(terms: list[sp.Expr]) -> Iterator[tuple[sp.Expr, bool]]:
    """Terms; True for those from which the program takes the mean away, which is left out."""
    means = {term for term in terms if term.has(Expectation) and not random_parts(term)}
    for term in [term for term in terms if term not in means]:
        if not means:
            yield term, False
            continue
        factors = sp.Mul.make_args(term)
        number = sp.Mul(*(f for f in factors if not random_parts(f)))
        opposite = set() if isinstance(term, sp.Sum) else {
            -number * Expectation(sp.Mul(*(f for f in factors if random_parts(f)))),
            *(-term.xreplace({k: Expectation(k)}) for k in random_parts(term))}
        centered = bool(opposite & means)
        means -= opposite
        yield term, centered
    for term in means:
        yield term, False


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
        return self._capped(form, f"change of {form.subs(H, argument.expression)}", argument, self.graph.nothing,
                            linear, self.graph.union([argument.node, inner]))

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
        return self._capped(form, name, argument, first, self.graph.union(found), argument.node)

    def _capped(self, form: sp.Expr, name: str, argument: Argument, first: GraphNode, linear: GraphNode,
                seen: GraphNode) -> GraphNode:
        """A function and what it adds to its value on the leading part, of order one at most where it is bounded; seen:
        what it acts on then."""
        if scalar_function(form).growth or linear is self.graph.nothing:
            return self.graph.union([first, linear])
        bend = Bend(argument.step, name, argument.sources)
        self.bends[bend] = self.expressions.size(linear)
        return self.graph.node(Capped, first, linear, seen, bend=bend,
                               has_limits=scalar_function(form).has_limits, is_change=first is self.graph.nothing)

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
