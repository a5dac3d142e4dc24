"""Printed equations of streams as numbers: every symbol is read off the equation that defines it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, partial, singledispatchmethod
from math import prod
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import sympy as sp
from sympy.utilities.iterables import sift

from ...calculus.kets import Bracket
from ...errors import NotCovered
from ...gaussian.overlap_functions import tabulated
from ...models.activations import H
from ...gaussian.variables import Expectation
from ...programs.language import Scalar
from ..integral_equations import LimitEquation
from .nodes import Answer, LayerGaussian, FunctionValue
from .passes import Passes, Steps, index_of, pass_of, pass_of_member

Number = Callable[["Here", Steps], float]


@dataclass
class Here:
    """What is known at one layer time. brackets: of streams by (name, name, pass, pass); answers: by (letter, pass,
    pass); memory: numbers that optimizers remember, by (name, steps...); made: covariances and means that were made of
    these, until they change, by what makes them and two passes."""

    brackets: dict[tuple[str, str, int, int], float] = field(default_factory=dict)
    answers: dict[tuple[str, int, int], float] = field(default_factory=dict)
    memory: dict[tuple, float] = field(default_factory=dict)
    made: dict[tuple[Any, int, int], float] = field(default_factory=dict)


@lru_cache(maxsize=64)
def remembered(functions: tuple[tuple[sp.Expr, int], ...]) -> Callable[..., float]:
    """The mean of a product of functions of Gaussians by their covariances; one sweep asks for the same ones often."""
    mean = tabulated(functions)

    @lru_cache(maxsize=2**14)
    def value(*entries: float) -> float:
        return float(mean(*map(np.float64, entries)))
    return value


class LeafReading:
    """Readings of expressions: nodes that are no algebra of others have readings of their own, ``_leaf``.

    indices: symbols of steps, samples and their number, which are numbers too where they stand beside others.
    """

    indices: frozenset[sp.Symbol] = frozenset()

    def _leaf(self, e: sp.Expr) -> Callable[[Any, Steps], Any] | None:
        raise NotImplementedError

    def value(self, expression: sp.Expr) -> Callable[[Any, Steps], Any]:
        """The expression as a function of what is known and of steps."""
        leaves: dict[sp.Expr, Callable[[Any, Steps], Any]] = {}
        names: dict[sp.Expr, sp.Dummy] = {}

        def named(e: sp.Expr) -> sp.Expr:
            leaf = self._leaf(e)
            if leaf is None:
                return e.func(*map(named, e.args)) if e.args else e
            leaves[e] = leaf
            return names.setdefault(e, sp.Dummy())
        plain = named(expression)
        for index in plain.free_symbols & self.indices:
            leaves[index] = partial(_step_as_number, index)
            names[index] = sp.Dummy()
        plain = plain.xreplace(names)
        if left := plain.free_symbols - set(names.values()):
            raise NotCovered(f"{expression}: no value for {', '.join(sorted(map(str, left)))}")
        compiled = sp.lambdify(list(names.values()), plain, modules=["scipy", "numpy"])
        return lambda known, steps: compiled(*(leaves[e](known, steps) for e in names))

    def total(self, e: sp.Sum) -> Callable[[Any, Steps], Any]:
        """A sum over steps, and over samples."""
        term = self.value(e.function)
        limits = [(index.name, index_of(first), index_of(last)) for index, first, last in reversed(e.limits)]

        def added(known: Any, steps: Steps, left: int = 0) -> Any:
            if left == len(limits):
                return term(known, steps)
            name, first, last = limits[left]
            several = range(first(steps), last(steps) + 1)
            return sum((added(known, {**steps, name: k}, left + 1) for k in several), 0.0)
        return added


def _step_as_number(index: sp.Symbol, known: Any, steps: Steps) -> int:
    return steps[index.name]


def delta(e: sp.KroneckerDelta) -> Callable[[Any, Steps], float]:
    """Kronecker's delta of two steps."""
    one, two = map(index_of, e.args)
    return lambda known, steps: float(one(steps) == two(steps))


