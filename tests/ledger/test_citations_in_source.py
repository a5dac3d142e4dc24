"""Keys in docstrings and in the sources of rules: each is an entry of the ledger, and every entry is cited."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tpcalc
from tpcalc.calculus.equations import Unroll
from tpcalc.ledger import entry
from tpcalc.ledger.catalogue import keys

KEY = re.compile(r"\[(\w+/\w+)\]")
PACKAGE = Path(tpcalc.__file__).parent
UNCITED: set[str] = set()  # entries about nothing that the package does


def texts(tree: ast.AST) -> Iterator[str]:
    """Docstrings, and what is assigned to ``source`` in a class."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield ast.get_docstring(node) or ""
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant):
                    if [ast.unparse(name) for name in line.targets] == ["source"]:
                        yield str(line.value.value)


@pytest.fixture(scope="module")
def cited() -> dict[str, list[str]]:
    """File -> the keys that it cites."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        if "proofs" not in path.relative_to(PACKAGE).parts:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found[str(path.relative_to(PACKAGE))] = [key for text in texts(tree) for key in KEY.findall(text)]
    return found


def test_every_key_is_an_entry(cited: dict[str, list[str]]) -> None:
    unknown = {file: set(names) - set(keys()) for file, names in cited.items()}
    assert {file: names for file, names in unknown.items() if names} == {}


def test_every_entry_is_cited(cited: dict[str, list[str]]) -> None:
    assert set(keys()) - {key for names in cited.values() for key in names} == UNCITED


def test_what_rules_cite_can_be_looked_up() -> None:
    """A step of a derivation leads to the statement that it rests on."""
    key, = KEY.findall(Unroll.source)
    assert entry(key).title == "the update, unrolled"
