"""The table of docs/architecture.md that follows numbers from ``tp.train`` to a kernel, against what runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tpcalc as tp
from support.walks import CALLS, first_call

PACKAGE = Path(tp.__file__).parent
PAGE = Path(__file__).parent.parent / "docs" / "architecture.md"


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


def test_each_file_has_what_the_table_names_in_it() -> None:
    table = columns()
    assert list(table) == ["learning rate", "a task's inputs", "alpha"]
    for cells in table.values():
        files = [read(cell)[0] for cell in cells]
        assert files[0] == "methods/train.py" and files[-1].startswith("kernels/")
        assert len(set(files)) == len(files)
        for path, names in map(read, cells):
            text = (PACKAGE / path).read_text()
            for name in names:
                for part in name.split("."):
                    assert re.search(rf"\b(def|class) {part}\b", text), f"{name} is not in {path}"


def test_the_files_are_those_that_run() -> None:
    """But for kernels, whose compiled code leaves no trace: the last file before them imports them."""
    ran = set(first_call("depth 64"))
    for number in columns():
        *files, kernel = (read(cell)[0] for cell in columns()[number])
        assert set(files) <= ran, f"not run: {set(files) - ran}"
        assert any(re.search(rf"\b{Path(kernel).stem}\b", (PACKAGE / path).read_text()) for path in files)


@pytest.mark.nightly
def test_walks_are_no_longer_than_the_page_says() -> None:
    """All the files that a first call goes through, the table's among them."""
    said = {call: int(number) for number, call in re.findall(r"^(\d+) files: (.*)$", PAGE.read_text(), re.M)}
    assert set(said) == set(CALLS.values())
    assert {call for name, call in CALLS.items() if len(first_call(name)) > said[call]} == set()
