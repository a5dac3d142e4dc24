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
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product as ranges
from typing import Iterable, Iterator

import sympy as sp

from ..calculus.coefficients import B, R, Bases
from ..calculus.kets import Covariance, Gamma
from ..calculus.recursion import Equation, RecursionEquations
from ..programs.language import LossDerivative, Scal
from .affine import Affine
from .layer_functions import in_powers, sign_of
from .quantities import Base, Quantity

GIVEN, DEEP = sp.Dummy("given", real=True), sp.Dummy("deep", positive=True)  # what is given, and the depth as a number
Values = tuple[tuple[sp.Symbol, sp.Expr], ...]


def free_parameters(values: Iterable[sp.Expr], growing: sp.Expr, at: Values) -> tuple[sp.Symbol, ...]:
    """The symbols in the exponents of the growing variable that have no value."""
    powers = {p.exp for value in values for p in value.atoms(sp.Pow) if p.base == growing}
    return tuple(sorted(set().union(*(p.free_symbols for p in powers)) - {symbol for symbol, _ in at}, key=str))


@dataclass(frozen=True)
class Contribution:
    """One term of an equation for ``target``: L^weight times ``factors``, its layers' sums included.

    equation, term: where it stands in the recursion, and the symbolic term; update: it is there because of
    earlier training steps; rule: how it enters; sign: of its coefficient, 0 where that is not known; bound: it is an
    upper bound; power: where negative, the target is this power of what stands here, and of order one where that is
    small.
    """

    target: Quantity
    weight: Affine
    factors: tuple[Quantity, ...]
    equation: int
    term: sp.Expr
    update: bool
    rule: str
    bound: bool = False
    power: Fraction = Fraction(1)
    sign: int = 0


