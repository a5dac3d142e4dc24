"""Expressions in matrices, written as symbols that do not commute, and their values: arrays, or matrices of sympy's."""

from __future__ import annotations

from functools import reduce
from operator import add, matmul, mul
from typing import Any, Callable, Mapping

import numpy as np
import sympy as sp

Known = Mapping[sp.Basic, Any]
MatrixInterpreter = Callable[[Any, Known], Any]


def matrix(name: str) -> sp.Symbol:
    """A matrix, or a vector of several numbers."""
    return sp.Symbol(name, commutative=False)


class MatrixExpression(sp.Expr):
    """What is made of matrices, and is one."""

    is_commutative = False


class Transposed(MatrixExpression):
    """The transpose of one matrix."""

    def _latex(self, printer: Any) -> str:
        return rf"{{{printer.doprint(self.args[0])}}}^{{\top}}"


def value(node: Any, known: Known, nodes: Mapping[type, MatrixInterpreter] = {},
          number: Callable[[Any], Any] = float) -> Any:
    """An expression's value, given those of its symbols; products of what commutes are entrywise.

    nodes: readings of nodes by their class, which are asked first; number: what a number is read as. A number in a sum
    of matrices is that multiple of the unit matrix. Raises ``TypeError`` for what is none of these.
    """
    if node in known:
        return known[node]
    if type(node) in nodes:
        return nodes[type(node)](node, known)

    def of(part: Any) -> Any:
        return value(part, known, nodes, number)

    if isinstance(node, Transposed):
        return of(node.args[0]).T
    if node.is_Add:
        parts = [of(part) for part in node.args]
        unit = np.eye(len(max(parts, key=np.ndim))) if any(map(np.ndim, parts)) else 1
        return reduce(add, (part if np.ndim(part) else part * unit for part in parts))
    if node.is_Mul:
        numbers, matrices = node.args_cnc()
        parts = [*map(of, numbers), *([reduce(matmul, map(of, matrices))] if matrices else [])]
        return reduce(mul, parts)
    if node.is_Pow and node.is_commutative:
        return of(node.base) ** of(node.exp)
    if node.is_Pow and node.exp == -1:
        return np.linalg.inv(of(node.base))
    if node.is_number:
        return number(node)
    raise TypeError(f"{node}: got no value")
