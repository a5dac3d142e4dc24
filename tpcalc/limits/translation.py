"""The limit of one surviving term of a recursion, in which sums over layers become integrals over layer time.

Layers become layer times: l/L is p, the base ket's m/L is q. A sum over base layers is an integral over [0, 1], what
enters at every layer an integral over the layers passed, what is born at one layer the indicator of those after it.
Coefficients of neighboring layers, Gamma(l - 1; l) and Gamma(l; l), are one-sided values at p = q: a vector before
its base ket's layer has p < q. Source: Tensor Programs VI, Proposition C.4 and appendix H.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import sympy as sp

from .._checks import symbolic
from ..calculus.coefficients import Bases
from ..calculus.kets import Covariance, Gamma
from ..calculus.recursion import RecursionEquation, RecursionEquations
from ..calculus.setting import Setting
from ..errors import NotCovered
from ..programs.algebra import replaced
from ..programs.language import LossDerivative, Scalar
from .functions import Coefficient, CovarianceFunction, Indicator, OwnCoefficient, P, Q, scaled_scalar
from ..orders.quantities import additive_terms, in_powers, leading
from ..orders.terms import Terms, is_carried


@dataclass(frozen=True)
class Remembered:
    """A member of rho or w and its value after a step, between the layer times ``first`` and ``last``."""

    target: Scalar
    value: sp.Expr
    first: sp.Expr
    last: sp.Expr

    def __str__(self) -> str:
        where = "" if (self.first, self.last) == (0, 1) else f"  ({self.first} < p < {self.last})"
        return f"{self.target} = {self.value}{where}"


@dataclass(frozen=True)
class Translator:
    """Reads terms of one recursion; scaled: the heads of the functions divided by powers of L ("Gamma", "C", names)."""

    recursion: RecursionEquations
    scaled: frozenset[str]

    @property
    def setting(self) -> Setting:
        return self.recursion.setting

    @cached_property
    def accumulating(self) -> frozenset[int]:
        return Terms(self.recursion).accumulating

    @cached_property
    def base_layer(self) -> sp.Symbol | None:
        """m, the generic base ket's layer."""
        above = Bases(self.setting).generic().args[2]
        if len(above) > 1:
            raise NotCovered(f"program {self.setting.program.name}: layers with indices {tuple(above)}; the limit "
                             "covers one index")
        return above[0] if above else None

    def direction(self, equation: RecursionEquation) -> int:
        """1 where layers follow each other upward, -1 downward, 0 where none adds to the one before."""
        for term in additive_terms(equation.value):
            if is_carried(equation, term):
                return 1 if (equation.target.args[4][0] - term.args[4][0]).is_positive else -1
        return 0

    def integrand(self, term: sp.Expr, equation: RecursionEquation, rule: str) -> sp.Expr:
        """The term with layers as layer times, its sums over base layers as integrals, without powers of L."""
        m, layer = self.base_layer, self._layer(equation)
        if rule == "born" and layer is not None:
            term = term.subs(m, layer)
        if not isinstance(term, sp.Sum):
            return self._read(term, layer)
        deep = [v for v, *_ in term.limits if v == m]
        steps = [limit for limit in term.limits if limit[0] not in deep]
        body = term.function
        if deep and rule == "own layer":
            body, deep = body.subs(m, layer), []
        body = self._read(body, layer)
        total = sp.Sum(body, *steps) if steps else body
        return sp.Integral(total, (Q, 0, 1)) if deep else total

    def born(self, term: sp.Expr, equation: RecursionEquation) -> sp.Expr:
        """A term that one layer creates: the indicator of the layer times that it reaches."""
        m, layer = self.base_layer, self._layer(equation)
        bare = self._read(term.xreplace({sp.KroneckerDelta(layer, m): sp.Integer(1)}), layer)
        if bare.has(P) and bare.has(Coefficient):
            raise NotCovered(f"{term}: a layer creates it through coefficients of its own; no rule for its limit")
        return bare.xreplace({P: Q}) * Indicator(P, Q, self.direction(equation))

    def target(self, equation: RecursionEquation) -> sp.Expr:
        """The left side as a function of layer time, for the generic base ket."""
        return self._read(equation.target, self._layer(equation))

    def _layer(self, equation: RecursionEquation) -> sp.Symbol | None:
        loops = equation.location.loops[1:] if self.setting.clock is not None else equation.location.loops
        layers = {loop.index for loop in loops} & {s for p in self.setting.products for s in p.above.free_symbols}
        if len(layers) > 1:
            raise NotCovered(f"{equation.target}: stands in loops over {layers}; the limit covers one layer index")
        return layers.pop() if layers else None

    def _time(self, layers: sp.Tuple, layer: sp.Symbol | None) -> sp.Expr:
        """l - 1, l -> p; m -> q; 0 and L are the ends."""
        location, = layers
        if layer is not None and layer in location.free_symbols:
            return P
        if self.base_layer in location.free_symbols:
            return Q
        return sp.Integer(int(symbolic(location).has(self.setting.depth)))  # the first layers, or the last ones

    def _read(self, expression: sp.Expr, layer: sp.Symbol | None) -> sp.Expr:
        """A sum of products, layers as layer times and coefficients by their leading power of L."""
        return sp.Add(*(self._read_product(term, layer) for term in sp.Add.make_args(sp.expand(expression))))

    def _read_product(self, product: sp.Expr, layer: sp.Symbol | None) -> sp.Expr:
        number, rest = sp.Integer(1), sp.Integer(1)
        for factor in sp.Mul.make_args(product):
            if factor.has(Gamma, Covariance, Scalar, LossDerivative, sp.KroneckerDelta):
                rest *= factor
            else:
                number *= factor
        rest = rest.xreplace({scalar: self._scalar(scalar, layer) for scalar in rest.atoms(Scalar)})
        for cls, rule in ((Gamma, self._gamma), (Covariance, self._covariance)):
            rest = rest.xreplace({one: rule(one, layer) for one in rest.atoms(cls)})  # type: ignore[operator]
        assert self.setting.depth is not None
        return rest if number == 0 else leading(number, layer, self.setting.depth) * rest

    def _scalar(self, scalar: Scalar, layer: sp.Symbol | None) -> sp.Expr:
        """A scalar, as a function of layer time where it has a layer."""
        if layer is not None and layer in scalar.free_symbols:
            scalar = scalar.at(*(P if layer in i.free_symbols else i for i in scalar.indices))
        return scaled_scalar(scalar) if scalar.name in self.scaled else scalar

    def memory(self, equation: RecursionEquation) -> Remembered:
        """What an optimizer remembers: a member and its value, as functions of layer time where they have a layer."""
        loops = [loop for loop in equation.location.loops if loop is not self.setting.clock]
        layer = loops[-1].index if loops else None
        ends = sorted(self._share(end) for end in (loops[-1].first, loops[-1].last)) if loops else [0, 1]
        return Remembered(self._scalar(equation.target, layer), self._of_order_one(equation.value, layer), *ends)

    def _of_order_one(self, value: sp.Expr, layer: sp.Symbol | None) -> sp.Expr:
        """A linear combination of scalars; what falls with depth in its coefficients is left out."""
        coefficients: dict[sp.Expr, sp.Expr] = {}
        for term in sp.Add.make_args(sp.expand(value)):
            number, rest = term.as_independent(Scalar, sp.KroneckerDelta, as_Add=False)
            coefficients[rest] = coefficients.get(rest, sp.Integer(0)) + number
        assert self.setting.depth is not None
        return sp.Add(*(function * self._read_product(rest, layer) for rest, number in coefficients.items()
                        for power, function in in_powers(number, layer, self.setting.depth) if power == 0))

    def _share(self, location: sp.Expr) -> sp.Expr:
        """A layer that a loop begins or ends at, as a layer time: of floor(L / 2) it is 1/2."""
        depth = self.setting.depth
        found = sp.limit(location.replace(sp.floor, lambda x: x).replace(sp.ceiling, lambda x: x) / depth, depth, sp.oo)
        if not found.is_Rational or not 0 <= found <= 1:
            raise NotCovered(f"{location}: begins or ends a loop over layers; expected parts of the depth")
        return found

    def _gamma(self, gamma: Gamma, layer: sp.Symbol | None) -> sp.Expr:
        a, b, t, r, layers, base = gamma.args
        scaled = int("Gamma" in self.scaled)
        if not layers:
            raise NotCovered(f"{gamma}: a vector outside the layers; no rule for its limit")
        p = self._time(layers, layer)
        if r[0] == -1 or not base:
            return Coefficient(a, b, t[0], r[0], p, 0, 0, scaled)
        distance = layers[0] - base[0]
        if not distance.is_Integer or p.is_number:
            return Coefficient(a, b, t[0], r[0], p, self._time(base, layer), 0, scaled)
        if int(a) not in self.accumulating and distance == 0:
            return OwnCoefficient(a, b, t[0], r[0], p)
        return Coefficient(a, b, t[0], r[0], p, p, -1 if distance < 0 else 1, scaled)

    def _covariance(self, covariance: Covariance, layer: sp.Symbol | None) -> sp.Expr:
        b, c, t, s, here, there = covariance.args
        if not here:
            raise NotCovered(f"{covariance}: a matrix outside the layers; no rule for its limit")
        return CovarianceFunction(b, c, t[0], s[0], self._time(here, layer), int("C" in self.scaled))


def at_zero(expression: sp.Expr) -> sp.Expr:
    """The expression with loss derivatives at outputs 0, which the outputs tend to."""
    return replaced(expression, LossDerivative, lambda e: LossDerivative(sp.Integer(0), e.args[1]))
