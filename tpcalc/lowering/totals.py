"""Sums and averages as array code: over an axis by contraction, others term by term, or carried from step to step.

A sum over the history is carried as S(t) = r(t) S(t-1) + what step t adds. Averages are over coordinates; products
with matrices and derivatives of the loss stand beside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Sequence

import sympy as sp

from ..programs.by_position import HeadTable, HeadTurn
from ..programs.language import HeadSum, LossDerivative, MatVec, Matrix, Mean, NonlinearOuter, Outer, kind
from ..programs.special import NormRatio, Quantile
from .arithmetic import Arithmetic
from .code_lines import Value


class Averages(Arithmetic):
    """What reads all coordinates at once; averages are inner products."""

    def vector(self, node: sp.Expr) -> Value:
        """A value as a vector: numbers are constant ones."""
        value = self.value(node)
        if value.kind != "scalar":
            return value
        axes = self.ordered(value.axes)
        shape = ", ".join([*(self.length(a) for a in axes), "width"])
        return self.kept(f"broadcast({self.fitted(value, axes, 'vector')}, ({shape},))", axes, "vector")

    def matrix(self, node: Matrix) -> str:
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

    def moment(self, node: Mean) -> Value:
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

    def head_sum(self, node: HeadSum) -> Value:
        one = self.vector(node.body)
        options = ", ".join(map(str, (node.size, node.apart, node.first_read, node.first_written)))
        return self.kept(f"head_sum({one.code}, {options})", one.axes, "vector")

    def head_turn(self, node: HeadTurn) -> Value:
        one, position = self.vector(node.body), self.value(node.position)
        axes = self.ordered({*one.axes, *position.axes})
        code = f"head_turn({self.fitted(one, axes, 'vector')}, {node.angles}, {self.fitted(position, axes, 'vector')})"
        return self.kept(code, axes, "vector")

    def head_table(self, node: HeadTable) -> Value:
        locations = [self.value(one) for one in node.positions]
        axes, kind_of = self.ordered({a for one in locations for a in one.axes}), node.own_kind
        codes = ", ".join(self.fitted(one, axes, "scalar") for one in locations)
        repeated = f"{node.head_dim}, width" if kind_of == "vector" else "0, 0"
        return self.kept(f"head_table({node.values.tolist()}, {codes}, {repeated})", axes, kind_of)

    def quantile(self, node: Quantile) -> Value:
        one = self.vector(node.body)
        return self.kept(f"quantile({one.code}, {float(node.share)})", one.axes, "scalar")

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

    def norm_ratio(self, node: NormRatio) -> Value:
        above, below = (", ".join(map(self.matrix, part)) for part in (node.above, node.below))
        return self.kept(f"norm_ratio([{above}], [{below}])", (), "scalar")

    def matvec(self, node: MatVec) -> Value:
        vector = self.vector(node.vector)
        times = " * ".join(map(self.length, vector.axes)) or "1"
        if isinstance(node.matrix, NonlinearOuter):
            if self.entries:
                with self.whole():
                    matrix = self.value(node.matrix.body).code
            else:
                terms = self.fresh("m")
                self.line(f"{terms} = [], [], []")
                self.entry_terms(terms, "1.0", node.matrix)
                matrix = f"combine(*{terms}, ())"
            return self.kept(f"entry_product({matrix}, {vector.code})", vector.axes, "vector")
        turned, member = node.matrix.turned, node.matrix.member
        matrix = self.matrix(member)
        self.line(f"multiplied({self.names.location(member, self.index)}, {times}, {turned})", reads=True)
        return self.kept(f"matvec({matrix}, {turned}, {vector.code})", vector.axes, "vector")

    def loss(self, node: LossDerivative) -> Value:
        """chi of a whole batch at once; of several outputs in one of them, or in all."""
        location, several = node.indices, node.several
        values = [self.value(one) for one in node.outputs]
        axes = self.ordered({a for v in values for a in v.axes} | {a for i in location[:len(location) - several]
                                                                   for a in i.free_symbols})
        read = self.names.targets(location, len(values) if several else None, self.index, self.bounds)
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
        last, name = location[-1], self.fresh()
        self.line(f"{name} = chis(stacked([{', '.join(parts)}]), {targets})")
        if last in self.bounds:
            low, high = self.bounds[last]
            return self.kept(f"{name}[..., {low}:{high} + 1]", (*axes, last), "scalar")
        one = f"{name}[..., {self.integer(last)}]"
        return self.kept(one if axes else f"float({one})", axes, "scalar")


@dataclass(frozen=True)
class Recurrence:
    """S(t) = ratio(t) S(t-1) + the sum's function at its upper end; clock: the t that grows with that end."""

    clock: sp.Symbol
    ratio: sp.Expr


