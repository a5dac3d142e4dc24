"""Importing the package imports nothing that computes; names come at first use, and type checkers see the same."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import tpcalc as tp
from support.stub import PATH, stub

HEAVY = ("numpy", "scipy", "sympy", "numba", "matplotlib", "torch")


def loaded(code: str) -> list[str]:
    """The modules of tpcalc and of what it stands on that a fresh process has imported after ``code``."""
    tell = f"print(*(m for m in sys.modules if m.split('.')[0] in ('tpcalc', {', '.join(map(repr, HEAVY))})))"
    done = subprocess.run([sys.executable, "-c", f"import sys\n{code}\n{tell}"], capture_output=True, text=True,
                          check=True)
    return sorted(done.stdout.splitlines()[-1].split())


def test_import_imports_nothing_that_computes() -> None:
    assert loaded("import tpcalc") == ["tpcalc", "tpcalc.errors"]


def test_infinity_needs_sympy_alone() -> None:
    found = {module.split(".")[0] for module in loaded("import tpcalc as tp; tp.oo")}
    assert "sympy" in found and "scipy" not in found and "numba" not in found


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_the_command_line_answers_without_what_computes(argument: str) -> None:
    code = f"from tpcalc.reports.cli import main; assert main(['{argument}']) == 0"
    assert not {module.split(".")[0] for module in loaded(code)} & set(HEAVY)


def test_type_checkers_see_the_names_that_there_are() -> None:
    assert PATH.read_text(encoding="utf-8") == stub()
    seen = {alias.asname for node in ast.parse(stub()).body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == {*tp.__all__, *tp.PACKAGES} and all(getattr(tp, str(name)) is not None for name in seen)


def test_names_that_are_not_there_are_refused_by_name() -> None:
    with pytest.raises(AttributeError, match="'tpcalc' has no attribute 'magic'"):
        tp.magic
    assert set(tp.__all__) <= set(dir(tp))
