"""``Counted``: ket equations as a graph, from which exponents at any point are evaluated."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import Callable, Mapping, Sequence

import sympy as sp

from ..errors import NotCovered
from ..calculus.equations import KetEquations
from ..orders.affine import point_of
from ..orders.said import in_names_of
from .entries import Enters, TermEntries, TermEntry
from .graph import GraphNode
from .unknowns import KET, Unknown
from .reading import EquationReader
from .solution import SizeSolution
from .sweeps import UnknownSweep, sweeps_of

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
