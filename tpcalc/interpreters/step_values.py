"""What the expressions of a derivation are worth: kets, coefficients, covariances and matrices at given indices."""

from __future__ import annotations

from functools import cached_property, reduce, singledispatchmethod
from operator import mul
from typing import Iterator, Mapping, Sequence

import numpy as np
import sympy as sp

from .._types import Value
from .._checks import symbolic
from ..calculus.coefficients import Bases
from ..calculus.kets import Base, Bracket, Covariance, Dot, Gamma, Hat, Ket, Response
from ..calculus.memory import memory_equations, initial_weight_factor_of
from ..calculus.setting import Product, Setting
from ..errors import NotCovered
from ..gaussian import Expectation
from ..programs.language import Mean, Scalar, Vector
from ..programs.program import Loop, Location
from ..programs.indices import at_numbers
from .execution import MatrixOperator, is_number
from .kets import KetVector as Coefficients
from .program_coefficients import ONE, ProgramCoefficients

Indices = Mapping[sp.Symbol, sp.Integer]
NUMBERS = (Bracket, Covariance, Gamma, Expectation, Response)


class StepValues:
    """Evaluates derivation expressions through an exact reading of the program, which knows none of the rules.

    A ket is its coefficients over all base kets, shape (bases,); a matrix its multiples of the initial matrices and
    their transposes, then the coefficients of its outer products over pairs of base kets, one array; all else is a
    number. sizes: of the program's size symbols. Floats or rationals, as the reading has them.
    """

    def __init__(self, reading: ProgramCoefficients, setting: Setting, sizes: Mapping[sp.Symbol, int]) -> None:
        self.reading, self.setting = reading, setting
        self.sizes: Indices = {size: sp.Integer(number) for size, number in sizes.items()}
        self.bases = Bases(setting)
        self._generic = self.bases.generic()
        self.locations = {base: i for i, base in enumerate(reading.bases)}
        met = {matrix for matrix, _ in reading.execution.space.groups}
        self.initial = sorted({(matrix, turned) for matrix in met for turned in (False, True)}, key=str)
        self.root = self._number(sp.Integer(1) if setting.depth is None else sp.sqrt(setting.depth.subs(self.sizes)))
        self._known: dict[Value, Value] = {}
        self._free: dict[sp.Basic, tuple[sp.Symbol, ...]] = {}
        self._memory: dict[sp.Expr, Value] = {}
        self._remember()

    @singledispatchmethod
    def value(self, node: sp.Expr, at: Indices) -> Value:
        """The value at the indices ``at`` and the sizes; raises ``ValueError`` for members that do not exist there."""
        return self._leaf(node, at)

    @value.register(sp.Sum)
    def _sum(self, node: sp.Sum, at: Indices) -> Value:
        return reduce(self._plus, (self.value(node.function, {**at, **inner}) for inner in
                                   self._written(node.limits, at)), self._number(sp.Integer(0)))

    @value.register(sp.Add)
    def _addition(self, node: sp.Add, at: Indices) -> Value:
        return reduce(self._plus, (self.value(part, at) for part in node.args))

    @value.register(sp.Mul)
    def _multiple(self, node: sp.Mul, at: Indices) -> Value:
        ties = [part for part in node.args if part.func == sp.KroneckerDelta]
        if any(self._leaf(tie, at) == 0 for tie in ties):  # the other factors need not exist then
            return self._number(sp.Integer(0))
        parts = [self.value(part, at) for part in node.args if part not in ties]
        return reduce(mul, [p for p in parts if is_number(p)] + [p for p in parts if not is_number(p)],
                      self._number(sp.Integer(1)))

    @value.register(sp.Pow)
    def _power(self, node: sp.Pow, at: Indices) -> Value:
        if node.exp.is_Integer and node.exp > 0:
            return self.value(node.base, at) ** int(node.exp)
        return self._leaf(node, at)

    @cached_property
    def generic_bases(self) -> list[Indices]:
        """The indices of the generic base ket for every base ket that a rule can name."""
        generic = self._generic
        symbols = (generic.number, *generic.args[1], *generic.args[2])
        found: list[Indices] = []
        for number, vector in enumerate(self.setting.program.vectors):
            if vector in self.locations:
                below, above = self.bases.initial()
                found.append(dict(zip(symbols, (sp.Integer(number), *below, *above))))
        for product in self.setting.products:
            loops = [loop for loop in product.location.loops if loop.index in product.indices]
            for at in indices(loops, self.sizes):
                below, above = self.bases.location(product, dict(at))
                values = (sp.Integer(product.number), *at_numbers(below, at), *at_numbers(above, at))
                found.append(dict(zip(symbols, values)))
        return found

    def coefficient(self, ket: Value, at: Indices) -> Value:
        """The coefficient of the generic base ket at ``at``, in a ket's coefficients."""
        location = self.locations.get(self._base(at_numbers(self._generic, at)))
        if is_number(ket):
            ket = self._constant(ket)
        return self._number(sp.Integer(0)) if location is None else ket[location]

    def scale(self, at: Indices) -> Value:
        """Gamma's factor against the derivative in the generic base ket: sqrt(L) for hats, 1 for initial vectors."""
        return self._scale(at[self._generic.args[1][0]])

    def _scale(self, step: sp.Expr) -> Value:
        return self._number(sp.Integer(1)) if step == -1 else self.root

    def _number(self, node: sp.Expr) -> Value:
        return self.reading.execution.numbers.of(node)

    def _plus(self, one: Value, other: Value) -> Value:
        """A number beside a ket is the constant random variable, 0 beside a matrix the matrix 0."""
        if is_number(one) == is_number(other):
            return one + other
        number, rest = (one, other) if is_number(one) else (other, one)
        if number == 0:
            return rest
        return rest + self._constant(number)

    def _constant(self, number: Value) -> np.ndarray:
        return number * self.reading.ket(ONE)

    def _written(self, limits: Sequence[sp.Tuple], at: Indices) -> Iterator[Indices]:
        """The values of a sum's indices."""
        loops = [Loop(index, first, last, ()) for index, first, last in reversed(limits)]
        known = {symbol: value for symbol, value in at.items() if symbol not in {loop.index for loop in loops}}
        return indices(loops, {**self.sizes, **known})

    def _leaf(self, node: sp.Expr, at: Indices) -> Value:
        """The value of what is no sum and no product; found once for all that its indices do not tell apart."""
        if node not in self._free:
            self._free[node] = tuple(node.free_symbols)
        here = {symbol: at[symbol] for symbol in self._free[node] if symbol in at}
        key = (node, tuple(here.items()))
        if key not in self._known:
            self._known[key] = self._of(at_numbers(node, {**self.sizes, **here}))
        return self._known[key]

    @singledispatchmethod
    def _of(self, node: sp.Basic) -> Value:
        inner = {part: symbolic(self._of(part)) for kind in NUMBERS for part in node.atoms(kind)}
        found = self.reading.execution.value(node.xreplace(inner))
        if isinstance(found, MatrixOperator):
            return self._matrix(found)
        return self.reading.ket(node) if isinstance(found, Coefficients) else found

    def _matrix(self, operator: MatrixOperator) -> np.ndarray:
        if not set(operator.initial) <= set(self.initial):
            raise NotCovered(f"{operator.initial}: the program multiplies by none of these")
        size, dtype = len(self.locations), self.reading.execution.space.dtype
        outers: np.ndarray = np.zeros((size, size), dtype=dtype)
        for factor, *vectors in operator.outers:
            left, right = (v.coefficients for v in vectors)
            outers[:len(left), :len(right)] += factor * np.outer(left, right)
        multiples: np.ndarray = np.array([operator.initial.get(key, 0) for key in self.initial], dtype=dtype)
        return np.concatenate([multiples, outers.ravel()])

    @_of.register(Ket)
    def _ket(self, node: Ket) -> np.ndarray:
        return self.reading.ket(node.vector)

    @_of.register(Hat)
    @_of.register(Dot)
    def _part(self, node: Hat | Dot) -> np.ndarray:
        return self.reading.ket(node)

    @_of.register(Expectation)
    def _mean(self, node: Expectation) -> Value:
        return self.reading.execution.value(Mean(node.args[0].xreplace({k: k.vector for k in node.atoms(Ket)})))

    @_of.register(Bracket)
    def _bracket(self, node: Bracket) -> Value:
        return self.reading.bracket(*(v if isinstance(v, Vector) else self._base(v) for v in node.args))

    @_of.register(Response)
    def _response(self, node: Response) -> Value:
        return self._coefficient(node.vector, self._base(node.base))

    @_of.register(Gamma)
    def _gamma(self, node: Gamma) -> Value:
        a, b, t, r, l, m = node.args
        vector = self.setting.families[int(a)].at(*t, *l)
        return self._scale(r[0]) * self._coefficient(vector, self._base(Base(b, r, m)))

    @_of.register(Covariance)
    def _covariance(self, node: Covariance) -> Value:
        b, c, t, s, l, m = node.args
        return self.reading.bracket(self._product(b, t, l).vector, self._product(c, s, m).vector)

    @_of.register(Scalar)
    def _scalar(self, node: Scalar) -> Value:
        if node.name in self._remembered:  # what is not assigned is 0, but for the initial matrices
            begun = node.indices[0] == self._begun.get(node.name)
            return self._memory.get(node, self._number(sp.Integer(int(begun))))
        return self.reading.execution.value(node)

    def _coefficient(self, vector: Vector, base: sp.Expr | None) -> Value:
        """0 where the base ket does not exist."""
        coefficients = self.reading.ket(vector)
        return self._number(sp.Integer(0)) if base not in self.locations else coefficients[self.locations[base]]

    def _base(self, base: sp.Expr) -> sp.Expr:
        """The name of a base ket in the reading: a hat, or an initial vector."""
        if isinstance(base, Base):
            b, below, above = base.args
            return self.setting.program.vectors[int(b)] if below[0] == -1 else Hat(self._product(b, below, above))
        return base.vector if isinstance(base, Ket) else base

    def _product(self, number: sp.Expr, below: sp.Tuple, above: sp.Tuple) -> sp.Expr:
        """W v of the base ket with these indices; indices that the product does not have are 0."""
        product: Product = self.setting.products[int(number)]
        symbols = (self.setting.time, *self.bases.below, *self.bases.above)
        at = {i: n for i, n in zip(symbols, (*below, *above)) if i in product.indices}
        return at_numbers(product.matvec, {**self.sizes, **at})

    def _remember(self) -> None:
        """The numbers rho and w of an optimizer's memory, by their own equations, step after step."""
        setting = self.setting
        found = [equation for matrix in setting.trained() for equation in memory_equations(setting, matrix)]
        found.sort(key=lambda equation: equation[2].position)
        self._remembered = {target.name for target, *_ in found}
        if setting.clock is None:
            return
        self._begun = {initial_weight_factor_of(matrix).name: setting.clock.first
                       for matrix in setting.program.matrices}
        before = [equation for equation in found if setting.clock not in equation[2].loops]
        self._run(before, {})
        for at in indices([setting.clock], self.sizes):
            self._run([equation for equation in found if equation not in before], at)

    def _run(self, equations: list[tuple[sp.Expr, sp.Expr, Location]], at: Indices) -> None:
        """Equations of the memory at a step, one after the other, for all layers and earlier steps."""
        setting = self.setting
        assert setting.clock is not None
        for target, value, location in equations:
            loops = [loop for loop in location.loops if loop is not setting.clock]
            if target.has(setting.past):
                loops.append(Loop(setting.past, setting.clock.first, setting.time, ()))
            for here in indices(loops, {**self.sizes, **at}):
                self._memory[at_numbers(target, here)] = self.value(value, here)


def indices(loops: Sequence[Loop], known: Indices) -> Iterator[Indices]:
    """All values of the loops' indices, beside those that are known."""
    if not loops:
        yield known
        return
    loop, *inner = loops
    first, last = (int(at_numbers(end, known)) for end in loop.bounds)
    for value in range(first, last + 1):
        yield from indices(inner, {**known, loop.index: sp.Integer(value)})
