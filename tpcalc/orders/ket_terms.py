"""The terms of ket equations as contributions, for programs of any activation.

Quantities: the parts (``ket_parts.py``) of every ket, of its change since the first step, and of its derivatives in
base kets. What the program centres has no mean, nor has an odd function of base kets.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import Iterator

import sympy as sp

from ..calculus.equations import KetEquation, KetEquations
from ..programs.language import LossDerivative, Scal
from .affine import Affine
from .demand import Derivative, base_for, demanded
from ..asymptotics.factors import centred_pairs, gathered
from .ket_parts import KetParts
from .parts import Monomials, Parts, total
from .quantities import STREAM, Base, Label, Quantity, Sort
from .growing_variable import Values
from .terms import Contribution, split

MOST_TERMS = 40_000  # of a training step; a tanh block of five matrices has a quarter of it
FEW = 2  # matrices of a layer, of whose parts each is a quantity of its own


@dataclass(frozen=True)
class KetTerms:
    """Ket equations whose terms are to be counted in powers of L, perhaps with values for some parameters.

    growing: the variable whose powers are counted, the depth where none is given; saturated: bounded functions, by
    their BEND, that are taken to be saturated; last: the last training step that is counted, where there is one, so
    that derivatives that later ones alone read are left out.
    """

    equations: KetEquations
    at: Values = ()
    growing: sp.Symbol | None = None
    saturated: frozenset[Quantity] = frozenset()
    last: int | None = None

    @cached_property
    def _demanded(self) -> frozenset[Derivative] | None:
        return None if self.last is None else demanded(self, self.last)

    @cached_property
    def reading(self) -> KetParts:
        return KetParts(self.equations, self.at, self.growing, self.saturated)

    @cached_property
    def _all_layers(self) -> Affine:
        """The power of the growing variable that the number of layers is."""
        return self.reading.form(int(self.reading.variable == self.equations.setting.depth))

    @property
    def name(self) -> str:
        return self.reading.name

    @property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """The symbols in the exponents of L."""
        return self.reading.parameters

    @property
    def accumulating(self) -> frozenset[int]:
        """Families that a layer adds to."""
        return self.reading.accumulating

    def outputs(self, t: int) -> list[Quantity]:
        """The scalars that the program computes at step t."""
        return [Quantity.scalar(e.target.name, t) for e in self.reading.scalars]

    @property
    def _time(self) -> sp.Symbol:
        return self.equations.setting.time

    def of_step(self, t: int) -> tuple[Contribution, ...]:
        """All contributions to the quantities of training step t."""
        while True:  # which parts there are, then how large they are
            known = {key: set(labels) for key, labels in self.reading.labels.items()}
            found = tuple(islice((one for number, e in enumerate(self.equations.equations)
                                  for one in self._of_equation(number, e, t)), MOST_TERMS + 1))
            if len(found) > MOST_TERMS:
                raise ValueError(f"program {self.name}: training step {t} has more than {MOST_TERMS} terms, because "
                                 "functions and gates multiply vectors that are random in several ways at once; too "
                                 "many to count powers of L")
            if self.reading.labels == known:
                return (*found, *self._of_nodes(t))

    def _of_nodes(self, t: int) -> Iterator[Contribution]:
        """What the bends and shrinks of functions at step t are made of."""
        for node, (monomials, power) in self.reading.functions.nodes.items():
            for one in monomials if node.step == t else ():
                yield Contribution(node, one.weight, one.factors, -1, sp.Symbol(node.name), False, "", one.bound, power)

    def _of_equation(self, number: int, e: KetEquation, t: int) -> Iterator[Contribution]:
        if isinstance(e.target, Scal):
            yield from self._of_scalar(number, e, t)
            return
        stream, layers = self.reading.family(e.target.vector), bool(e.place.loops[1:])
        terms = [term for term in split(e.value) if not self.reading.is_stream(e, term)]
        for term, centred in centred_pairs(gathered(terms)):
            update, sign = isinstance(term, sp.Sum), self.reading.sign(term)
            for written in self.written(term, t):
                for sort, base, parts in self._read(stream, term, written, t, layers):
                    centred_here = base is None and (centred or stream in self.reading.odd)
                    for label, monomials in self._told_apart(parts.centred() if centred_here else parts):
                        for to, gain, rule in self._entering(label, stream, base, layers):
                            target = self.reading.key(sort, to, t, stream, base)
                            for one in monomials:
                                yield Contribution(target, one.weight + gain, one.factors, number, term, update, rule,
                                                   one.bound, sign=sign)

    def _told_apart(self, parts: Parts) -> Iterator[tuple[Label, Monomials]]:
        """Parts one by one where matrices are few: what another term adds to some of them may differ in size."""
        few = len(self.equations.setting.program.matrices) <= FEW
        for label, monomials in parts:
            yield from ((one, monomials) for one in (label.each() if few else [label]))

    def _read(self, family: int, term: sp.Expr, written: sp.Expr, t: int, layers: bool
              ) -> Iterator[tuple[Sort, Base | None, Parts]]:
        """A term's own parts, those of its change and of its derivatives."""
        yield Sort.KET, None, self.reading.parts(written, t)
        yield Sort.CHANGE, None, self.reading.change(term, written, t)
        slopes = self.reading.slopes(written, t)
        for base in self._bases(t, layers):
            if self._demanded is not None and (family, t, base_for(self, family, base)) not in self._demanded:
                continue
            yield Sort.DERIVATIVE, base, total(others.times(self.reading.derivative(factor, base))
                                               for others, factor in slopes)

    def _entering(self, label: Label, family: int, base: Base | None, layers: bool
                  ) -> list[tuple[Label, Affine, str]]:
        """Which parts of a vector a part of a term enters, with what gain and why; those of a stream one by one."""
        if family not in self.accumulating:
            return [(label, self.reading.form(0), "")]
        slow = [part for one in label.within(frozenset((-1,))) for part in {  # what it has that no layer draws
            Label.of(one.sources), Label.of(one.possible)}]
        fresh = label.possible - {-1}
        if not layers or base is not None and base.own:
            rule = "born" if layers else ""
            return [(to, self.reading.form(0), rule) for to in sorted({*slow, *([STREAM] if fresh else [])})]
        found = [(to, self._all_layers, "layers") for to in sorted(slow)]
        return found + ([(STREAM, self._all_layers * Fraction(1, 2), "independent layers")] if fresh else [])

    def _of_scalar(self, number: int, e: KetEquation, t: int) -> Iterator[Contribution]:
        target = Quantity.scalar(e.target.name, t)
        if e.value.has(LossDerivative):  # of order one in an output of order one, beyond that of the output's order
            output, = e.value.atoms(LossDerivative)
            yield Contribution(target, self.reading.form(0), (), number, e.value, False, "loss")
            for one in self.reading.numbers(output.args[0].subs(self._time, t), t):
                yield Contribution(target, one.weight, one.factors, number, e.value, False, "loss", one.bound)
            return
        for term in split(e.value):
            for one in self.reading.numbers(term.subs(self._time, t), t):
                yield Contribution(target, one.weight, one.factors, number, term, False, "", one.bound)

    def _bases(self, t: int, layers: bool) -> list[Base]:
        setting = self.equations.setting
        found = [Base(-1, b) for b in range(len(setting.program.vectors))]
        for r in range(t + 1):
            for b in range(len(setting.products)):
                found += [Base(r, b, own) for own in ((False, True) if layers else (False,))]
        return found

    def written(self, term: sp.Expr, t: int) -> Iterator[sp.Expr]:
        """A term at step t, its sums over steps written out."""
        time = self._time
        if not isinstance(term, sp.Sum):
            yield term.subs(time, t)
            return
        if len(term.limits) != 1:
            over = ", ".join(str(limit[0]) for limit in term.limits)
            raise ValueError(f"{term}: a sum over {over}, as of a matrix that several layers share; no rule for its "
                             "order in L")
        (s, first, last), = term.limits
        for value in range(int(first.subs(time, t)), int(last.subs(time, t)) + 1):
            yield term.function.subs({s: value, time: t}, simultaneous=True)
