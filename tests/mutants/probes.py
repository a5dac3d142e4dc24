"""Which tests run a line: the tree is run once with a probe in front of every line that is asked for."""

from __future__ import annotations

import ast
import re
from typing import Iterable, Iterator

from drawing import ROOT, Drawn

SITE = "import builtins\n\nSEEN = set()\nbuiltins._seen = SEEN.add\n"  # sitecustomize.py of a tree with probes
Probes = dict[str, list[tuple[int, str]]]  # by file of the copy: the line of a statement, and what is seen there


def placed(wanted: Iterable[Drawn], compiled: bool) -> Probes:
    """Probes for faults: in front of the innermost statement of a function, or of every function of a file, where the
    line is outside of functions. What is compiled takes none: for a line of a kernel, unless kernels are run as they
    are, they stand in the functions of files that import it."""
    found: Probes = {}
    for one in wanted:
        is_kernel = "/kernels/" in str(one.inside)
        if compiled and is_kernel:
            for file in _callers(one):
                tree = ast.parse((ROOT / file).read_text())
                found.setdefault(file, []).extend((line, one.name) for line in _starts(tree))
        elif compiled or is_kernel:
            tree = ast.parse(one.file.read_text())
            lines = [*_innermost(tree, one.fault.line)] or [*_starts(tree)]
            found.setdefault(str(one.inside), []).extend((line, one.name) for line in lines)
    return found


def probed(source: str, probes: Iterable[tuple[int, str]]) -> str:
    lines = source.splitlines(keepends=True)
    for number, name in sorted(probes, reverse=True):
        line = lines[number - 1]
        indent = line[:len(line) - len(line.lstrip())]
        lines.insert(number - 1, f"{indent}_seen({name!r})\n")
    return "".join(lines)


def _callers(one: Drawn) -> list[str]:
    own = re.compile(rf"^from [.\w]*kernels(\.{one.file.stem} import| import .*\b{one.file.stem}\b)", re.MULTILINE)
    return [str(p.relative_to(ROOT)) for p in sorted((ROOT / "tpcalc").rglob("*.py"))
            if "kernels" not in p.parts and own.search(p.read_text())]


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _starts(tree: ast.AST) -> Iterator[int]:
    """The first lines of all functions."""
    for function in _functions(tree):
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        if body and body[0].lineno > function.lineno:
            yield _first(body[0])


def _innermost(tree: ast.AST, line: int) -> Iterator[int]:
    """The first line of the innermost statement that a line is part of, where it is in a function."""
    inside = [s for function in _functions(tree) for s in _statements(function)
              if _first(s) <= line <= (s.end_lineno or 0)]
    if inside:
        yield _first(max(inside, key=_first))


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements below one that have a line of their own; what follows elif has not."""
    for name in ("body", "orelse", "finalbody", "handlers"):
        for child in getattr(node, name, ()):
            is_elif = name == "orelse" and isinstance(node, ast.If) and isinstance(child, ast.If) and (
                child.col_offset == node.col_offset)
            if isinstance(child, ast.stmt) and not is_elif and child.lineno > getattr(node, "lineno", 0):
                yield child
            yield from _statements(child)


def _first(statement: ast.stmt) -> int:
    decorators = getattr(statement, "decorator_list", ())
    return min([statement.lineno, *(d.lineno for d in decorators)])
