"""The terms of a derived recursion as contributions: powers of L times quantities, for numbers of the first steps.

Rules:
  product      exponents add; sum: the largest wins (no cancellation assumed);
  born         what a layer creates of its own enters once;
  layers       what enters the residual stream at every layer adds up coherently: + 1;
  base layers  a sum over the layers of independent hat-kets adds 1 to the square, 1/2 to the amplitude.
Vectors made afresh in every layer (inside a block) keep two exponents for a hat-ket: that of their own layer,
and of all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Iterator, Sequence

import sympy as sp

from ..calculus.coefficients import B, R, Bases
from ..calculus.kets import Gamma
from ..calculus.recursion import RecursionEquation, RecursionEquations
from ..errors import NotCovered
from ..programs.language import Scalar
from .affine import Affine, Contribution
from .quantities import (Index, Monomial, Named, Quantity, Summand, Values, additive_terms, free_parameters,
                         growing_variable, in_powers, sign_on_layers, unknown_range)

GIVEN = sp.Dummy("given", real=True)


@dataclass(frozen=True)
class Terms:
    """A recursion whose terms are to be counted in powers of L, perhaps with values for some parameters. Raises
    ``ValueError`` for a program without layers."""

    recursion: RecursionEquations
    at: Values = ()

    def __post_init__(self) -> None:
        self.variable

    @property
    def variable(self) -> sp.Symbol:
        return growing_variable(self.recursion.setting)

    @property
    def name(self) -> str:
        return self.recursion.setting.program.name

    def outputs(self, t: int) -> list[Quantity]:
        """The scalars that the program computes at step t."""
        return [Quantity.scalar(e.target.name, t) for e in self.recursion.equations if e.kind == "scalar"]

    @cached_property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """The symbols in the exponents of L."""
        return free_parameters([e.value for e in self.recursion.equations], self.variable, self.at)

    @cached_property
    def accumulating(self) -> frozenset[int]:
        """Families that a layer adds to: their equation contains them at the layer before, with coefficient one."""
        return frozenset(int(e.target.args[0]) for e in self.recursion.equations if e.kind == "Gamma"
                         for term in additive_terms(e.value) if is_carried(e, term))

    def of_step(self, t: int) -> tuple[Contribution, ...]:
        """All contributions to the quantities of training step t."""
        return tuple(one for number, equation in enumerate(self.recursion.equations)
                     for one in self._of_equation(number, equation, t))

    def _of_equation(self, number: int, equation: RecursionEquation, t: int) -> Iterator[Contribution]:
        if equation.kind == "memory":
            self._require_order_one(equation)
            return
        for numbers in self._instances(equation, t):
            for here in (False, True) if self._has_layers(equation, numbers) else (None,):
                target, summands = self._read(number, here)
                for one in summands:
                    yield from self._contributions(number, equation, target.at(numbers), one, numbers, here is True)

    def _instances(self, equation: RecursionEquation, t: int) -> list[dict[sp.Symbol, int]]:
        """Numbers for steps and families of an equation's target at step t."""
        setting = self.recursion.setting
        now: dict[sp.Symbol, int] = {setting.time: t}
        if equation.kind == "C":
            return [{**now, setting.past: s} for s in range(t + 1)]
        if equation.kind != "Gamma":
            return [now]
        return [{**now, R: -1, B: b} for b in range(len(setting.program.vectors))] + [
            {**now, R: r, B: b} for r in range(t + 1) for b in range(len(setting.products))]

    def _has_layers(self, equation: RecursionEquation, numbers: dict[sp.Symbol, int]) -> bool:
        """Is there a base layer to compare with the layer of the equation?"""
        return equation.kind == "Gamma" and bool(equation.location.loops[1:]) and numbers.get(R, -1) >= 0

    @cached_property
    def _already_read(self) -> dict[tuple[int, bool | None], tuple[Named, tuple[Summand, ...]]]:
        return {}

    def _read(self, number: int, here: bool | None) -> tuple[Named, tuple[Summand, ...]]:
        """An equation's target and terms, read with the base layer set to the equation's layer or known to differ."""
        if (number, here) not in self._already_read:
            equation = self.recursion.equations[number]
            target = Named.of(self._placed(equation.target, equation, here), self.accumulating)
            found = tuple(self._summand(term, equation, here) for term in additive_terms(equation.value)
                          if not is_carried(equation, term))  # y(l) = y(l - 1) + ...: the sweep itself
            self._already_read[number, here] = target, found
        return self._already_read[number, here]

    def _placed(self, expression: sp.Expr, equation: RecursionEquation, here: bool | None) -> sp.Expr:
        """The base layer m set to the equation's layer, or (``here`` false) known to differ from it."""
        if here is None:
            return expression
        base = self._base_layer
        if here:
            return expression.subs(base, equation.location.loops[-1].index)
        return expression.replace(lambda e: isinstance(e, sp.KroneckerDelta) and e.has(base), lambda e: sp.Integer(0))

    def _summand(self, term: sp.Expr, equation: RecursionEquation, here: bool | None) -> Summand:
        """A term with the sums over steps and families that it is still under, and the layers it is summed over."""
        body, limits = (term.function, term.limits) if isinstance(term, sp.Sum) else (term, ())
        layers = tuple(v for v, *_ in limits if v in self._deep)
        finite = tuple((v, lo, hi) for v, lo, hi in limits if v not in self._deep)
        products = tuple(
            (Monomial.of(one, self._computed, self.accumulating, self._steps_and_families(finite), GIVEN), gain, rule)
            for one, gain, rule in self._layers_chosen(self._placed(body, equation, here), layers) if one != 0)
        try:
            ranges = tuple((v, Index.of(lo), Index.of(hi)) for v, lo, hi in finite)
        except NotCovered:
            raise unknown_range(term) from None
        return Summand(term, ranges, products)

    def _steps_and_families(self, finite: Sequence[tuple]) -> frozenset[sp.Symbol]:
        setting = self.recursion.setting
        return frozenset((setting.time, setting.past, R, B, *(v for v, *_ in finite)))

    def _layers_chosen(self, term: sp.Expr, layers: tuple[sp.Symbol, ...]) -> Iterator[tuple[sp.Expr, int, str]]:
        """A term summed over base layers: all layers but those of its vectors, and each of these alone."""
        yield term, len(layers), "base layers" if layers else ""
        for m in layers:
            for layer in sorted({g.args[4][0] for g in term.atoms(Gamma) if g.args[4] and m in g.args[5]}, key=str):
                yield term.subs(m, layer), len(layers) - 1, "own layer"

    @cached_property
    def _deep(self) -> frozenset[sp.Symbol]:
        """The layers of base kets in sums."""
        bases = Bases(self.recursion.setting)
        return frozenset((*bases.generic().args[2], *bases.generic("'").args[2]))

    @cached_property
    def _base_layer(self) -> sp.Symbol:
        base, = Bases(self.recursion.setting).generic().args[2]
        return base

    def _contributions(self, location: int, equation: RecursionEquation, target: Quantity, summand: Summand,
                       numbers: dict[sp.Symbol, int], here: bool) -> Iterator[Contribution]:
        """What a term adds to the target, at every step and family that it is summed over."""
        setting = self.recursion.setting
        layered = equation.kind == "Gamma" and bool(equation.location.loops[1:])
        coherent = layered and not here and target.number in self.accumulating
        for at in summand.values(numbers):
            earlier = any(v == setting.past for v, *_ in summand.ranges) and at[setting.past] < at[setting.time]
            update = earlier and equation.kind != "C"
            for product, gain, rule in summand.products:
                if product.is_zero(at):
                    continue
                for output in product.outputs:
                    # the derivative of a loss in an output of order one is of order one, beyond that of its order
                    yield Contribution(target, self._form(0), (output.at(at),), location, summand.term, update, "loss")
                rule = ("layers" if coherent else "born" if here else rule) if layered else rule
                factors = tuple(one.at(at) for one in product.quantities)
                for weight, sign in self._weights(product.number_at(at), location):
                    total = weight + self._form(gain + int(coherent))
                    yield Contribution(target, total, factors, location, summand.term, update, rule, sign=sign)

    def _weights(self, number: sp.Expr, location: int) -> tuple[tuple[Affine, int], ...]:
        """A coefficient's powers of the growing variable, with the signs of what stands in front of them."""
        if (number, location) not in self._already_weighed:
            self._already_weighed[number, location] = tuple(
                (Affine.of(power, self.parameters), sign_on_layers(function))
                for power, function in self._powers(number, self.recursion.equations[location]))
        return self._already_weighed[number, location]

    @cached_property
    def _already_weighed(self) -> dict[tuple[sp.Expr, int], tuple[tuple[Affine, int], ...]]:
        return {}

    def _require_order_one(self, equation: RecursionEquation) -> None:
        """What an optimizer remembers counts as a number: raise ``ValueError`` where it depends on the depth."""
        for term in additive_terms(equation.value):
            number = sp.Mul(*(f for f in sp.Mul.make_args(term) if not f.has(Scalar, sp.KroneckerDelta)))
            for power, _ in self._powers(number, equation):
                if not power.is_Integer or power > 0:
                    raise NotCovered(f"{equation.target} = {equation.value}: what an optimizer remembers goes like "
                                     f"{self.variable}^({power}); the order calculus covers memory that does not "
                                     "depend on the depth")

    def _form(self, value: int) -> Affine:
        return Affine.number(value, len(self.parameters))

    def _powers(self, number: sp.Expr, equation: RecursionEquation) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
        """A coefficient in powers of the growing variable, times functions of layer time."""
        loops = equation.location.loops[1:]
        layer = loops[-1].index if loops else None
        known = {*self.parameters, *number.atoms(sp.Dummy), self.variable, layer, self.recursion.setting.time}
        here = number.subs(self.at) if self.at else number
        left = here.free_symbols - known
        if left:
            raise NotCovered(f"{number} in {equation.target}: no rule for the order in L of "
                             f"{', '.join(sorted(map(str, left)))}")
        return in_powers(here, layer, self.variable)

    @cached_property
    def _computed(self) -> frozenset[str]:
        return frozenset(e.target.name for e in self.recursion.equations if e.kind == "scalar")


def is_carried(equation: RecursionEquation, term: sp.Expr) -> bool:
    """Is the term the target's own family, one layer before?"""
    if not (isinstance(term, Gamma) and term.args[:4] == equation.target.args[:4] and equation.location.loops[1:]):
        return False
    loop = equation.location.loops[-1]
    steps = [there - here for here, there in zip(equation.target.args[4], term.args[4])]
    return steps == [sp.Integer(1 if loop.descending else -1)]
