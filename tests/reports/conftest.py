"""One small report for all tests that look at what a report is."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tpcalc.reports.cli import main

SMALL = ["--steps", "2", "--batch", "3", "--depths", "4:16", "--widths", "16,32", "--network-depth", "4",
         "--seeds", "3"]


class Written(NamedTuple):
    folder: Path
    status: int
    arguments: list[str]


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    pytest.importorskip("jinja2")
    folder = tmp_path_factory.mktemp("report")
    arguments = ["report", *SMALL, "--no-pdf", "-o", str(folder)]
    return Written(folder, main(arguments), arguments)
