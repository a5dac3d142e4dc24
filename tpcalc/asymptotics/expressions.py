"""Expressions in kets as nodes of the graph: their parts, what they change by, and their derivatives in base kets."""

from __future__ import annotations

from typing import Callable

import sympy as sp

from ..errors import NotCovered
from ..calculus.kets import Bracket, Hat, Ket, Response, random_parts
from ..gaussian import Expectation
from ..orders.affine import Affine
from ..orders.quantities import BaseQuantity, additive_terms, counted_scalar, in_powers
from ..programs.algebra import power_of
from ..programs.language import Member, Scalar, Vector
from .functions import Functions, factors_of, normalized, squares
from .graph import Fresh, ExponentGraph, Held, MeanNode, GraphNode, Over, Reference, Sized
from .parts import CHANGE, DERIVATIVE, KET, READOUT, SCALAR, STREAM, TURNED, Unknown
from .reading import EquationReader


class Expressions:
    """Builds nodes; demanded: called with every unknown that one reads."""

    def __init__(self, reading: EquationReader, graph: ExponentGraph, demanded: Callable[[Unknown], None]) -> None:
        self.reading, self.graph, self.demanded = reading, graph, demanded
        self.functions = Functions(self)
        self._parts: dict[tuple[sp.Expr, int], GraphNode] = {}
        self._numbers: dict[tuple[sp.Expr, int], GraphNode] = {}

    def reference(self, key: Unknown, normed: bool = False) -> GraphNode:
        self.demanded(key)
        return self.graph.node(Reference, key=key, normed=normed)

    def size(self, node: GraphNode) -> GraphNode:
        return self.graph.routed(Sized, node)

    # Products and their factors.

    def parts(self, expression: sp.Expr, t: int) -> GraphNode:
        """A product of numbers and kets; a vector over its own root mean square is of order one."""
        if (expression, t) not in self._parts:
            self._parts[expression, t] = self._read_parts(expression, t)
        return self._parts[expression, t]

    def _read_parts(self, expression: sp.Expr, t: int) -> GraphNode:
        found, factors = self.graph.unit, factors_of(expression)
        for ket, whole, norm in normalized(factors, self.reading.within):
            factors.remove(ket)
            factors.remove(norm)
            found = self.graph.times(found, self._over_size(self.of_ket(KET, ket.vector), whole))
        own = self._over_its_whole(factors, t)
        if own is not None:
            return self.graph.times(found, own)
        return self.graph.times(found, *(self._factor(factor, t) for factor in factors))

    def _over_size(self, one: GraphNode, whole: Ket) -> GraphNode:
        """A ket over the root mean square of what it is, or is a term of: each part over the size of all, but of a
        stream, whose parts are of order one at most."""
        if not isinstance(one, Reference):
            return one
        if self.reading.passes_stream(whole):
            return self.reference(one.key, normed=True)
        return self.graph.node(Over, one, self.of_ket(KET, whole.vector))

    def _over_its_whole(self, factors: list[sp.Expr], t: int) -> GraphNode | None:
        """A product that is a term of a vector, and divided by this vector's root mean square."""
        for norm in factors:
            base, power = norm.as_base_exp()
            whole = [one for one in squares(base) if isinstance(one, Ket)] if power == -sp.Rational(1, 2) else []
            if len(whole) == 1:
                rest = sp.Mul(*(factor for factor in factors if factor is not norm))
                share = self.reading.share_of(rest, whole[0])
                if share is not None:
                    number, term = share
                    one = self.graph.node(Over, self.parts(term, t), self.of_ket(KET, whole[0].vector))
                    return self.graph.times(self.numbers(number, t), one)
        return None

    def _factor(self, factor: sp.Expr, t: int) -> GraphNode:
        if not random_parts(factor):
            return self.numbers(factor, t)
        if isinstance(factor, Ket):
            return self.of_ket(KET, factor.vector)
        return self._hat(KET, factor) if isinstance(factor, Hat) else self.functions.value(factor)

    def _hat(self, sort: str, hat: Hat) -> GraphNode:
        """A hat-ket, as large as the vector that its matrix multiplies, fresh in the matrix."""
        return self.graph.routed(Fresh, self.of_ket(sort, hat.vector.vector), source=self.reading.source(hat))

    def of_ket(self, sort: str, vector: Vector, base: BaseQuantity | None = None) -> GraphNode:
        initial = self.reading.initial(vector)
        if initial is not None:
            if sort == KET:
                return self.graph.constant(READOUT if initial in self.reading.readouts else STREAM)
            if sort == TURNED:
                return self.graph.nothing
            alike = base is not None and base.is_initial and base.number == initial
            return self.graph.unit if alike else self.graph.nothing
        t = self.reading.step(vector)
        if sort in (CHANGE, TURNED) and t == 0 or base is not None and base.step > t:
            return self.graph.nothing
        return self.reference(self.unknown(sort, t, self.reading.family(vector), base))

    def unknown(self, sort: str, t: int, family: int, base: BaseQuantity | None = None) -> Unknown:
        """All parts together; the stream keeps no track of which layer's hat-ket is its own."""
        if base is not None and family in self.reading.accumulating:
            base = BaseQuantity(base.step, base.number)
        return Unknown(sort, t, family, base)

    # The product rule.

    def slopes(self, expression: sp.Expr, t: int) -> list[tuple[GraphNode, sp.Expr]]:
        """Every random factor of a product, with what multiplies its change."""
        factors = factors_of(expression)
        return [(self._product([*factors[:i], *factors[i + 1:]], t), factor)
                for i, factor in enumerate(factors) if random_parts(factor)]

    def _product(self, factors: list[sp.Expr], t: int) -> GraphNode:
        return self.parts(sp.Mul(*factors, evaluate=False) if factors else sp.Integer(1), t)

    def summed(self, expression: sp.Expr, part: Callable[[sp.Expr], GraphNode]) -> GraphNode:
        """The product rule over a sum."""
        return self.graph.union([self.graph.times(others, part(factor)) for term in additive_terms(expression)
                                 if random_parts(term) for others, factor in self.slopes(term, 0)])

    def derivative(self, factor: sp.Expr, base: BaseQuantity) -> GraphNode:
        """A factor's derivative in a base ket."""
        if isinstance(factor, Ket):
            return self.of_ket(DERIVATIVE, factor.vector, base)
        if isinstance(factor, Hat):
            product, values = self.reading.equations.setting.product_like(factor.vector)
            born = base.own and product.number == base.number and int(product.below[0].xreplace(values)) == base.step
            return self.graph.unit if born else self.graph.nothing
        return self.functions.derivative(factor, base)

    def moved(self, factor: sp.Expr) -> GraphNode:
        """A factor's change since the first step."""
        if isinstance(factor, Ket):
            return self.of_ket(CHANGE, factor.vector)
        return self._hat(CHANGE, factor) if isinstance(factor, Hat) else self.functions.change(factor)

    def change(self, term: sp.Expr, written: sp.Expr, t: int) -> GraphNode:
        """A term's change since the first step on the same input; sums over earlier steps are new, and of a product
        with what decay leaves of an initial matrix a share of order one is gone."""
        if t == 0:
            return self.graph.nothing
        if not self.reading.is_of_now(term, written, t):
            return self.parts(written, t)
        moved = [self.graph.times(others, self.moved(factor)) for others, factor in self.slopes(written, t)]
        moved += [self.graph.times(others, number) for others, number in self.moved_numbers(written, t)]
        return self.graph.union([*moved, *([self.parts(written, t)] * self.reading.shrinks(term))])

    def moved_numbers(self, written: sp.Expr, t: int) -> list[tuple[GraphNode, GraphNode]]:
        """The changes of mean derivatives in a product, each with what multiplies it."""
        factors = factors_of(written)
        found = [(i, self.mean(self.of_ket(TURNED, factor.vector, self.reading.base_of(factor))))
                 for i, factor in enumerate(factors) if isinstance(factor, Response)]
        return [(self._product([*factors[:i], *factors[i + 1:]], t), change) for i, change in found
                if change is not self.graph.nothing]

    def turned(self, factor: sp.Expr, base: BaseQuantity) -> GraphNode:
        """The change of a factor's derivative in a base ket since the first step."""
        if isinstance(factor, Ket):
            return self.of_ket(TURNED, factor.vector, base)
        return self.graph.nothing if isinstance(factor, Hat) else self.functions.turned(factor, base)

    def change_of_derivative(self, term: sp.Expr, written: sp.Expr, t: int, base: BaseQuantity) -> GraphNode:
        """The change of a term's derivative in a base ket since the first step."""
        if t == 0:
            return self.graph.nothing
        now = self.reading.is_of_now(term, written, t)
        found, factors = [], factors_of(written)
        for i, factor in enumerate(factors):
            if not random_parts(factor):
                continue
            slope = self.derivative(factor, base)
            if now:
                found.append(self.graph.times(self._product([*factors[:i], *factors[i + 1:]], t),
                                              self.turned(factor, base)))
            if slope is self.graph.nothing:
                continue
            others = sp.Mul(*factors[:i], *factors[i + 1:], evaluate=False)
            found.append(self.graph.times(self.change(term, others, t) if now else self.parts(others, t), slope))
        return self.graph.union(found)

    # Numbers.

    def mean(self, node: GraphNode) -> GraphNode:
        return self.graph.routed(MeanNode, node)

    def numbers(self, expression: sp.Expr, t: int) -> GraphNode:
        return self.graph.times(*(self._number(factor, t) for factor in sp.Mul.make_args(expression)))

    def _number(self, factor: sp.Expr, t: int) -> GraphNode:
        if (factor, t) not in self._numbers:
            self._numbers[factor, t] = self._read_number(factor, t)
        return self._numbers[factor, t]

    def _read_number(self, factor: sp.Expr, t: int) -> GraphNode:
        reading, (base, power) = self.reading, factor.as_base_exp()
        if base == reading.variable:
            return self.graph.weight(Affine.of(power, reading.parameters))
        if factor.func in NUMBERS:
            return NUMBERS[factor.func](self, factor, t)
        if factor.is_Pow and power.is_Rational and factor.has(Bracket, Expectation):
            return self._root(base, power)
        if isinstance(factor, Scalar) and factor.name in reading.scalars:
            number = counted_scalar(factor)
            return self.reference(Unknown(SCALAR, number.step, number.name))
        fixed = factor.is_number or isinstance(factor, Scalar) or base == reading.equations.setting.depth
        if fixed or factor.free_symbols <= set(reading.parameters):
            return self.graph.unit
        if factor.free_symbols <= {reading.variable, *reading.parameters} and not factor.has(Member):
            if factor.is_Add and len({sp.sign(term.as_coeff_Mul()[0]) for term in factor.args}) == 1:  # none cancels
                return self.graph.union([self.numbers(term, t) for term in factor.args])
            return self.graph.weight(Affine.of(power_of(factor, reading.variable), reading.parameters))
        layer = next((i for i in reading.layers if i in factor.free_symbols), None)
        if layer is None or factor.free_symbols - {layer, reading.variable, *reading.parameters}:
            raise NotCovered(f"{factor}: no rule for its order in L")
        return self.graph.union([self.graph.weight(Affine.of(power, reading.parameters))
                                 for power, _ in in_powers(factor, layer, reading.variable)])

    def _root(self, base: sp.Expr, power: sp.Rational) -> GraphNode:
        """A power of a sum of squares, which nothing cancels in, a whole power of the root mean square.

        The root mean square stays away from zero, as that of the stream does, so that its inverse is at most of order
        one; where it grows with depth the inverse falls.
        """
        kets, twice = squares(base), 2 * power
        if not kets or not twice.is_Integer:
            raise NotCovered(f"({base})**({power}): no rule for its order in L; there is one for half powers of sums "
                             "of squares")
        size = self.graph.union([self.size(self.parts(square, 0)) for square in kets])
        if twice < 0:
            of = frozenset(self.reading.family(v) for one in kets for v in one.atoms(Vector)
                           if self.reading.initial(v) is None)
            return self.functions.shrunk(size, int(twice), kind=of)
        return self.graph.times(*[size] * int(twice))

    def _response(self, response: Response, t: int) -> GraphNode:
        """The mean of a derivative."""
        return self.mean(self.of_ket(DERIVATIVE, response.vector, self.reading.base_of(response)))

    def _expectation(self, mean: Expectation, t: int) -> GraphNode:
        return self.mean(self.graph.union([self.parts(term, t) for term in additive_terms(mean.body)]))

    def _bracket(self, bracket: Bracket, t: int) -> GraphNode:
        for initial, other in (bracket.args, bracket.args[::-1]):
            number = self.reading.initial(initial)
            if number is not None:  # Stein: <u|v> is the mean derivative of v in u
                plain = self.mean(self.of_ket(DERIVATIVE, other, BaseQuantity(-1, number)))
                if self.reading.initial(other) is not None:
                    return plain
                moved = self.graph.times(self.of_ket(CHANGE, other), self.of_ket(KET, initial))
                return self.graph.node(Held, self.mean(moved), plain, step=self.reading.step(other))
        u, v = (self.of_ket(KET, vector) for vector in bracket.args)
        return self.mean(self.graph.times(u, v))


NUMBERS: dict[type[sp.Expr], Callable[[Expressions, sp.Expr, int], GraphNode]] = {
    Response: Expressions._response, Bracket: Expressions._bracket, Expectation: Expressions._expectation}
