"""What unknowns are made of: the terms of ket equations, each with the node of its size and how it enters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Iterator

import sympy as sp

from ..orders.quantities import BaseQuantity
from ..orders.terms import additive_terms
from ..programs.language import LossDerivative
from .expressions import Expressions
from .functions import Functions
from .graph import Centered, ExponentGraph, GraphNode
from .unknowns import CHANGE, KET, SCALAR, SHRINK, TURNED, Unknown
from .reading import EquationReader
from .term_signs import TermSign, sign_of_term


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