def recurrence(total: sp.Sum, clocks: Sequence[sp.Symbol]) -> Recurrence | None:
    """The recurrence of a sum over k = low, ..., t + constant with terms c(t, k) h(k), None for any other sum.

    c(t, k) / c(t-1, k) may not depend on k.

    clocks: indices of loops that go up by one. A moving average is such a sum:

    >>> t, k = sp.symbols("t k", integer=True, nonnegative=True)
    >>> h = sp.Function("h")
    >>> recurrence(sp.Sum(sp.Rational(9, 10)**(t - k) * h(k)**2, (k, 0, t)), [t]).ratio
    9/10
    >>> recurrence(sp.Sum(h(k) / (1 + t - k), (k, 0, t)), [t]) is None
    True
    """
    if len(total.limits) != 1:
        return None
    (k, low, high), = total.limits
    for t in clocks:
        if not (high - t).is_Integer or low.has(t):
            continue
        rest, moving = total.function.as_independent(t, as_Add=False)
        if not _is_scalar(moving):
            continue
        ratio = _ratio(moving, t)
        if not ratio.has(k) and not ratio.has(sp.zoo, sp.nan):
            return Recurrence(t, ratio)
    return None


@lru_cache(maxsize=1024)
def _ratio(moving: sp.Expr, clock: sp.Symbol) -> sp.Expr:
    """Kept: the averages of an optimizer are the same for every matrix and network."""
    return sp.simplify(moving / moving.subs(clock, clock - 1))


def _is_scalar(expression: sp.Expr) -> bool:
    """Is it made of numbers and symbols alone?"""
    return all(part.is_Symbol or part.is_Number or part.is_NumberSymbol for part in sp.preorder_traversal(expression)
               if not part.args)


class Totals(Averages):
    """Sums over indices."""

    def total(self, node: sp.Sum) -> Value:
        axes_first = sorted(node.limits, key=lambda limit: not self.is_axis(limit[0]))  # ends of axes have no indices
        (index, low, high), inner = axes_first[-1], axes_first[:-1]
        body = sp.Sum(node.function, *inner) if inner else node.function
        if self.is_axis(index) and not body.has(NonlinearOuter):
            with self.summed(index, low, high):
                return self.contracted(body, index)
        return self.running_total(node, body, index, low, high)

    def contracted(self, body: sp.Expr, index: sp.Symbol) -> Value:
        """The sum over an axis of every term: a product of matrices where one vector has no other axis."""
        found = []
        for term in sp.Add.make_args(body):
            if term.has(Outer):
                left, right = self.outer(term)
                part = "" if self.rows == ":" else "[:, rows]"
                found.append(self.kept(f"{left}{part}.T @ {right}", (), "entries"))
                continue
            vectors = [self.value(f) for f in sp.Mul.make_args(term) if kind(f) == "vector"]
            numbers = [f for f in sp.Mul.make_args(term) if kind(f) != "vector"]
            if len(vectors) == 1 and vectors[0].axes == (index,) and numbers:
                factor = self.named(self.product(sp.Mul(*numbers)))
                if index in factor.axes:
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
        number, one = term.as_independent(Outer, as_Add=False)
        if isinstance(one, sp.Sum):
            (index, low, high), inner = one.limits[-1], one.limits[:-1]
            body = number * (sp.Sum(one.function, *inner) if inner else one.function)
            with self.summed(index, low, high):
                return self.outer(body)
        if not isinstance(one, Outer):
            raise self.refused(one, "sums of outer products are read term by term")
        left, right = self.vector(one.left), self.vector(one.right)
        if number != 1:
            left = self.named(self.times([left, *(self.value(f) for f in sp.Mul.make_args(number))]))
        axes = self.ordered({*left.axes, *right.axes, *(a for a in self.order)})
        shape = ", ".join([*map(self.length, axes), "width"])
        codes = [v.code if v.axes == axes else f"broadcast({self.fitted(v, axes, 'vector')}, ({shape}))"
                 for v in (left, right)]
        if len(axes) == 1:
            return codes[0], codes[1]
        return f"reshaped({codes[0]}, (-1, width))", f"reshaped({codes[1]}, (-1, width))"

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
        others += "" if self.rows == ":" else ", rows.start" if others else "rows.start"
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
        shape = ", ".join([*map(self.length, axes), *self.lengths(what)])
        return self.kept(f"broadcast({name}, ({shape},))", axes, what)