@dataclass(frozen=True)
class Terms:
    """A recursion whose terms are to be counted in powers of L, perhaps with values for some parameters.

    growing: the variable whose powers are counted, the depth where none is given. Raises ``ValueError`` for a program
    without layers then.
    """

    recursion: RecursionEquations
    at: Values = ()
    growing: sp.Symbol | None = None

    def __post_init__(self) -> None:
        if self.variable is None:
            raise ValueError(f"program {self.recursion.setting.program.name} has no layers, so that nothing depends "
                             "on the depth")

    @property
    def variable(self) -> sp.Symbol | None:
        """The growing variable."""
        return self.recursion.setting.depth if self.growing is None else self.growing

    @property
    def layers_grow(self) -> bool:
        """Is the number of layers what grows, so that a sum over them is a power of it?"""
        return self.variable == self.recursion.setting.depth

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
                         for term in split(e.value) if is_carried(e, term))

    def of_step(self, t: int) -> tuple[Contribution, ...]:
        """All contributions to the quantities of training step t."""
        return tuple(one for number, equation in enumerate(self.recursion.equations)
                     for one in self._of_equation(number, equation, t))

    def _of_equation(self, number: int, equation: Equation, t: int) -> Iterator[Contribution]:
        if equation.kind == "memory":
            self._require_order_one(equation)
            return
        for numbers in self._instances(equation, t):
            for here in (False, True):
                target = self._key(self._placed(equation.target.xreplace(numbers), equation, numbers, here))
                for term in split(equation.value):
                    for body, layers, earlier in self._written(term, numbers):
                        update = earlier and equation.kind != "C"
                        placed = self._placed(body, equation, numbers, here)
                        for one, gain, rule in self._layers_chosen(placed, layers):
                            yield from self._contribution(number, equation, term, target, one, gain, rule, here, update)
                if not self._has_layers(equation, numbers):
                    break

    def _instances(self, equation: Equation, t: int) -> list[dict[sp.Symbol, sp.Expr]]:
        """Numbers for steps and families of an equation's target at step t."""
        setting = self.recursion.setting
        now = {setting.time: sp.Integer(t)}
        if equation.kind == "C":
            return [{**now, setting.past: sp.Integer(s)} for s in range(t + 1)]
        if equation.kind != "Gamma":
            return [now]
        return [{**now, R: sp.Integer(-1), B: sp.Integer(b)} for b in range(len(setting.program.vectors))] + [
            {**now, R: sp.Integer(r), B: sp.Integer(b)} for r in range(t + 1) for b in range(len(setting.products))]

    def _has_layers(self, equation: Equation, numbers: dict) -> bool:
        """Is there a base layer to compare with the layer of the equation?"""
        return equation.kind == "Gamma" and bool(equation.place.loops[1:]) and numbers.get(R, -1) >= 0

    def _placed(self, expression: sp.Expr, equation: Equation, numbers: dict, here: bool) -> sp.Expr:
        """The base layer m set to the equation's layer, or (``here`` false) known to differ from it."""
        if not self._has_layers(equation, numbers):
            return expression
        base = self._base_layer
        if here:
            return expression.subs(base, equation.place.loops[-1].index)
        return expression.replace(lambda e: isinstance(e, sp.KroneckerDelta) and e.has(base), lambda e: sp.Integer(0))

    def _written(self, term: sp.Expr, numbers: dict) -> Iterator[tuple[sp.Expr, tuple[sp.Symbol, ...], bool]]:
        """A term with its sums over steps and families written out, the layers it is still summed over, and whether it
        is there because of an earlier step."""
        setting = self.recursion.setting
        if not isinstance(term, sp.Sum):
            yield term.xreplace(numbers), (), False
            return
        deep = self._deep
        finite = [(v, lo.xreplace(numbers), hi.xreplace(numbers)) for v, lo, hi in term.limits if v not in deep]
        if not all(lo.is_Integer and hi.is_Integer for _, lo, hi in finite):
            raise ValueError(f"{term}: a sum whose range is not that of steps, families or base kets' layers, as of a "
                             "matrix that all layers share; no rule for its order in L")
        layers = tuple(v for v, *_ in term.limits if v in deep)
        for values in ranges(*(range(int(lo), int(hi) + 1) for _, lo, hi in finite)):
            inner = {v: sp.Integer(i) for (v, _, _), i in zip(finite, values)}
            # bound variables shadow the free ones of the same name
            body = term.function.xreplace(inner).xreplace({k: v for k, v in numbers.items() if k not in inner})
            yield body, layers, bool(inner.get(setting.past, numbers[setting.time]) < numbers[setting.time])

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

    def _contribution(self, place: int, equation: Equation, term: sp.Expr, target: Quantity, placed: sp.Expr,
                      gain: int, rule: str, here: bool, update: bool) -> Iterator[Contribution]:
        if placed == 0:
            return
        one_sum = int(self.layers_grow)
        factors: list[Quantity] = []
        number: sp.Expr = sp.Integer(1)
        for factor in sp.Mul.make_args(placed):
            base, power = factor.as_base_exp()
            if isinstance(base, (Gamma, Covariance)):
                factors += [self._key(base)] * int(power)
            elif isinstance(factor, Scal) and factor.name in self._computed:
                factors.append(self._key(factor))
            elif isinstance(factor, LossDerivative):
                # the derivative of a loss in an output of order one is of order one, beyond that of the output's order
                yield Contribution(target, self._form(0), (self._key(factor.args[0]),), place, term, update, "loss")
            elif isinstance(factor, Scal):
                number *= GIVEN
            elif base == self.recursion.setting.depth and not self.layers_grow:
                number *= DEEP
            else:
                number *= factor
        if is_carried(equation, term):
            return  # y(l) = y(l - 1) + ...: the sweep itself
        coherent = False
        if equation.kind == "Gamma" and equation.place.loops[1:]:
            coherent = not here and target.number in self.accumulating
            rule = "layers" if coherent else "born" if here else rule
        for power, function in self._powers(number, equation):
            weight = Affine.of(power, self.parameters) + self._form((gain + int(coherent)) * one_sum)
            yield Contribution(target, weight, tuple(factors), place, term, update, rule, sign=sign_of(function))

    def _require_order_one(self, equation: Equation) -> None:
        """What an optimizer remembers counts as a number: raise ``ValueError`` where it depends on the depth."""
        for term in split(equation.value):
            number = sp.Mul(*(f for f in sp.Mul.make_args(term) if not f.has(Scal, sp.KroneckerDelta)))
            for power, _ in self._powers(number, equation):
                if not power.is_Integer or power > 0:
                    raise ValueError(f"{equation.target} = {equation.value}: what an optimizer remembers goes like "
                                     f"{self.variable}^({power}); the order calculus covers memory that does not "
                                     "depend on the depth")

    def _form(self, value: int) -> Affine:
        return Affine.number(value, len(self.parameters))

    def _powers(self, number: sp.Expr, equation: Equation) -> tuple[tuple[sp.Expr, sp.Expr], ...]:
        """A coefficient in powers of the growing variable, times functions of layer time."""
        depth, loops = self.recursion.setting.depth, equation.place.loops[1:]
        layer = loops[-1].index if loops else None
        known = {*self.parameters, *number.atoms(sp.Dummy), self.variable, depth, layer, self.recursion.setting.time}
        here = number.subs(self.at) if self.at else number
        left = here.free_symbols - known
        if left:
            raise ValueError(f"{number} in {equation.target}: no rule for the order in L of "
                             f"{', '.join(sorted(map(str, left)))}")
        assert self.variable is not None
        return in_powers(here, layer if self.layers_grow else None, self.variable)

    @cached_property
    def _computed(self) -> frozenset[str]:
        return frozenset(e.target.name for e in self.recursion.equations if e.kind == "scalar")

    def _key(self, quantity: sp.Expr) -> Quantity:
        if isinstance(quantity, Gamma):
            a, b, t, r, layers, base = quantity.args
            own = bool(base) and layers == base and int(a) not in self.accumulating and int(r[0]) >= 0
            return Quantity.coefficient(a, t[0], Base(int(r[0]), int(b), own))
        if isinstance(quantity, Covariance):
            b, c, t, s = quantity.args[:4]
            return Quantity.covariance(b, t[0], c, s[0])
        return counted_scalar(quantity)


