"""The notebooks run, their assertions hold, and what ends a cell has something to show on a page."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "docs" / "notebooks").glob("*.ipynb"))


def cells(path: Path) -> list[str]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4 and not any(cell.get("outputs") for cell in notebook["cells"])
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def shown(code: str, names: dict[str, Any]) -> Any:
    """Run a cell; the value of its last line, where that is an expression."""
    body = ast.parse(code).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path: Path) -> None:
    if any("import tpcalc.torch" in code for code in cells(path)):
        pytest.importorskip("torch")
    names: dict[str, Any] = {}
    for code in cells(path):
        value = shown(code, names)
        if value is not None:
            pages = [getattr(value, name, None) for name in ("_repr_html_", "_repr_latex_")]
            assert any(page is not None and page() for page in pages), code


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["pytorch", "theorist", "trainer"]
    assert all(any("assert" in code for code in cells(path)) for path in NOTEBOOKS)
