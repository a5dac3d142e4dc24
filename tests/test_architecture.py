"""What a node is decides what is done with it by a method of its class, or by a registry: not by asking for one class
after the other. A folder has few files."""

from __future__ import annotations

import ast
import re
from collections import Counter
from itertools import takewhile
from pathlib import Path
from typing import Iterator

import pytest

import tpcalc as tp

PACKAGE = Path(tp.__file__).parent
ROOT = Path(__file__).parents[1]
MOST = 2  # questions for the class of one value, one after the other
FILES = 24  # in a folder, so that a folder is read at a glance


def asked(test: ast.expr) -> str | None:
    """What a condition asks the class of, None where it asks for none; a condition that says no is a check."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return next(filter(None, map(asked, test.values)), None)
    if isinstance(test, ast.Call) and ast.unparse(test.func) == "isinstance":
        return ast.unparse(test.args[0])
    return None


def branches(statement: ast.If) -> list[ast.If]:
    """The ``if`` and what stands behind its ``elif``."""
    rest = statement.orelse
    return [statement, *(branches(rest[0]) if len(rest) == 1 and isinstance(rest[0], ast.If) else [])]


def leaves(one: ast.If) -> bool:
    return isinstance(one.body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Yield))


def chains(tree: ast.AST) -> Iterator[list[ast.If]]:
    """Branches of one ``if``, and of those behind it while none of them goes on to the next."""
    for node in ast.walk(tree):
        for body in (getattr(node, "body", None), getattr(node, "orelse", None)):
            for i, statement in enumerate(body if isinstance(body, list) else []):
                if isinstance(statement, ast.If):
                    behind = takewhile(lambda one: isinstance(one, ast.If), body[i + 1:])
                    after = [one for each in behind for one in branches(each)]
                    yield branches(statement) + (after if all(map(leaves, branches(statement))) else [])


def longest(source: str) -> int:
    """The most questions for the class of one value in a chain."""
    counted = (Counter(filter(None, (asked(one.test) for one in chain))) for chain in chains(ast.parse(source)))
    return max((most for counter in counted for most in counter.values()), default=0)


def test_no_value_is_asked_for_one_class_after_the_other() -> None:
    paths = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "proofs" not in path.parents]  # inside of a wheel
    assert len(paths) > 200
    found = {path.relative_to(PACKAGE).as_posix() for path in paths if longest(path.read_text("utf-8")) > MOST}
    assert not found


def test_the_walk_sees_chains() -> None:
    asking = ["isinstance(node, A)", "isinstance(node, B) and node.exp == 2", "isinstance(node, (C, D))"]
    written_as_elif = "if {}:\n    x = 1\nelif {}:\n    x = 2\nelif {}:\n    x = 3\n".format(*asking)
    one_by_one = "def f(node):\n" + "".join(f"    if {one}:\n        return {i}\n" for i, one in enumerate(asking))
    assert longest(written_as_elif) == longest(one_by_one) == 3
    assert longest("if isinstance(a, A):\n    x = 1\nelif isinstance(b, B):\n    x = 2\n") == 1
    assert longest("if not isinstance(a, A):\n    raise TypeError\nif isinstance(a, B):\n    x = 2\n") == 1


@pytest.mark.skipif(not (ROOT / "proofs").is_dir(), reason="no checkout")
def test_folders_are_read_at_a_glance() -> None:
    folders = Counter(path.parent for name in ("tpcalc", "proofs", "tests") for path in (ROOT / name).rglob("*.py"))
    assert len(folders) > 60
    assert {folder.relative_to(ROOT).as_posix(): n for folder, n in folders.items() if n > FILES} == {}


def test_what_tests_are_skipped_without_is_elsewhere_or_there() -> None:
    """A test that is skipped without a module of this repository has to name one that is there."""
    root = Path(__file__).parents[1]
    asked = [(path.name, name) for path in sorted((root / "tests").rglob("*.py"))
             for name in re.findall(r'importorskip\("((?:support|tpcalc)[.\w]*)"', path.read_text())]
    homes = {"support": root / "tests", "tpcalc": root}
    lost = [one for one in asked for home in [homes[one[1].partition(".")[0]] / one[1].replace(".", "/")]
            if not (home.with_suffix(".py").exists() or home.is_dir())]
    assert asked and not lost
