"""``Counted``: ket equations as a graph, term by term, from which exponents at any point are evaluated."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import Callable, Iterator, Mapping, Sequence

import sympy as sp

from ..calculus.equations import KetEquations
from ..errors import NotCovered
from ..orders.affine import point_of
from ..orders.quantities import BaseQuantity, additive_terms, in_names_of
from ..programs.language import LossDerivative
from .expressions import Expressions
from .functions import Functions
from .graph import Centered, Enters, ExponentGraph, GraphNode, TermEntry
from .parts import CHANGE, KET, SCALAR, SHRINK, TURNED, Unknown
from .reading import EquationReader
from .signs import TermSign, sign_of_term
from .solution import SizeSolution
from .solving import UnknownSweep, sweeps_of


class TermEntries:
    """The terms of unknowns, found when they are asked for, and those of what they read, until none is new."""

    def __init__(self, reading: EquationReader) -> None:
        self.reading, self.graph = reading, ExponentGraph()
        self.expressions = Expressions(reading, self.graph, self._ask)
        self.of: dict[Unknown, list[TermEntry]] = {}
        self._waiting: list[Unknown] = []
        self._signs: dict[tuple[int, sp.Expr], TermSign] = {}
        self.steps = 0

    @property
    def functions(self) -> Functions:
        return self.expressions.functions

    def upto(self, steps: int) -> None:
        """Find the terms of what is read in so many training steps."""
        for t in range(self.steps, steps):
            for family in self.reading.of_family:
                self._ask(Unknown(KET, t, family))
                if t:
                    self._ask(Unknown(CHANGE, t, family))
            for name in self.reading.scalars:
                self._ask(Unknown(SCALAR, t, name))
        self.steps = max(steps, self.steps)
        while self._waiting:
            key = self._waiting.pop()
            if key.sort != SHRINK:
                self.of[key] = list(self._of_scalar(key) if key.sort == SCALAR else self._of_vector(key))
                continue
            size = self.functions.shrinks[key]
            self.of[key] = [TermEntry(key, size, Enters.PLAIN, -1, sp.Integer(0))]

    def ask(self, key: Unknown) -> None:
        """An unknown that nothing else reads."""
        self._ask(key)
        self.upto(self.steps)

    def _ask(self, key: Unknown) -> None:
        if key not in self.of:
            self.of[key] = []
            self._waiting.append(key)

    def _of_scalar(self, key: Unknown) -> Iterator[TermEntry]:
        number, e = self.reading.scalars[str(key.name)]
        now, of = self.reading.at(key.step), self.expressions
        if e.value.has(LossDerivative):  # of order one in an output of order one, beyond that of the output's order
            output, = e.value.atoms(LossDerivative)
            for node in (self.graph.unit, of.numbers(output.args[0].xreplace(now), key.step)):
                yield TermEntry(key, node, Enters.PLAIN, number, e.value)
            return
        for term in additive_terms(e.value):
            yield TermEntry(key, of.numbers(term.xreplace(now), key.step), Enters.PLAIN, number, term)

    def _of_vector(self, key: Unknown) -> Iterator[TermEntry]:
        family = int(key.name)
        stream = family in self.reading.accumulating
        for number, e in self.reading.of_family[family]:
            layers = bool(e.location.loops[1:])
            bases = self._bases(key.base, stream, layers)
            for term, centered in self.reading.terms(number):
                for written in self.reading.written(term, key.step):
                    damping = self._damping(family, term, written, key.step) if layers and stream else None
                    for base in bases:
                        node = self._node(key, term, written, base)
                        if node is self.graph.nothing:
                            continue
                        if base is None and (centered or family in self.reading.odd):
                            node = self.graph.routed(Centered, node)
                        yield TermEntry(key, node, self._enters(stream, layers, base), number, term,
                                        isinstance(term, sp.Sum), damping)

    @staticmethod
    def _bases(base: BaseQuantity | None, stream: bool, layers: bool) -> list[BaseQuantity | None]:
        """What a derivative in a base ket is made of: of a stream, in hat-kets of other layers and of its own."""
        if base is None or base.is_initial:
            return [base]
        both: list[BaseQuantity | None] = [base, BaseQuantity(base.step, base.number, True)] if stream else [base]
        return [one for one in both if layers or one is None or not one.own]

    @staticmethod
    def _enters(stream: bool, layers: bool, base: BaseQuantity | None) -> Enters:
        if not stream:
            return Enters.PLAIN
        if not layers:
            return Enters.ONCE
        return Enters.BORN if base is not None and base.own else Enters.LAYERS

    def _node(self, key: Unknown, term: sp.Expr, written: sp.Expr, base: BaseQuantity | None) -> GraphNode:
        of = self.expressions
        if key.sort == KET:
            return of.parts(written, key.step)
        if key.sort == CHANGE:
            return of.change(term, written, key.step)
        assert base is not None
        if key.sort == TURNED:
            return of.change_of_derivative(term, written, key.step, base)
        return self.graph.union([self.graph.times(others, of.derivative(factor, base))
                                 for others, factor in of.slopes(written, key.step)])

    def _damping(self, family: int, term: sp.Expr, written: sp.Expr, t: int) -> GraphNode | None:
        """What a term takes of the stream itself in a layer, where it is a share of it."""
        if not self.reading.is_of_now(term, written, t):
            return None
        found = self.sign(family, term)
        return self.expressions.numbers(found.number, t) if found.damps else None

    def sign(self, family: int, term: sp.Expr) -> TermSign:
        """What a term does to the stream of a family at the first step, found once for all points."""
        if (family, term) not in self._signs:
            self._signs[family, term] = sign_of_term(self.reading, family, term)
        return self._signs[family, term]


USUAL, MOST = 3, 8  # steps that decide all others in most networks, and that are tried


class Counted:
    """Ket equations whose sizes are counted in powers of the depth, at any values of the symbols in exponents.

    The graph is built once, for as many training steps as are asked for, and shared by all points. Raises
    ``ValueError`` for a program without layers, and for a term that no rule covers, naming it.

    >>> import sympy as sp, tpcalc as tp
    >>> from tpcalc.asymptotics import Counted
    >>> alpha, gamma = sp.symbols("alpha gamma", real=True)
    >>> counted = Counted(tp.kets(tp.program(tp.ResNet("tanh"), tp.SGD(), tp.DepthScaling(alpha, gamma))))
    >>> there = counted.at({alpha: 1, gamma: sp.Rational(1, 2)}, steps=2)
    >>> there.size("x", 0).exponent, there.size("f", 1).exponent
    (0, -1/2)
    """

    def __init__(self, equations: KetEquations) -> None:
        self.equations = equations
        self.reading = EquationReader(equations)
        self.entries = TermEntries(self.reading)
        self._sweeps: dict[int, tuple[int, list[UnknownSweep]]] = {}

    @cached_property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """The symbols in the exponents."""
        return self.reading.parameters

    @property
    def nodes(self) -> list[GraphNode]:
        return self.entries.graph.nodes

    def point(self, values: Mapping[sp.Symbol, sp.Expr]) -> tuple[Fraction, ...]:
        """Rational values of all symbols; raises ``ValueError`` where one is missing, or irrational."""
        found = point_of(dict(values), self.parameters)
        for name, value in zip(self.parameters, found):
            if not isinstance(value, Fraction):
                raise ValueError(f"{name}: got {value}; expected rational numbers")
        return found  # type: ignore[return-value]

    def is_gradual(self, values: Mapping[sp.Symbol, sp.Expr]) -> bool:
        """Does a layer change streams by less than they are, at first? Else what layers do is no small change of them,
        and is to be told from the equations at these values."""
        self.entries.upto(1)
        point, reading = self.point(values), self.reading
        return all(form.at(point) < 0 for stream in reading.accumulating
                   for entry in self.entries.of[Unknown(KET, 0, stream)] if entry.enters == Enters.LAYERS
                   for form in reading.powers_of(entry.term))

    def start(self, values: Mapping[sp.Symbol, sp.Expr], keep: Callable[[TermEntry], bool] | None = None,
              directions: Sequence[Sequence[Fraction]] = ()) -> SizeSolution:
        """A solution of no step yet."""
        return SizeSolution(self, self.point(values), keep, tuple(map(tuple, directions)))

    def at(self, values: Mapping[sp.Symbol, sp.Expr], steps: int = 2, keep: Callable[[TermEntry], bool] | None = None,
           directions: Sequence[Sequence[Fraction]] = (), first: SizeSolution | None = None) -> SizeSolution:
        """The exponents of the first training steps at values of all symbols, rational numbers.

        keep: which terms are counted. directions: along which the point is thought of as moved a little, which breaks
        ties, and by which the affine form that is active there is read off. first: a solution there of first steps,
        found when as many were read as now, which is gone on from.
        """
        with in_names_of(self.equations.setting):
            self.entries.upto(steps)  # later steps read more of earlier ones
            found = self.start(values, keep, directions) if first is None else first.continued(keep)
            for t in range(found.steps, steps):
                if t and found.explosions or found.unsigned is not None:
                    break
                found.solve(t)
            return found

    def settled(self, values: Mapping[sp.Symbol, sp.Expr], directions: Sequence[Sequence[Fraction]] = ()
                ) -> SizeSolution:
        """The exponents of so many training steps as decide those of all.

        That is done where something explodes or an output grows with depth, where exponents grow from one step to the
        next when every stream has been reached, and where a step repeats those of the one before: the maximum being
        idempotent, they then hold for all later steps. Raises ``ValueError`` where some still change after ``MOST``.
        """
        with in_names_of(self.equations.setting):
            for steps in range(USUAL, MOST + 1):
                found = self._decided(values, steps, directions)
                if found is not None:
                    return found
        raise NotCovered(f"the exponents of program {self.reading.name} still change at step {MOST}")

    def updated(self, values: Mapping[sp.Symbol, sp.Expr], updates: int) -> SizeSolution:
        """The exponents after so many updates; of fewer steps where something explodes, or one repeats the exponents of
        the one before, which those after it then have."""
        with in_names_of(self.equations.setting):
            several = (self._decided(values, steps, (), updates)
                       for steps in range(min(USUAL, updates + 1), updates + 2))  # of the last there is always one
            return next(found for found in several if found is not None)

    def _decided(self, values: Mapping[sp.Symbol, sp.Expr], steps: int, directions: Sequence[Sequence[Fraction]],
                 updates: int | None = None) -> SizeSolution | None:
        """The solution of at most so many steps, where these decide all others, or ``updates`` are all that is asked
        for."""
        self.entries.upto(steps)
        found = self.start(values, None, directions)
        streams = max(1, len(self.reading.accumulating) // 2)  # one's effect may reach another with the next step
        for t in range(steps):
            found.solve(t)
            bounded = found.is_bounded(t)
            if found.unsigned is not None:  # training does not start
                return found
            held = found.is_held(t)
            if found.explosions and held and t < 2 and t != updates:
                continue  # what explodes is an upper bound; the next step tells what it does
            if found.explosions or not bounded and updates is None:
                found.held, found.grows = held, not found.explosions and t > 1  # outputs do that did not before
                return found
            if t > streams and found.growing(t) and updates is None:
                found.grows = True
                return found
            found.settled = t > 1 and found.repeats(t)
            if found.settled or t == updates:
                return found
        return None

    def sweeps(self, t: int) -> list[UnknownSweep]:
        """The unknowns of a step, those that depend on each other together, each after what it depends on."""
        found = self._sweeps.get(t)
        if found is None or found[0] != len(self.entries.of):
            keys: list[Unknown] = [key for key in self.entries.of if key.step == t]
            found = self._sweeps[t] = len(self.entries.of), sweeps_of(keys, self.entries.of, self.nodes)
        return found[1]
