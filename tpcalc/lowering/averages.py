"""Averages over coordinates, products with matrices and derivatives of the loss as array code."""

from __future__ import annotations

import sympy as sp

from ..programs.language import HeadSum, LossDerivative, Matrix, MatVec, Mean, NonlinearOuter, kind
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
