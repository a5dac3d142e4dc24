"""Lines of array code, and arrays as code: loops, names, axes, and what broadcasts to what.

Arrays have one axis for every index that is an axis, in the order of ``CodeLines.order``, then that of the coordinates
(two for functions of matrix entries).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator, NamedTuple, Sequence

import sympy as sp

from .._types import Array
from ..errors import NotCovered
from ..programs.language import NonlinearOuter

TAIL = {"scalar": 0, "vector": 1, "entries": 2}  # axes after those of indices


class NotLowered(NotCovered):
    """A statement that array code cannot be written for; the message names it."""


class Value(NamedTuple):
    """Code of an array: its axes, and whether it is a scalar, a vector or a matrix's entries for each of them."""

    code: str
    axes: tuple[sp.Symbol, ...]
    kind: str


class CodeLines:
    """Array code that grows, and beside it the code that says what is read: ``code`` and ``reads``.

    The statement that is being written sets ``order`` (the axes), ``bounds`` (their ends, as code), ``index`` (loop
    indices, as code) and ``ascending`` (those that go up, with their first values).
    """

    def __init__(self, names: Array, entries: bool) -> None:
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
        self.statement: Array = None
        self.is_axis: Array = None
        self.functions_of_entries: list[tuple[NonlinearOuter, tuple[sp.Symbol, ...], Array]] = []
        self.carries = True
        self.rows = ":"  # of a matrix's entries: all, or those of the part that a loop is at

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
    def in_parts(self) -> Iterator[None]:
        """Entries of a matrix some rows at a time, so that what is computed on the way stays in a processor's cache."""
        with self.block("for rows in parts:"):
            self.rows = "rows"
            yield
            self.rows = ":"

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Entries of whole matrices, also inside of such a loop."""
        rows, known = self.rows, self.known
        if rows != ":":
            self.rows, self.known = ":", [{}]
        yield
        self.rows, self.known = rows, known

    def lengths(self, what: str) -> list[str]:
        """The length of the axes that a kind has besides those of indices, as code."""
        first = "width" if self.rows == ":" else "(rows.stop - rows.start)"
        return {"scalar": [], "vector": ["width"], "entries": [first, "width"]}[what]

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

    def integer(self, expression: sp.Expr) -> str:
        """Code of a whole number made of loop indices and sizes."""
        return self.names.integer(expression, self.index)

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

    def refused(self, node: sp.Basic, reason: str) -> NotLowered:
        where = "" if self.statement is None else f", in {self.statement}"
        return NotLowered(f"lowering does not read {type(node).__name__} nodes such as {node}{where}: {reason}")

    def ordered(self, axes: Array) -> tuple[sp.Symbol, ...]:
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

    def named(self, value: Value) -> Value:
        """A value that can be written twice."""
        return value if value.code.isidentifier() else self.kept(value.code, value.axes, value.kind)

    def turned(self, code: str, axes: tuple[sp.Symbol, ...], vectors: bool) -> tuple[str, tuple[sp.Symbol, ...]]:
        """The axes in the order of the loops."""
        if axes == self.ordered(axes):
            return code, axes
        order = tuple(axes.index(a) for a in self.ordered(axes)) + ((len(axes),) if vectors else ())
        return f"permuted({code}, {order})", self.ordered(axes)
