"""Sums as array code: over an axis by contraction, others term by term, carried from step to step where they can be."""

from __future__ import annotations

import sympy as sp

from ..programs.language import NonlinearOuter, Outer, kind
from .averages import Averages
from .code_lines import Value
from .sums import recurrence


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
