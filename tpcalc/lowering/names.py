"""What expressions read, as code: members of families, data, numbers and functions."""

from __future__ import annotations

from functools import lru_cache
from typing import Mapping, NamedTuple, Sequence

import sympy as sp

from ..programs.language import Member, Scalar, Vector
from ..programs.program import Program
from .nest import Axes, Family, Layout, is_given_axis

Index = Mapping[sp.Symbol, str]
LastReads = Mapping[sp.Symbol, tuple[str, str]]


class ArrayRead(NamedTuple):
    """Code of an array, code that says that it is read, and the axes in the order in which it has them."""

    code: str
    read: str
    axes: tuple[sp.Symbol, ...]


@lru_cache(maxsize=4096)
def _has_whole_coefficients(expression: sp.Expr) -> bool:
    """Is it a polynomial of its symbols with whole coefficients? Few expressions are indices, and they come often."""
    symbols = expression.free_symbols
    return bool(expression.is_polynomial(*symbols)) and all(
        c.is_Integer for c in sp.Poly(expression, *symbols).coeffs())


@lru_cache(maxsize=4096)
def _polynomial_code(expression: sp.Expr, codes: tuple[tuple[sp.Symbol, str], ...]) -> str:
    """A polynomial of whole coefficients in the code of its symbols."""
    found = str(expression.xreplace({symbol: sp.Symbol(code) for symbol, code in codes}))
    return found if found.isidentifier() else f"({found})"


class Names:
    """The families, numbers and functions of a program, by the numbers that its code gives them.

    families: those that are stored, given vectors and matrices among them, with their layouts; numbers: expressions in
    loop indices, sizes and parameters with the indices that they are called with; functions: by name in the code,
    sympy's name and class with the number of arguments.
    """

    def __init__(self, program: Program, axes: Axes) -> None:
        self.program, self.axes = program, axes
        self.families: list[Family] = []
        self.layouts: list[Layout] = []
        self.numbers: dict[tuple[sp.Expr, tuple[sp.Symbol, ...]], int] = {}
        self.functions: dict[str, tuple[str, type | None, int]] = {}

    def number_of(self, member: Member) -> int:
        one = member.family_key
        if one not in self.families:
            self.families.append(one)
            self.layouts.append(self.layout(member))
        return self.families.index(one)

    def layout(self, member: Member) -> Layout:
        """The axes of a family that is only given: every index that is a symbol there is an axis of vectors."""
        found = self.axes.layouts.get(member.family_key)
        if found is not None:
            return found
        vectors = isinstance(member, Vector)
        return tuple((i, i) if vectors and is_given_axis(self.program, member, p) else None
                     for p, i in enumerate(member.indices))

    def is_data(self, member: Member) -> bool:
        """Is it read from what is given, and never assigned?"""
        return isinstance(member, Scalar) and member.family_key not in self.axes.layouts

    def integer(self, expression: sp.Expr, index: Index) -> str:
        """Code of a whole number; raises ``TypeError`` for what is not made of indices and sizes."""
        expression = sp.sympify(expression, strict=True)
        if expression.is_Integer:
            return str(int(expression))
        symbols = expression.free_symbols
        known = {**{s: code for s, code in index.items() if s in symbols},
                 **{s: f"size_{s}" for s in self.program.sizes if s in symbols}}
        if symbols and symbols <= set(known) and _has_whole_coefficients(expression):
            return _polynomial_code(expression, tuple(known.items()))
        return f"int({self.number(expression, index)})"

    def number(self, expression: sp.Expr, index: Index) -> str:
        """Code of a number: a literal, a name, or a call with loop indices."""
        expression = sp.sympify(expression, strict=True)
        if expression.is_Rational and expression.is_finite:
            return repr(float(expression))
        used = tuple(s for s in index if s in expression.free_symbols)
        location = self.numbers.setdefault((expression, used), len(self.numbers))
        return f"n{location}({', '.join(index[s] for s in used)})" if used else f"n{location}"

    def function(self, name: str, arguments: int, node: sp.Basic | None) -> str:
        code = f"f_{name}"
        self.functions[code] = (name, None if node is None else node.func, arguments)
        return code

    def key(self, member: Member, index: Index) -> str:
        """The indices that are no axes."""
        layout = self.layout(member)
        codes = [self.integer(i, index) for i, axis in zip(member.indices, layout) if axis is None]
        return f"({', '.join(codes)}{',' if len(codes) == 1 else ''})"

    def location(self, member: Member, index: Index) -> str:
        return f"{self.number_of(member)}, {self.key(member, index)}"

    def member(self, member: Member, index: Index, bounds: LastReads) -> ArrayRead:
        if self.is_data(member):
            return self._given(member.name, member.indices, index, bounds, "")
        layout, number = self.layout(member), self.number_of(member)
        found = [(i, axis) for i, axis in zip(member.indices, layout) if axis is not None]
        ends, cuts, axes = [], [], []
        for position, (i, axis) in enumerate(found):
            only_given = member.family_key not in self.axes.layouts
            start = f"first[{number}][{position}]" if only_given else self.integer(axis[0], {})
            low, high = bounds[i] if i in bounds else (self.integer(i, index),) * 2
            ends.append(f"({low}, {high})")
            if i not in bounds:
                cuts.append(f"{low} - {start}")
                continue
            axes.append(i)
            whole = not only_given and (low, high) == (start, self.integer(axis[1], {}))
            cuts.append(":" if whole else f"{low} - {start}:{high} - {start} + 1")
        code = f"F{number}[{self.key(member, index)}]"
        if set(cuts) - {":"}:
            code += f"[{', '.join(cuts)}{'' if isinstance(member, Scalar) else ', ...'}]"
        if isinstance(member, Scalar) and cuts and not axes:
            code = f"float({code})"
        read = f"need({number}, {self.key(member, index)}, ({''.join(e + ', ' for e in ends)}))"
        return ArrayRead(code, read, tuple(axes))

    def targets(self, location: Sequence[sp.Expr], outputs: int | None, index: Index, bounds: LastReads) -> ArrayRead:
        """What a loss compares outputs with; those of all outputs, with one more axis, where there are several."""
        if outputs is None:
            return self._given("y", tuple(location), index, bounds, "")
        return self._given("y", tuple(location[:-1]), index, bounds, f"(0, {outputs - 1}), ")

    def _given(self, name: str, indices: Sequence[sp.Expr], index: Index, bounds: LastReads, row: str) -> ArrayRead:
        axes = tuple(i for i in indices if i in bounds)
        ends = [bounds[i] if i in bounds else (self.integer(i, index),) * 2 for i in indices]
        cuts = [f"{low}:{high} + 1" if i in bounds else low for i, (low, high) in zip(indices, ends)]
        location = ", ".join([*cuts, *([":"] if row else [])])
        read = f"data({name!r}, ({''.join(f'({low}, {high}), ' for low, high in ends)}{row}), {bool(row)})"
        if name == "y":  # losses are NumPy's
            code = f"numbers_of[{name!r}][{location or '()'}]"
        else:
            code = f"arrays_of[{name!r}][{location}]" if axes else f"numbers_of[{name!r}][{location or '()'}]"
        return ArrayRead(code if axes or row else f"float({code})", read, axes)
