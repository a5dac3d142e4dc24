"""Small faults in a source file: places where one sign, comparison, number or word can be another."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Iterator

SWAPPED: dict[type, tuple[str, str]] = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.Pow: ("**", "*"),
    ast.MatMult: ("@", "*"), ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.In: ("in", "not in"),
    ast.And: ("and", "or"), ast.Or: ("or", "and")}


@dataclass(frozen=True)
class Fault:
    """A stretch of one line and what stands there instead."""

    line: int
    start: int
    end: int
    before: str
    after: str

    def apply(self, source: str) -> str:
        lines = source.splitlines(keepends=True)
        line = lines[self.line - 1].encode()
        assert line[self.start:self.end].decode() == self.before, (self, line)
        lines[self.line - 1] = (line[:self.start] + self.after.encode() + line[self.end:]).decode()
        return "".join(lines)


def faults(source: str) -> list[Fault]:
    """All places of a file, in its order; texts, annotations and what raises are left alone."""
    lines = [line.encode() for line in source.splitlines()]
    found = [fault for node in _read(ast.parse(source)) for fault in _of(node, lines)]
    return sorted(set(found), key=lambda f: (f.line, f.start, f.after))


def _read(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those in messages, annotations and decorators, which no test has to see."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "keywords") and isinstance(node, (
                ast.arg, ast.AnnAssign, ast.FunctionDef, ast.ClassDef)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, (ast.JoinedStr, ast.Raise)):
                yield from _read(child)


def _of(node: ast.AST, lines: list[bytes]) -> Iterator[Fault]:
    if isinstance(node, ast.BinOp):
        yield from _between(node.left, node.op, node.right, lines)
    elif isinstance(node, ast.Compare):
        for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators):
            yield from _between(left, op, right, lines)
    elif isinstance(node, ast.BoolOp):
        for left, right in zip(node.values, node.values[1:]):
            yield from _between(left, node.op, right, lines)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Not)):
        sign = "-" if isinstance(node.op, ast.USub) else "not "
        yield Fault(node.lineno, node.col_offset, node.col_offset + len(sign), sign, "")
    elif isinstance(node, ast.Constant) and node.end_col_offset is not None and node.lineno == node.end_lineno:
        text = lines[node.lineno - 1][node.col_offset:node.end_col_offset].decode()
        if isinstance(node.value, bool):
            yield Fault(node.lineno, node.col_offset, node.end_col_offset, text, str(not node.value))
        elif isinstance(node.value, (int, float)):
            yield Fault(node.lineno, node.col_offset, node.end_col_offset, text, repr(node.value + 1))


def _between(left: ast.expr, op: ast.AST, right: ast.expr, lines: list[bytes]) -> Iterator[Fault]:
    """The operator between two operands, where both are on its line."""
    if type(op) not in SWAPPED or left.end_lineno != right.lineno or left.end_col_offset is None:
        return
    before, after = SWAPPED[type(op)]
    between = lines[right.lineno - 1][left.end_col_offset:right.col_offset].decode()
    if between.count(before) == 1 and "#" not in between:
        start = left.end_col_offset + between.index(before)
        yield Fault(right.lineno, start, start + len(before), before, after)
