"""Docstrings of what is public: first lines say what something is, and examples run."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Iterator

import pytest

import tpcalc as tp
import tpcalc.proofs

PACKAGE = Path(tp.__file__).parent
# an editable install keeps the proofs beside the package, a wheel inside of it
HOUSES = {PACKAGE, Path(tpcalc.proofs.__path__[0])}
#: what users call or make; classes of tp.studies and tp.width are what its functions return
PUBLIC = {name: value for module in (tp, tp.theory, tp.studies, tp.width) for name in dir(module)
          if not name.startswith("_") and not isinstance(value := getattr(module, name), ModuleType)
          and getattr(value, "__module__", "").startswith("tpcalc")
          and (module in (tp, tp.theory) or inspect.isfunction(value))}


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
    assert len(PUBLIC) > 100
    assert [name for name, value in PUBLIC.items() if ">>>" not in (inspect.getdoc(value) or "")] == []


def with_examples() -> Iterator[str]:
    """The modules with an example in any docstring, a user's or not."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if ">>> " in path.read_text(encoding="utf-8") and "proofs" not in path.relative_to(PACKAGE).parts:
            yield ".".join(("tpcalc", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")


@pytest.mark.parametrize("name", tuple(with_examples()))
def test_examples(name: str) -> None:
    if name.startswith("tpcalc.torch"):
        pytest.importorskip("torch")
    found = [test for test in doctest.DocTestFinder().find(importlib.import_module(name)) if test.examples]
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    results = [runner.run(test) for test in found]
    assert results and all(result.attempted and not result.failed for result in results)
