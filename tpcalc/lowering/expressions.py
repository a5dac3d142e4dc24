"""Expressions of the language as array code, entrywise over the axes of indices; averages are inner products.

Arrays have one axis for every index that is an axis, in the order of ``Writer.order``, then that of the coordinates
(two for functions of matrix entries).
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import reduce
from typing import Any, Iterator, NamedTuple, Sequence

import sympy as sp
from sympy.core.function import Application
from sympy.core.relational import Relational

from ..programs.activations import UNREAL
from ..programs.language import (
    LossDerivative, Mat, MatVec, Member, Moment, NonlinearOuter, Outer, Scal, Transpose, kind)
from .sums import recurrence

NONREAL = (sp.DiracDelta, sp.Derivative, *map(type, UNREAL))
TAIL = {"scalar": 0, "vector": 1, "entries": 2}  # axes after those of indices
NUMBERS = (sp.Add, sp.Mul, sp.Pow, sp.Sum, sp.Piecewise, Application, sp.Number, sp.NumberSymbol, sp.Symbol)
HALF = sp.Rational(1, 2)


class NotLowered(TypeError):
    """A statement that array code cannot be written for; the message names it."""


class Value(NamedTuple):
    """Code of an array: its axes, and whether it is a scalar, a vector or a matrix's entries for each of them."""

    code: str
    axes: tuple[sp.Symbol, ...]
    kind: str


