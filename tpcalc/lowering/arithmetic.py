"""Numbers, sums, products and functions as array code, entrywise."""

from __future__ import annotations

from functools import reduce, singledispatchmethod
from typing import Sequence

import sympy as sp
from sympy.core.function import Application
from sympy.core.relational import Relational
from sympy.logic.boolalg import BooleanAtom

from ..models.activations import UNREAL
from ..programs.by_position import HeadTable
from ..programs.language import LossDerivative, MatVec, Member, Mean
from .code_lines import TAIL, CodeLines, Value

NONREAL = (sp.DiracDelta, sp.Derivative, *map(type, UNREAL))
NUMBERS = (sp.Add, sp.Mul, sp.Pow, sp.Sum, sp.Piecewise, Application, sp.Number, sp.NumberSymbol, sp.Symbol)
HALF = sp.Rational(1, 2)


class Arithmetic(CodeLines):
    """What acts on coordinates, or on numbers."""

    def value(self, node: sp.Expr) -> Value:
        """Code of any node."""
        raise NotImplementedError

    def number(self, expression: sp.Expr) -> str:
        """Code of a number made of loop indices, sizes and parameters."""
        for part in sp.preorder_traversal(expression):
            if isinstance(part, NONREAL) or isinstance(part, sp.Expr) and not isinstance(part, NUMBERS):
                raise self.refused(part, "it has no rule for them")
        return self.names.number(expression, self.index)

    def varies(self, node: sp.Basic) -> bool:
        """Does it need arrays, and not just indices, sizes and parameters?"""
        return node.has(Member, LossDerivative, Mean, MatVec, HeadTable) or bool(node.free_symbols & set(self.order))

    def sum_of(self, values: Sequence[Value]) -> Value:
        axes, what = self.joined(values)
        return Value("(" + " + ".join(self.fitted(v, axes, what) for v in values) + ")", axes, what)

    def product(self, node: sp.Expr) -> Value:
        """Numbers are multiplied first; what stands below a fraction bar is divided by."""
        above, below = [], []
        for factor in sp.Mul.make_args(node):
            inverse = isinstance(factor, sp.Pow) and factor.exp in (-1, -HALF) and self.varies(factor)
            if inverse:
                bottom = self.value(factor.base ** -factor.exp)
                if bottom.axes or bottom.kind != "scalar":
                    below.append(bottom)
                    continue
            above.append(factor)
        numbers = [factor for factor in above if not self.varies(factor)]
        values = [self.value(factor) for factor in above if factor not in numbers]
        if numbers and sp.Mul(*numbers) != 1:
            values.append(Value(self.number(sp.Mul(*numbers)), (), "scalar"))
        return self.times(values, below)

    def times(self, values: Sequence[Value], below: Sequence[Value] = ()) -> Value:
        axes, what = self.joined([*values, *below] or [Value("1.0", (), "scalar")])
        values = sorted(values, key=lambda v: (TAIL[v.kind], len(v.axes)))
        code = ""
        for tail in ("scalar", "vector", "entries"):  # small things first
            for v in (v for v in values if v.kind == tail):
                code = f"{code} * {self.fitted(v, axes, what)}" if code else self.fitted(v, axes, what)
        for v in below:
            code = f"{code or '1.0'} / {self.fitted(v, axes, what)}"
        return Value(f"({code or '1.0'})", axes, what)

    def power(self, node: sp.Pow) -> Value:
        base, exponent = node.args
        if not self.varies(exponent) and exponent == 2:
            one = self.named(self.value(base))
            return Value(f"({one.code} * {one.code})", one.axes, one.kind)
        values = [self.value(base), self.value(exponent)]
        number = all(v.kind == "scalar" and not v.axes for v in values)
        if exponent == HALF:
            return self.called("sqrt", values[:1])
        if exponent in (-1, -HALF) and not number:
            root = values[0] if exponent == -1 else self.called("sqrt", values[:1])
            return self.kept(f"1.0 / {root.code}", root.axes, root.kind)
        return self.called("Pow", values)

    def called(self, name: str, values: Sequence[Value], node: sp.Basic | None = None) -> Value:
        """A function of the table, or what sympy makes of a node."""
        axes, what = self.joined(values)
        arguments = ", ".join(self.fitted(v, axes, what) for v in values)
        code = f"{self.names.function(name, len(values), node)}({arguments})"
        return self.kept(code if axes or what != "scalar" else f"float({code})", axes, what)

    def function(self, node: sp.Expr) -> Value:
        if isinstance(node, NONREAL):
            raise self.refused(node, "it is no real number, or the derivative of a function that has none")
        name = type(node).__name__
        values = [self.value(part) for part in node.args if isinstance(part, sp.Expr)]
        if len(values) != len(node.args):
            raise self.refused(node, "its arguments are no expressions")
        if name in ("Max", "Min"):
            return reduce(lambda one, two: self.called(name, [one, two]), values)
        return self.called(name, values, node)

    def piecewise(self, node: sp.Piecewise) -> Value:
        """The first piece whose condition holds; nan where none does."""
        pieces = [(self.value(piece), condition) for piece, condition in node.args]
        conditions = [self.condition(condition) for _, condition in pieces]
        axes, what = self.joined([*(value for value, _ in pieces), *conditions])
        code = "nan"
        for (value, _), condition in reversed(list(zip(pieces, conditions))):
            code = (self.fitted(value, axes, what) if condition.code == "True" else
                    f"where({self.fitted(condition, axes, what)}, {self.fitted(value, axes, what)}, {code})")
        return self.kept(code, axes, what)

    @singledispatchmethod
    def condition(self, node: sp.Basic) -> Value:
        """Code of a comparison, or of what is made of comparisons."""
        raise self.refused(node, "it is no comparison")

    @condition.register(BooleanAtom)
    def _known_condition(self, node: BooleanAtom) -> Value:
        return Value(str(bool(node)), (), "scalar")

    @condition.register(Relational)
    def _comparison(self, node: Relational) -> Value:
        return self._joined_by(f" {node.rel_op} ", [self.value(side) for side in node.args])

    @condition.register(sp.And)
    @condition.register(sp.Or)
    def _combined(self, node: sp.And | sp.Or) -> Value:
        return self._joined_by({sp.And: " & ", sp.Or: " | "}[node.func], [self.condition(one) for one in node.args])

    @condition.register(sp.Not)
    def _negated(self, node: sp.Not) -> Value:
        value = self.condition(node.args[0])
        return self.kept(f"({value.code} == False)", value.axes, value.kind)

    def _joined_by(self, sign: str, values: Sequence[Value]) -> Value:
        axes, what = self.joined(values)
        return self.kept("(" + sign.join(self.fitted(v, axes, what) for v in values) + ")", axes, what)