def counted_scalar(scalar: Scal) -> Quantity:
    """The quantity that a scalar at a step is; raises ``ValueError`` for a scalar with other indices."""
    if len(scalar.indices) != 1 or not scalar.indices[0].is_Integer:
        raise ValueError(f"{scalar}: no rule for its order in L; a scalar with one index, the training step, has one")
    return Quantity.scalar(scalar.name, scalar.indices[0])


def is_carried(equation: Equation, term: sp.Expr) -> bool:
    """Is the term the target's own family, one layer before?"""
    if not (isinstance(term, Gamma) and term.args[:4] == equation.target.args[:4] and equation.place.loops[1:]):
        return False
    loop = equation.place.loops[-1]
    steps = [there - here for here, there in zip(equation.target.args[4], term.args[4])]
    return steps == [sp.Integer(1 if loop.descending else -1)]


@lru_cache(maxsize=4096)
def split(value: sp.Expr) -> tuple[sp.Expr, ...]:
    """Additive terms, sums taken apart too: each is a product, or a sum over steps or layers of one."""
    found: list[sp.Expr] = []
    for term in sp.Add.make_args(sp.expand(value)):
        sums = [f for f in sp.Mul.make_args(term) if isinstance(f, sp.Sum)]
        if not sums:
            found.append(term)
            continue
        total, = sums
        front = sp.Mul(*(f for f in sp.Mul.make_args(term) if f is not total))
        found += [sp.Sum(front * part, *total.limits) for part in sp.Add.make_args(sp.expand(total.function))]
    return tuple(found)
