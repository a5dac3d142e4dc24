"""Every test here is a benchmark; the figures they measure are printed as one table at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest

FIGURES: list[tuple[str, str, str]] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.bench)


@pytest.fixture
def record() -> Callable[[str, str, str], None]:
    """record(what, measured, required)."""
    return lambda what, measured, required: FIGURES.append((what, measured, required))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not FIGURES:
        return
    terminalreporter.section("speed and memory")
    rows = [("", "measured", "required"), *FIGURES]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for row in rows:
        line = f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}"
        terminalreporter.write_line(line.rstrip())
