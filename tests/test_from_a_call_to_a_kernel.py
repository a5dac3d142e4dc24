"""The table of docs/architecture.md that follows numbers from ``tp.train`` to a kernel, against what runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import tpcalc as tp

PACKAGE = Path(tp.__file__).parent
PAGE = Path(__file__).parent.parent / "docs" / "architecture.md"
MOST = 6


def columns() -> dict[str, list[str]]:
    """By number, the cells under it."""
    section = PAGE.read_text().split("## From a call to a kernel")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines()
            if line.startswith("|")]
    return {head: [row[k] for row in rows[2:] if row[k]] for k, head in enumerate(rows[0])}


def read(cell: str) -> tuple[str, list[str]]:
    """The file of a cell, and the functions that it names."""
    path, *names = re.findall(r"`([^`]+)`", cell)
    return path, names


def files_run(problem: tp.Problem) -> set[str]:
    """The files of the package in which a function runs while the problem is solved."""
    found: set[str] = set()

    def seen(frame: FrameType, event: str, _: Any) -> None:
        found.add(frame.f_code.co_filename)

    sys.setprofile(seen)
    try:
        tp.train(problem, method="reflection")
    finally:
        sys.setprofile(None)
    return {str(Path(name).relative_to(PACKAGE)) for name in found if name.startswith(str(PACKAGE))}


def test_each_number_is_followed_through_at_most_six_files() -> None:
    table = columns()
    assert list(table) == ["learning rate", "a task's inputs", "alpha"]
    for cells in table.values():
        files = [read(cell)[0] for cell in cells]
        assert files[0] == "methods/train.py" and files[-1].startswith("kernels/")
        assert len(set(files)) == len(files) <= MOST
        for path, names in map(read, cells):
            text = (PACKAGE / path).read_text()
            for name in names:
                for part in name.split("."):
                    assert re.search(rf"\b(def|class) {part}\b", text), f"{name} is not in {path}"


@pytest.mark.parametrize("number", ["learning rate", "a task's inputs", "alpha"])
def test_the_files_are_those_that_run(number: str) -> None:
    """But for kernels, whose compiled code leaves no trace: the last file before them imports them."""
    task = tp.Task([1.0, 0.5, -0.3], [1.0, -1.0, 0.2])
    ran = files_run(tp.Problem(tp.ResNet(), task, tp.SGD(0.5), tp.DepthScaling(), depth=8))
    *files, kernel = (read(cell)[0] for cell in columns()[number])
    assert set(files) <= ran, f"not run: {set(files) - ran}"
    assert any(re.search(rf"\b{Path(kernel).stem}\b", (PACKAGE / path).read_text()) for path in files)