class Writer:
    """Array code of expressions, and beside it the code that says what is read: ``code`` and ``reads``.

    The statement that is being written sets ``order`` (the axes), ``bounds`` (their ends, as code), ``index`` (loop
    indices, as code) and ``ascending`` (those that go up, with their first values).
    """

    def __init__(self, names: Any, entries: bool) -> None:
        self.names, self.entries = names, entries
        self.code: list[str] = []
        self.reads: list[str] = []
        self.depth, self.count, self.carried = 1, 0, 0
        self.index: dict[sp.Symbol, str] = {}
        self.order: list[sp.Symbol] = []
        self.bounds: dict[sp.Symbol, tuple[str, str]] = {}
        self.ascending: list[tuple[sp.Symbol, sp.Expr]] = []
        self.known: list[dict[sp.Basic, Value]] = [{}]
        self.large: list[str] = []
        self.statement: Any = None
        self.is_axis: Any = None
        self.functions_of_entries: list[tuple[NonlinearOuter, tuple[sp.Symbol, ...], Any]] = []
        self.carries = True

    # lines

    def line(self, text: str, reads: bool = False) -> None:
        (self.reads if reads else self.code).append("    " * self.depth + text)

    def both(self, text: str) -> None:
        self.line(text)
        self.line(text, reads=True)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Lines inside of a loop or a condition; what they compute is not known after it."""
        self.both(header)
        self.depth += 1
        self.known.append({})
        self.line("pass", reads=True)
        yield
        self.known.pop()
        self.depth -= 1

    @contextmanager
    def running(self, symbol: sp.Symbol, low: str, high: str) -> Iterator[None]:
        """A loop over an index of a sum."""
        name = self.fresh("k")
        before = self.index.get(symbol)
        with self.block(f"for {name} in range({low}, {high} + 1):"):
            self.index[symbol] = name
            yield
        self.index.pop(symbol)
        if before is not None:
            self.index[symbol] = before

    def fresh(self, letter: str = "v") -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def kept(self, code: str, axes: tuple[sp.Symbol, ...], what: str) -> Value:
        """The code's value under a name."""
        name = self.fresh()
        self.line(f"{name} = {code}")
        if what == "entries":
            self.large.append(name)
        return Value(name, axes, what)

    # numbers

    def integer(self, expression: sp.Expr) -> str:
        """Code of a whole number made of loop indices and sizes."""
        return self.names.integer(expression, self.index)

    def number(self, expression: sp.Expr) -> str:
        """Code of a number made of loop indices, sizes and parameters."""
        for part in sp.preorder_traversal(expression):
            if isinstance(part, NONREAL) or isinstance(part, sp.Expr) and not isinstance(part, NUMBERS):
                raise self.refused(part, "it has no rule for them")
        return self.names.number(expression, self.index)

    def varies(self, node: sp.Basic) -> bool:
        """Does it need arrays, and not just indices, sizes and parameters?"""
        return node.has(Member, LossDerivative, Moment, MatVec) or bool(node.free_symbols & set(self.order))

    # values

    def value(self, node: sp.Expr) -> Value:
        if not self.varies(node):
            return Value(self.number(node), (), "scalar")
        for known in reversed(self.known):
            if node in known:
                return known[node]
        value = self._written(node)
        self.known[-1][node] = value
        return value

    def _written(self, node: sp.Expr) -> Value:
        if isinstance(node, sp.Symbol):
            low, high = self.bounds[node]
            return self.kept(f"asarray(range({low}, {high} + 1))", (node,), "scalar")
        if isinstance(node, Member) and not isinstance(node, Mat):
            return self.member(node)
        if isinstance(node, sp.Add):
            return self.sum_of([self.value(part) for part in node.args])
        if isinstance(node, sp.Mul):
            return self.product(node)
        if isinstance(node, sp.Sum):
            return self.total(node)
        if isinstance(node, Moment):
            return self.moment(node)
        if isinstance(node, MatVec):
            return self.matvec(node)
        if isinstance(node, LossDerivative):
            return self.loss(node)
        if isinstance(node, Outer):
            u, v = (self.vector(part) for part in node.args)
            if u.axes or v.axes:
                raise self.refused(node, "an outer product is read for one index at a time here")
            return self.kept(f"{u.code}[:, None] * {v.code}", (), "entries")
        if isinstance(node, sp.Pow):
            return self.power(node)
        if isinstance(node, sp.Piecewise):
            return self.piecewise(node)
        if isinstance(node, Application):
            return self.function(node)
        raise self.refused(node, "it has no rule for them")

    def refused(self, node: sp.Basic, reason: str) -> NotLowered:
        where = "" if self.statement is None else f", in {self.statement.target} := {self.statement.value}"
        return NotLowered(f"lowering does not read {type(node).__name__} nodes such as {node}{where}: {reason}")

    def vector(self, node: sp.Expr) -> Value:
        """A value as a vector: numbers are constant ones."""
        value = self.value(node)
        if value.kind != "scalar":
            return value
        axes = self.ordered(value.axes)
        shape = ", ".join([*(self.length(a) for a in axes), "width"])
        return self.kept(f"broadcast({self.fitted(value, axes, 'vector')}, ({shape},))", axes, "vector")

    def ordered(self, axes: Any) -> tuple[sp.Symbol, ...]:
        return tuple(a for a in self.order if a in axes)

    def length(self, axis: sp.Symbol) -> str:
        low, high = self.bounds[axis]
        return f"({high} - {low} + 1)"

    def fitted(self, value: Value, axes: tuple[sp.Symbol, ...], what: str) -> str:
        """Code that broadcasts to some axes and a kind."""
        own, tail = TAIL[value.kind], TAIL[what]
        if not value.axes and own in (0, tail):
            return value.code
        slots = [":" if a in value.axes else "None" for a in axes]
        while slots and slots[0] == "None":
            slots.pop(0)
        slots += [":" if own else "None"] * tail
        return value.code if set(slots) == {":"} else f"{value.code}[{', '.join(slots)}]"

    def joined(self, values: Sequence[Value]) -> tuple[tuple[sp.Symbol, ...], str]:
        """The axes and the kind that values have together."""
        axes = self.ordered({a for v in values for a in v.axes})
        return axes, max((v.kind for v in values), key=lambda name: TAIL[name])

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
        return Value(f"({code})", axes, what)

    def named(self, value: Value) -> Value:
        """A value that can be written twice."""
        return value if value.code.isidentifier() else self.kept(value.code, value.axes, value.kind)

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

    def condition(self, node: sp.Basic) -> Value:
        if node in (sp.true, sp.false):
            return Value(str(bool(node)), (), "scalar")
        if isinstance(node, Relational) and node.rel_op in (">", "<", ">=", "<=", "==", "!="):
            values = [self.value(side) for side in node.args]
            axes, what = self.joined(values)
            one, two = (self.fitted(v, axes, what) for v in values)
            return self.kept(f"({one} {node.rel_op} {two})", axes, what)
        if isinstance(node, (sp.And, sp.Or)):
            values = [self.condition(part) for part in node.args]
            axes, what = self.joined(values)
            sign = " & " if isinstance(node, sp.And) else " | "
            return self.kept(sign.join(self.fitted(v, axes, what) for v in values), axes, what)
        if isinstance(node, sp.Not):
            value = self.condition(node.args[0])
            return self.kept(f"({value.code} == False)", value.axes, value.kind)
        raise self.refused(node, "it is no comparison")

    # members

    def member(self, node: Member) -> Value:
        """A member, or those of all indices that are axes."""
        found = self.names.member(node, self.index, self.bounds)
        self.line(found.read, reads=True)
        code, axes = self.turned(found.code, found.axes, not isinstance(node, Scal))
        return self.kept(code, axes, "scalar" if isinstance(node, Scal) else "vector")

    def turned(self, code: str, axes: tuple[sp.Symbol, ...], vectors: bool) -> tuple[str, tuple[sp.Symbol, ...]]:
        """The axes in the order of the loops."""
        if axes == self.ordered(axes):
            return code, axes
        order = tuple(axes.index(a) for a in self.ordered(axes)) + ((len(axes),) if vectors else ())
        return f"permuted({code}, {order})", self.ordered(axes)

    def matrix(self, node: Mat) -> str:
        found = self.names.member(node, self.index, self.bounds)
        self.line(found.read, reads=True)
        return found.code

    def entry_terms(self, terms: str, factor: str, node: NonlinearOuter) -> None:
        """A function of entries that the reading adds to a matrix's terms; what it reads is said here."""
        number, at = len(self.functions_of_entries), "".join(code + ", " for code in self.index.values())
        self.functions_of_entries.append((node, tuple(self.index), self.is_axis))
        self.line(f"entry_function({terms}, {factor}, {number}, ({at}))")
        code, large = self.code, self.large
        self.code, self.large, self.carries = [], [], False
        self.known.append({})
        self.value(node.body)
        self.known.pop()
        self.code, self.large, self.carries = code, large, True

    # averages, products, sums

    def moment(self, node: Moment) -> Value:
        factors: list[sp.Expr] = []
        for factor in sp.Mul.make_args(node.args[0]):
            twice = isinstance(factor, sp.Pow) and factor.exp == 2
            factors += [factor.base] * 2 if twice else [factor]
        vectors = [f for f in factors if kind(f) == "vector"]
        numbers = [self.value(f) for f in factors if f not in vectors]
        if len(vectors) == 1:
            one = self.vector(vectors[0])
            found = self.kept(f"mean({one.code})", one.axes, "scalar")
        else:
            first = vectors[0] if len(vectors) == 2 else sp.Mul(*vectors[:-1])
            found = self.inner(self.vector(first), self.vector(vectors[-1]))
        return self.times([found, *numbers]) if numbers else found

    def inner(self, u: Value, v: Value) -> Value:
        """The average of u v over coordinates: a product of matrices where no axis is shared."""
        axes = self.ordered({*u.axes, *v.axes})
        if not axes:
            return self.kept(f"dot({u.code}, {v.code}) / width", (), "scalar")
        if not set(u.axes) & set(v.axes) and max(len(u.axes), len(v.axes)) == 1:
            if u.axes + v.axes != axes:
                u, v = v, u
            turned = f"{self.named(v).code}.T" if v.axes else v.code
            return self.kept(f"{u.code} @ {turned} / width", axes, "scalar")
        return self.kept(f"inner({self.fitted(u, axes, 'vector')}, {self.fitted(v, axes, 'vector')}) / width", axes,
                         "scalar")

    def matvec(self, node: MatVec) -> Value:
        vector = self.vector(node.vector)
        times = " * ".join(map(self.length, vector.axes)) or "1"
        if isinstance(node.matrix, NonlinearOuter):
            if self.entries:
                matrix = self.value(node.matrix.body).code
            else:
                terms = self.fresh("m")
                self.line(f"{terms} = [], [], []")
                self.entry_terms(terms, "1.0", node.matrix)
                matrix = f"combine(*{terms}, ())"
            return self.kept(f"entry_product({matrix}, {vector.code})", vector.axes, "vector")
        turned = isinstance(node.matrix, Transpose)
        member = node.matrix.args[0] if turned else node.matrix
        matrix = self.matrix(member)
        self.line(f"multiplied({self.names.place(member, self.index)}, {times}, {turned})", reads=True)
        return self.kept(f"matvec({matrix}, {turned}, {vector.code})", vector.axes, "vector")

    def loss(self, node: LossDerivative) -> Value:
        """chi of a whole batch at once; of several outputs in one of them, or in all."""
        outputs, *place = node.args
        several = isinstance(outputs, sp.Tuple)
        values = [self.value(one) for one in (outputs if several else (outputs,))]
        axes = self.ordered({a for v in values for a in v.axes} | {a for i in place[:len(place) - several]
                                                                   for a in i.free_symbols})
        read = self.names.targets(place, len(values) if several else None, self.index, self.bounds)
        self.line(read.read, reads=True)
        targets, found = read.code, read.axes
        if found != self.ordered(found):
            raise self.refused(node, "its indices are in another order than the loops")
        shape = ", ".join(map(self.length, axes)) + ("," if axes else "")
        parts = [f"broadcast({self.fitted(v, axes, 'scalar')}, ({shape}))" if axes else v.code for v in values]
        if found != axes:
            slots = ", ".join([*(":" if a in found else "None" for a in axes), *([":"] if several else [])])
            targets = f"{targets}[{slots}]"
        if not several:
            return self.kept(f"chi({parts[0]}, {targets})", axes, "scalar")
        last, name = place[-1], self.fresh()
        self.line(f"{name} = chis(stacked([{', '.join(parts)}]), {targets})")
        if last in self.bounds:
            low, high = self.bounds[last]
            return self.kept(f"{name}[..., {low}:{high} + 1]", (*axes, last), "scalar")
        one = f"{name}[..., {self.integer(last)}]"
        return self.kept(one if axes else f"float({one})", axes, "scalar")

    def total(self, node: sp.Sum) -> Value:
        (index, low, high), inner = node.limits[-1], node.limits[:-1]
        body = sp.Sum(node.function, *inner) if inner else node.function
        if self.is_axis(index) and not body.has(NonlinearOuter):
            with self.summed(index, low, high):
                return self.contracted(body, index)
        return self.running_total(node, body, index, low, high)

    @contextmanager
    def summed(self, index: sp.Symbol, low: sp.Expr, high: sp.Expr) -> Iterator[None]:
        """The index of a sum as one more axis, the last."""
        self.order.append(index)
        self.bounds[index] = (self.integer(low), self.integer(high))
        self.known.append({})
        yield
        self.known.pop()
        self.order.remove(index)
        del self.bounds[index]

    def contracted(self, body: sp.Expr, index: sp.Symbol) -> Value:
        """The sum over an axis of every term: a product of matrices where one vector has no other axis."""
        found = []
        for term in sp.Add.make_args(body):
            if term.has(Outer):
                left, right = self.outer(term)
                found.append(self.kept(f"{left}.T @ {right}", (), "entries"))
                continue
            vectors = [self.value(f) for f in sp.Mul.make_args(term) if kind(f) == "vector"]
            numbers = [f for f in sp.Mul.make_args(term) if kind(f) != "vector"]
            if len(vectors) == 1 and vectors[0].axes == (index,) and numbers:
                factor = self.named(self.product(sp.Mul(*numbers)))
                if index in factor.axes and len(factor.axes) <= 2:
                    found.append(self.kept(f"{factor.code} @ {vectors[0].code}", factor.axes[:-1], "vector"))
                    continue
            whole = self.product(term)
            if index not in whole.axes:
                found.append(self.times([whole, Value(f"float{self.length(index)}", (), "scalar")]))
                continue
            axes = tuple(a for a in whole.axes if a != index)
            found.append(self.kept(f"total({whole.code}, {whole.axes.index(index)})", axes, whole.kind))
        return found[0] if len(found) == 1 else self.sum_of(found)

    def outer(self, term: sp.Expr) -> tuple[str, str]:
        """c u and v of a scalar times an outer product, with the axes of sums first: shapes (terms, width)."""
        one, = (f for f in sp.Mul.make_args(term) if f.has(Outer))
        numbers = [f for f in sp.Mul.make_args(term) if f is not one]
        if isinstance(one, sp.Sum):
            (index, low, high), inner = one.limits[-1], one.limits[:-1]
            body = sp.Mul(*numbers, sp.Sum(one.function, *inner) if inner else one.function)
            with self.summed(index, low, high):
                return self.outer(body)
        if not isinstance(one, Outer):
            raise self.refused(one, "sums of outer products are read term by term")
        left, right = self.vector(one.left), self.vector(one.right)
        if numbers:
            left = self.named(self.times([left, *(self.value(f) for f in numbers)]))
        axes = self.ordered({*left.axes, *right.axes, *(a for a in self.order)})
        shape = ", ".join([*map(self.length, axes), "width"])
        codes = [v.code if v.axes == axes else f"broadcast({self.fitted(v, axes, 'vector')}, ({shape}))"
                 for v in (left, right)]
        if len(axes) == 1:
            return codes[0], codes[1]
        return f"{codes[0]}.reshape((-1, width))", f"{codes[1]}.reshape((-1, width))"

    def running_total(self, node: sp.Sum, body: sp.Expr, index: sp.Symbol, low: sp.Expr, high: sp.Expr) -> Value:
        """A sum term by term; carried from step to step where it has a recurrence."""
        clocks = [t for t, begin in self.ascending if (high - low).subs(t, begin).is_nonnegative]  # there is a term
        carried = recurrence(node, clocks) if self.carries and self.varies(body) else None
        first, last = self.integer(low), self.integer(high)
        what = "entries" if node.has(Outer) else kind(node)
        axes = self.ordered(node.free_symbols)
        name = self.fresh()
        if what == "entries":
            self.large.append(name)
        if carried is None:
            self.line(f"{name} = 0.0")
            with self.running(index, first, last):
                self.added(name, self.value(body), axes, what)
            return self._lifted(name, axes, what)
        latest = self.value(body.subs(index, high))
        others = ", ".join(code for t, code in self.index.items() if t != carried.clock and t in node.free_symbols)
        self.carried += 1
        key = f"({self.carried}, {others})"
        step = self.index[carried.clock]
        self.line(f"{name} = {latest.code}")
        self.both(f"{name}b = carried.get({key})")
        self.both(f"if {name}b is not None and {name}b[0] == {step} - 1:")
        self.line("    pass", reads=True)
        ratio = self.number(carried.ratio)
        grown = f"advanced({name}b[1], {ratio}, {name})" if what == "entries" else f"{ratio} * {name}b[1] + {name}"
        self.line(f"    {name} = {grown}")
        with self.block("else:"):
            self.line(f"{name} = {name} * 1.0")  # an array of its own
            with self.running(index, first, f"{last} - 1"):
                self.line("pass")
                self.added(name, self.value(body), axes, what)
        self.line(f"carried[{key}] = ({step}, {name})")
        self.line(f"carried[{key}] = ({step},)", reads=True)
        if what == "entries":
            self.line(f"holds({key})", reads=True)
        return self._lifted(name, axes, what)

    def added(self, name: str, value: Value, axes: tuple[sp.Symbol, ...], what: str) -> None:
        self.line(f"{name} = {name} + {self.fitted(value, axes, what)}")

    def _lifted(self, name: str, axes: tuple[sp.Symbol, ...], what: str) -> Value:
        """A sum that had no term is a number: as an array it has the shape that is wanted."""
        if what == "scalar" and not axes:
            return Value(name, axes, what)
        shape = ", ".join([*map(self.length, axes), *["width"] * TAIL[what]])
        return self.kept(f"broadcast({name}, ({shape},))", axes, what)
