"""Printed equations of streams as numbers: every symbol is read off the equation that defines it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache, singledispatchmethod
from typing import Any, Callable, Mapping, Sequence

import numpy as np
import sympy as sp

from ...calculus.kets import Bracket
from ...errors import NotCovered
from ...gaussian.overlap_functions import tabulated
from ...gaussian.variables import Expectation
from ...programs.language import Scalar
from ..integral_equations import LimitEquation
from .nodes import Answer, LayerGaussian, FunctionValue

Steps = Mapping[sp.Symbol, int]
Number = Callable[["Here", Steps], float]


@dataclass
class Here:
    """What is known at one layer time. brackets: of streams by (name, name, t, s); answers: by (letter, t, s); memory:
    numbers that optimizers remember, by (name, steps...)."""

    brackets: dict[tuple[str, str, int, int], float] = field(default_factory=dict)
    answers: dict[tuple[str, int, int], float] = field(default_factory=dict)
    memory: dict[tuple, float] = field(default_factory=dict)


@lru_cache(maxsize=64)
def remembered(functions: tuple[tuple[sp.Expr, int], ...]) -> Callable[..., float]:
    """The mean of a product of functions of Gaussians by their covariances; one sweep asks for the same ones often."""
    mean = tabulated(functions)

    @lru_cache(maxsize=2**14)
    def value(*entries: float) -> float:
        return float(mean(*map(np.float64, entries)))
    return value


class LeafReading:
    """Readings of expressions: nodes that are no algebra of others have readings of their own, ``_leaf``."""

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
        if left := plain.free_symbols - set(names.values()):
            raise NotCovered(f"{expression}: no value for {', '.join(sorted(map(str, left)))}")
        compiled = sp.lambdify(list(names.values()), plain, modules=["scipy", "numpy"])
        return lambda known, steps: compiled(*(leaves[e](known, steps) for e in names))

    def total(self, e: sp.Sum) -> Callable[[Any, Steps], Any]:
        """A sum over steps."""
        (index, first, last), = e.limits
        term, start, end = self.value(e.function), step_of(first), step_of(last)
        return lambda known, steps: sum(
            (term(known, {**steps, index: k}) for k in range(start(steps), end(steps) + 1)), 0.0)


def delta(e: sp.KroneckerDelta) -> Callable[[Any, Steps], float]:
    """Kronecker's delta of two steps."""
    one, two = map(step_of, e.args)
    return lambda known, steps: float(one(steps) == two(steps))


def step_of(index: sp.Expr) -> Callable[[Steps], int]:
    """A step, or one that is so many before or after, as a number."""
    if index.is_Integer:
        return lambda steps: int(index)
    symbol, = index.free_symbols
    shift = int(index - symbol)
    return lambda steps: steps[symbol] + shift


class EquationReading(LeafReading):
    """Numerical readings of the right-hand sides of equations.

    Gaussians have the covariances, and functions the values, that equations among them say.
    """

    def __init__(self, equations: Sequence[LimitEquation], time: sp.Symbol, past: sp.Symbol) -> None:
        self.time, self.past = time, past
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
        letter, one, two = str(e.args[0]), step_of(e.args[1]), step_of(e.args[2])
        return lambda here, steps: here.answers[letter, one(steps), two(steps)]

    @_leaf.register(Scalar)
    def _scalar(self, e: Scalar) -> Number:
        name, indices = e.name, [step_of(i) for i in e.indices]
        return lambda here, steps: here.memory[(name, *(i(steps) for i in indices))]

    @_leaf.register(sp.KroneckerDelta)
    def _delta(self, e: sp.KroneckerDelta) -> Number:
        return delta(e)

    @_leaf.register(Bracket)
    def _bracket(self, e: Bracket) -> Number:
        (one, two) = e.args
        if not one.same_family(two):
            raise NotCovered(f"{e}: expected overlaps of one stream with itself")
        names, first, second = (one.name, two.name), step_of(one.indices[0]), step_of(two.indices[0])
        return lambda here, steps: here.brackets[(*names, first(steps), second(steps))]

    @_leaf.register(sp.Sum)
    def _sum(self, e: sp.Sum) -> Number:
        return self.total(e)

    @_leaf.register(Expectation)
    def _mean(self, e: Expectation) -> Number:
        """Means of functions of Gaussians that layers draw, by the laws of these."""
        functions: list[tuple[sp.Expr, int]] = []
        steps: list[Callable[[Steps], int]] = []
        letters: set[sp.Symbol] = set()
        for factor in sp.Mul.make_args(e.body):
            base, power = factor.as_base_exp()
            if not isinstance(base, FunctionValue) or not power.is_Integer or power < 1:
                raise NotCovered(f"{e}: expected means of products of functions of one Gaussian")
            functions += [(self.functions[str(base.args[0])], base.order)] * int(power)
            steps += [step_of(base.fresh.args[1])] * int(power)
            letters.add(base.fresh.args[0])
        if len(letters) != 1 or len(functions) > 2:
            raise NotCovered(f"{e}: expected one or two functions of one Gaussian")
        law = self.number(self.laws[letters.pop()])
        mean = remembered(tuple(functions))
        if len(functions) == 1:
            return lambda here, at: mean(self._law(law, here, steps[0](at), steps[0](at)))

        def value(here: Here, at: Steps) -> float:
            i, j = (step(at) for step in steps)
            return mean(*(self._law(law, here, a, b) for a, b in ((i, j), (i, i), (j, j))))
        return value

    def _law(self, law: Number, here: Here, one: int, two: int) -> float:
        return law(here, {self.time: max(one, two), self.past: min(one, two)})

    def covariance(self, value: sp.Expr) -> Number:
        """E of a linear combination of Gaussians, or of functions of one without its mean, at steps t and s."""
        terms = []
        for term in sp.Add.make_args(sp.expand(value)):
            inside = [f for f in sp.Mul.make_args(term) if isinstance(f, (LayerGaussian, FunctionValue))]
            if inside:
                terms.append((term / inside[0], inside[0]))
        found: list[Number] = []
        for factor, node in terms:
            scale = self.number(factor)
            if isinstance(node, LayerGaussian):
                found.append(self._times(scale, self.number(self.laws[node.args[0]])))
                continue
            earlier = node.xreplace({self.time: self.past})
            both = self.number(Expectation(node * earlier) - Expectation(node) * Expectation(earlier))
            found.append(self._times(scale, both))
        letters = [node.args[0] if isinstance(node, LayerGaussian) else node.fresh.args[0] for _, node in terms]
        if len(set(letters)) < len(letters):
            raise NotCovered(f"{value}: several functions of one Gaussian in what a layer draws")
        return lambda here, steps: sum(one(here, steps) for one in found)

    def _times(self, scale: Number, covariance: Number) -> Number:
        def value(here: Here, steps: Steps) -> float:
            t, s = steps[self.time], steps[self.past]
            return (scale(here, {self.time: t}) * scale(here, {self.time: s})
                    * covariance(here, {self.time: max(t, s), self.past: min(t, s)}))
        return value
