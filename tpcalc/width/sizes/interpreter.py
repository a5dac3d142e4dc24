"""A program read as powers of the width: every vector and number as a sum of such, every matrix as what it does."""

from __future__ import annotations

from fractions import Fraction
from typing import Iterator, Mapping, Union

import sympy as sp

from ..._types import Sizes
from ...errors import NotCovered
from ...programs.language import (LossDerivative, Matrix, MatVec, Member, Mean, NonlinearOuter, Outer, Transpose,
                                  Vector, kind)
from ...interpreters.registry import Registry
from ...models.activations import H
from ...programs.program import Assign, Program
from .algebra import Algebra
from .atoms import Given, Initial, NumberFunction, Total
from .entrywise import entrywise_matrix, entrywise_vector, is_direction
from .functions import in_ramps
from .leading import leading_size
from .limits import Limits
from .operators import OperatorSize
from .powers import WIDTH as WIDTH, AffinePowers

Value = Union[Total, OperatorSize]
SIZES = Registry("measure")


class SizeInterpreter:
    """The values of a program's members, statement by statement.

    numbers: values of parameters that are to be taken exactly; all others are numbers that nothing is known of.
    """

    def __init__(self, program: Program, sizes: Sizes, powers: AffinePowers, window: sp.Rational,
                 numbers: Mapping[str, sp.Expr]) -> None:
        self.program, self.sizes, self.numbers = program, sizes, numbers
        self.algebra = Algebra(powers, window)
        self.algebra.limits = Limits(self.algebra)
        self.functions = self.algebra.limits.functions
        self.values: dict[Member, Value] = {}
        self._given = {(type(m), m.name) for m in (*program.vectors, *program.matrices, *program.data)}

    def statements(self) -> Iterator[Assign]:
        return self.program.unroll(self.sizes)

    def assign(self, statement: Assign) -> None:
        """Read one statement; raises ``ValueError`` for what has no rule, with the statement."""
        try:
            value = self.read(statement.value)
        except NotCovered as problem:
            raise type(problem)(f"{statement.target} := {statement.value}: {problem}") from None
        if isinstance(value, Total) and isinstance(statement.target, Matrix):
            value = OperatorSize()  # 0
        self.values[statement.target] = value

    def total(self, expression: sp.Expr) -> Total:
        """A vector or a number as a sum of powers of the width."""
        found = self.read(expression)
        assert isinstance(found, Total)
        return found

    def read(self, e: sp.Expr) -> Value:
        """An expression read by the rule of its class, or as arithmetic."""
        return SIZES.value(self, e)

    def arithmetic(self, e: sp.Expr) -> Value:
        if not e.atoms(Member) and not e.has(Mean):
            return self.number(e)
        if e.func == sp.Mul and kind(e) == "vector" and is_direction(e):
            return entrywise_vector(self, e)
        return {sp.Add: self._sum, sp.Mul: self._product}.get(e.func, self._function)(e)

    def member(self, member: Member) -> Value:
        if member in self.values:
            return self.values[member]
        if isinstance(member, Vector):
            return self.algebra.of(Initial(member))
        if isinstance(member, Matrix):
            return OperatorSize(((member, False, self.algebra.number(1)),))
        return self.algebra.of(Given(str(member)))

    def operator(self, e: sp.Expr) -> OperatorSize:
        found = self.read(e)
        return found if isinstance(found, OperatorSize) else OperatorSize()

    def number(self, e: sp.Expr) -> Total:
        """An expression in n, parameters and numbers."""
        known = {s: self.numbers[s.name] for s in e.free_symbols if s.name in self.numbers and s != WIDTH}
        found = Total()
        for term in sp.Add.make_args(sp.expand(sp.powsimp(e.xreplace(known)))):
            parts = self.algebra.number(1)
            for factor in sp.Mul.make_args(term):
                base, power = factor.as_base_exp()
                if base == WIDTH:
                    parts = self.algebra.product(parts, self.algebra.power(self.algebra.powers.of(power)))
                elif factor.has(WIDTH):
                    raise NotCovered(f"{factor}: no rule for its order in n; expected powers of n")
                else:
                    parts = self.algebra.product(parts, self.functions.constant(factor))
            found = found + parts
        return found

    def _sum(self, e: sp.Expr) -> Value:
        parts = [self.read(term) for term in e.args]
        operators = [part for part in parts if isinstance(part, OperatorSize)]
        if operators:
            found = operators[0]
            for one in operators[1:]:
                found = found + one
            return found
        total = Total()
        for part in parts:
            assert isinstance(part, Total)
            total = total + part
        return self.algebra.cut(total)

    def _product(self, e: sp.Expr) -> Value:
        parts = [self.read(factor) for factor in e.args]
        number = self.algebra.product(*(part for part in parts if isinstance(part, Total)))
        matrices = [part for part in parts if isinstance(part, OperatorSize)]
        return matrices[0].times(self.algebra, number) if matrices else number

    def _function(self, e: sp.Expr) -> Total:
        base, power = (e, sp.Integer(1)) if isinstance(e, sp.exp) else e.as_base_exp()
        if power != 1 and power.is_Integer and power > 0:
            return self.algebra.to(self.total(base), int(power))
        if kind(e) == "scalar":
            return self._of_numbers(e, base, power)
        if isinstance(e, (sp.Max, sp.Min, sp.Heaviside)):
            return self._ramp(e)
        if power != 1 or len(e.args) != 1:
            raise NotCovered(f"{e}: no rule; entrywise functions have one argument, and powers are whole numbers of "
                             "at least 0")
        return self.functions.value(in_ramps(e.func(H)), self.total(e.args[0]))

    def _ramp(self, e: sp.Expr) -> Total:
        """max(a, b, ...), the smallest, or a step, of vectors and numbers."""
        if isinstance(e, sp.Heaviside):
            return self.functions.value(sp.Heaviside(H), self.total(e.args[0]))
        turn = 1 if isinstance(e, sp.Max) else -1
        first, *others = sorted((turn * a for a in e.args), key=lambda a: (a != 0, sp.default_sort_key(a)))
        found = self.total(first)
        for other in others:
            found = found + self.functions.value(sp.Max(H, 0), self.total(other) - found)
        return found.times(turn)

    def _of_numbers(self, e: sp.Expr, base: sp.Expr, power: sp.Expr) -> Total:
        """A function of numbers of the program; powers of one term exactly, others as numbers of their own."""
        inside = self.total(base if power != 1 else e.args[0]) if power != 1 or len(e.args) == 1 else None
        if inside is None or power != 1 and not power.is_Rational:
            raise NotCovered(f"{e}: no rule for this function of numbers")
        if power != 1 and len(inside.terms) == 1 and not inside.rest:
            (form, monomial), value = next(iter(inside.terms.items()))
            factor = self.functions.constant(sp.Rational(value) ** power)
            exact = Fraction(power)
            raised = Total({(form * exact, tuple((m, p * exact) for m, p in monomial)): Fraction(1)})
            return self.algebra.product(factor, raised)
        found = leading_size(self.algebra, inside).power
        if found is None:
            raise NotCovered(f"{e}: a function of a number that vanishes")
        if power != 1:
            unit = self.algebra.product(self.algebra.power(found * -1), inside)
            return self.algebra.product(self.algebra.power(found * Fraction(power)),
                                        self.algebra.of(NumberFunction(f"power {power}", unit.key)))
        if isinstance(e, sp.sign):
            unit = self.algebra.product(self.algebra.power(found * -1), inside)
            return self.algebra.of(NumberFunction("sign", unit.key))
        relation = self.algebra.powers.sign(found)
        if relation > 0:
            raise NotCovered(f"{e}: a function of a number that grows with n")
        if relation == 0:
            return self.algebra.of(NumberFunction(e.func.__name__, inside.key))
        start = self.functions.constant(e.func(sp.Integer(0)))
        if not start.terms:
            raise NotCovered(f"{e}: a function that vanishes at 0, of a number that vanishes with n")
        return Total(start.terms, frozenset((found,)))

    def loss_derivative(self, e: LossDerivative) -> Total:
        """l'(f) of the squared loss: f - y."""
        outputs, *where = e.args
        location = ", ".join(map(str, where))
        output = outputs[int(where[-1])] if isinstance(outputs, sp.Tuple) else outputs
        return self.total(output) - self.algebra.of(Given(f"y[{location}]"))


for _type, _rule in {
    sp.Basic: SizeInterpreter.arithmetic,
    Member: SizeInterpreter.member,
    Transpose: lambda reading, e: reading.operator(e.args[0]).transposed(),
    Outer: lambda reading, e: OperatorSize(outers=((reading.total(e.left), reading.total(e.right)),)),
    NonlinearOuter: entrywise_matrix,
    MatVec: lambda reading, e: reading.operator(e.matrix).apply(reading.algebra, reading.total(e.vector)),
    Mean: lambda reading, e: reading.algebra.mean(reading.total(e.args[0])),
    LossDerivative: SizeInterpreter.loss_derivative,
}.items():
    SIZES.rule(_type)(_rule)
