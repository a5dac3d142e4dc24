"""Docstrings of what is public: first lines say what something is, and examples run."""

from __future__ import annotations

import ast
import doctest
import inspect
from pathlib import Path
from typing import Iterator

import pytest

import tpcalc as tp
import tpcalc.proofs

PACKAGE = Path(tp.__file__).parent
# an editable install keeps the proofs beside the package, a wheel inside of it
HOUSES = {PACKAGE, Path(tpcalc.proofs.__path__[0])}
PUBLIC = {name: getattr(tp, name) for name in dir(tp) if not name.startswith("_")
          and getattr(getattr(tp, name), "__module__", "").startswith("tpcalc")}


def first_lines() -> Iterator[tuple[str, str]]:
    """(where, first line) of every docstring of the package and of its proofs."""
    for path in sorted({path for house in HOUSES for path in house.rglob("*.py")}):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
                first = str(ast.get_docstring(node)).split("\n")[0]
                yield f"{path}:{getattr(node, 'name', '')}", first


def test_first_lines_have_a_subject() -> None:
    lines = list(first_lines())
    assert len(lines) > 1000
    assert [where for where, line in lines if line.startswith(("Of ", "The same"))] == []


def test_everything_public_has_an_example() -> None:
    assert len(PUBLIC) > 50
    assert [name for name, value in PUBLIC.items() if ">>>" not in (inspect.getdoc(value) or "")] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_of_public_names(name: str) -> None:
    value = PUBLIC[name]
    finder = doctest.DocTestFinder(recurse=False)
    found = [test for test in finder.find(value, name, globs=dict(vars(inspect.getmodule(value)))) if test.examples]
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    results = [runner.run(test) for test in found]
    assert results and all(result.attempted and not result.failed for result in results)
