"""What is fixed beside matrices and knows positions: a rotation of the coordinates of a head, a table of numbers."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np
import sympy as sp
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.printer import Printer

from .._checks import symbolic, whole_number
from .language import Real, kind


class TableValues(sp.Atom):  # type: ignore[misc]
    """An array of numbers as one part of an expression, known by its values.

    >>> TableValues([[0, 1]]) == TableValues(((0.0, 1.0),)), TableValues([[0, 1]])
    (True, table_1x2)
    """

    def __new__(cls, values: Any) -> TableValues:
        made: TableValues = super().__new__(cls)
        made.values = np.array(values, dtype=np.float64)
        made.values.flags.writeable = False
        return made

    values: np.ndarray
    __slots__ = ("values",)

    def _hashable_content(self) -> tuple[object, ...]:
        return self.values.shape, self.values.tobytes()

    def __getnewargs__(self) -> tuple[object, ...]:
        return self.values.tolist(),

    def __getstate__(self) -> None:
        """All of it is made by ``__new__``."""

    def sort_key(self, order: object = None) -> tuple[object, ...]:
        one = sp.Integer(1)
        return self.class_key(), (2, tuple(map(str, self._hashable_content()))), one.sort_key(), one

    def _sympystr(self, printer: Printer) -> str:
        return "table_" + "x".join(map(str, self.values.shape))

    def _latex(self, printer: Printer) -> str:
        return r"\mathrm{table}"


class HeadTurn(Real):
    """A vector whose coordinates are turned within every head of d, by pairs: coordinates j and j + d/2 of a head by
    the angle position * angles[j], so that a at j becomes a cos - b sin, and b at j + d/2 becomes a sin + b cos.

    Rotary position embeddings [Su et al. 2021, arXiv:2104.09864] turn queries and keys by their position. d is twice
    the number of angles; a position is an index, or a number. Raises ``ValueError`` for no angles, and ``TypeError``
    for a matrix.

    >>> from tpcalc.programs.language import Family, Vector
    >>> q = Family(Vector, "q")()
    >>> HeadTurn(q, (1, 0.1), 3), HeadTurn(q, (1, 0.1), 0), HeadTurn(q, (1, 0.1), 3).adjoint(q).position
    (turned_4(q; 3), q, -3)
    """

    own_kind = "vector"
    latex_precedence = PRECEDENCE["Mul"]

    def __new__(cls, body: sp.Basic, angles: Sequence[Any], position: Any) -> sp.Expr:
        body, angles, position = symbolic(body), symbolic(tuple(angles)), symbolic(position)
        if kind(body) == "matrix":
            raise TypeError(f"turned({body}): a matrix has no heads")
        if not angles:
            raise ValueError("angles: got none; expected half as many as heads have coordinates")
        if position == 0 or body == 0 or not any(angles):
            return body
        return super().__new__(cls, body, angles, position)

    body = property(lambda self: self.args[0])
    angles = property(lambda self: tuple(map(float, self.args[1])))
    position = property(lambda self: self.args[2])
    coordinates = property(lambda self: 2 * len(self.args[1]))  # that it mixes

    def adjoint(self, signal: sp.Expr) -> sp.Expr:
        """What a gradient of the turned vector sends to the vector: turned back."""
        return HeadTurn(signal, self.args[1], -self.position)

    def _sympystr(self, printer: Printer) -> str:
        return f"turned_{self.coordinates}({printer.doprint(self.body)}; {printer.doprint(self.position)})"

    def _latex(self, printer: Printer) -> str:
        return rf"\mathrm{{turned}}_{{{printer.doprint(self.position)}}} \left({printer.doprint(self.body)}\right)"


class HeadTable(Real):
    """A number of a table for every pair of positions, and for every head in turn: a vector whose coordinates have that
    of their head, a number where all heads have one table.

    values: of shape (heads, P, P), as ``TableValues`` or what makes one; heads beyond the table's go through it again.
    head_dim: coordinates of a head; p, m: the positions. Raises ``ValueError`` for another shape.

    >>> p, m = sp.symbols("p m", integer=True)
    >>> HeadTable([[[0, 1], [2, 3]]], 4, p, m), HeadTable([[[0, 1], [2, 3]]], 4, 1, 0)
    (table_1x2x2[p, m], 2.00000000000000)
    """

    latex_precedence = PRECEDENCE["Atom"]

    def __new__(cls, values: Any, head_dim: int, p: Any, m: Any) -> sp.Expr:
        table = values if isinstance(values, TableValues) else TableValues(values)
        if table.values.ndim != 3 or 0 in table.values.shape or table.values.shape[1] != table.values.shape[2]:
            raise ValueError(f"values: got shape {table.values.shape}; expected (heads, positions, positions)")
        if len(table.values) == 1 and all(isinstance(one, (int, sp.Integer)) for one in (p, m)):
            return sp.Float(table_entry(table.values, p, m)[0])
        return super().__new__(cls, table, sp.Integer(whole_number("head_dim", int(head_dim), 1)), p, m)

    own_kind = property(lambda self: "scalar" if len(self.values) == 1 else "vector")
    values = property(lambda self: self.args[0].values)
    head_dim = property(lambda self: int(self.args[1]))
    positions = property(lambda self: self.args[2:])
    coordinates = property(lambda self: self.head_dim * len(self.values) if len(self.values) > 1 else 1)

    def _sympystr(self, printer: Printer) -> str:
        return f"{printer.doprint(self.args[0])}[{', '.join(map(printer.doprint, self.positions))}]"

    def _latex(self, printer: Printer) -> str:
        return rf"{printer.doprint(self.args[0])}_{{{','.join(map(printer.doprint, self.positions))}}}"


def table_entry(values: np.ndarray, p: Any, m: Any) -> np.ndarray:
    """The numbers of all heads at positions, as the last axis; raises ``ValueError`` for positions beyond the table."""
    p, m = (np.asarray(one, dtype=np.int64) for one in (p, m))
    last = max(int(p.max()), int(m.max()))
    if last >= values.shape[1] or min(int(p.min()), int(m.min())) < 0:
        raise ValueError(f"P: got position {last} with a table of scores for {values.shape[1]} positions; expected "
                         "no more of them")
    return np.moveaxis(values[:, p, m], 0, -1)