class EquationReading(LeafReading):
    """Numerical readings of the right-hand sides of equations.

    Gaussians have the covariances, and functions the values, that equations among them say. size: samples a step.
    """

    def __init__(self, equations: Sequence[LimitEquation], passes: Passes, size: int = 1) -> None:
        self.passes, self.size = passes, size
        self.indices = passes.numbers
        self.functions = {e.target.func.__name__: e.value for e in equations if isinstance(
            e.target, sp.core.function.AppliedUndef)}
        self.laws: dict[sp.Symbol, sp.Expr] = {}
        for e in equations:
            fresh = sorted(e.target.atoms(LayerGaussian), key=str) if isinstance(e.target, Expectation) else []
            if fresh:
                self.laws[fresh[0].args[0]] = e.value

    def number(self, value: sp.Expr) -> Number:
        """The value as a number."""
        found = self.value(value)
        return lambda here, steps: float(found(here, steps))

    @singledispatchmethod
    def _leaf(self, e: sp.Expr) -> Number | None:
        """A reading of nodes that are no algebra of others."""
        return None

    @_leaf.register(Answer)
    def _answer(self, e: Answer) -> Number:
        letter, one, two = str(e.args[0]), pass_of(e.args[1]), pass_of(e.args[2])
        return lambda here, steps: here.answers[letter, one(steps), two(steps)]

    @_leaf.register(Scalar)
    def _scalar(self, e: Scalar) -> Number:
        name, indices = e.name, [index_of(i) for i in e.indices]
        return lambda here, steps: here.memory[(name, *(i(steps) for i in indices))]

    @_leaf.register(sp.KroneckerDelta)
    def _delta(self, e: sp.KroneckerDelta) -> Number:
        return delta(e)

    @_leaf.register(Bracket)
    def _bracket(self, e: Bracket) -> Number:
        (one, two) = e.args
        if not one.same_family(two):
            raise NotCovered(f"{e}: expected overlaps of one stream with itself")
        names, first, second = (one.name, two.name), pass_of_member(one.indices), pass_of_member(two.indices)
        return lambda here, steps: here.brackets[(*names, first(steps), second(steps))]

    @_leaf.register(sp.Sum)
    def _sum(self, e: sp.Sum) -> Number:
        return self.total(e)

    @_leaf.register(Expectation)
    def _mean(self, e: Expectation) -> Number:
        """Means of what layers draw: of each term the numbers in it, times means over each Gaussian."""
        terms = [self._mean_of_term(term) for term in sp.Add.make_args(sp.expand(e.body))]
        return lambda here, at: sum(term(here, at) for term in terms)

    def _mean_of_term(self, term: sp.Expr) -> Number:
        def is_drawn(factor: sp.Expr) -> bool:
            bare: sp.Expr = factor.xreplace({mean: sp.Dummy() for mean in factor.atoms(Expectation)})
            return bool(bare.has(LayerGaussian))
        drawn, numbers = sift(sp.Mul.make_args(term), is_drawn, binary=True)
        of: dict[sp.Symbol, dict[sp.Expr, list[sp.Expr]]] = {}
        for factor in drawn:
            base, power = factor.as_base_exp()
            gaussian = base.fresh if isinstance(base, FunctionValue) else base
            if not isinstance(gaussian, LayerGaussian) or not power.is_Integer or power < 1:
                raise NotCovered(f"{factor}: expected products of functions of one Gaussian each")
            letter, step = gaussian.args
            of.setdefault(letter, {}).setdefault(step, []).append(factor)
        means = [self.number(sp.Mul(*numbers)), *(self._mean_over(letter, steps) for letter, steps in of.items())]
        return lambda here, at: prod(mean(here, at) for mean in means)

    def _mean_over(self, letter: sp.Symbol, factors: Mapping[sp.Expr, list[sp.Expr]]) -> Number:
        """The mean of functions of one Gaussian, at one or two steps, by its law."""
        single = [(self._function([one.as_base_exp()[0]]), step) for step, several in factors.items() for one in several
                  for _ in range(int(one.as_base_exp()[1]))]
        joined = single if len(single) <= 2 else [(self._function(several), step) for step, several in factors.items()]
        if len(joined) > 2:
            raise NotCovered(f"{sp.Mul(*(f for one in factors.values() for f in one))}: expected functions of a "
                             "Gaussian at one step or two")
        law, steps = self.number(self.laws[letter]), [pass_of(label) for _, label in joined]
        mean = remembered(tuple(function for function, _ in joined))

        def value(here: Here, at: Steps) -> float:
            i, j = steps[0](at), steps[-1](at)
            if (value, i, j) not in here.made:
                own = self._law(law, here, i, i)
                here.made[value, i, j] = mean(own) if len(steps) == 1 else mean(
                    self._law(law, here, i, j), own, self._law(law, here, j, j))
            return here.made[value, i, j]
        return value

    def _function(self, factors: list[sp.Expr]) -> tuple[sp.Expr, int]:
        """A product of functions of one Gaussian, as a derivative of a function of ``H``."""
        if len(factors) == 1 and isinstance(factors[0], FunctionValue):
            return self.functions[str(factors[0].args[0])], factors[0].order
        known = {one: self.functions[str(one.args[0])].diff(H, one.order) for factor in factors
                 for one in factor.atoms(FunctionValue)}
        product = sp.Mul(*factors).xreplace(known)
        return product.xreplace({one: H for one in product.atoms(LayerGaussian)}), 0

    def _law(self, law: Number, here: Here, one: int, two: int) -> float:
        later, earlier = max(one, two), min(one, two)
        if (law, later, earlier) not in here.made:
            here.made[law, later, earlier] = law(here, self.passes.steps(self.size, later, earlier))
        return here.made[law, later, earlier]

    def covariance(self, value: sp.Expr) -> Number:
        """The covariance of what layers draw in two passes."""
        earlier = self.passes.before(value)
        return self.number(Expectation(value * earlier) - Expectation(value) * Expectation(earlier))
