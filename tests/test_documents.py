"""The examples in the README and in docs/ print what they say."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
WIDEST = 88


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples(page: Path) -> None:
    if "import tpcalc.torch" in page.read_text():
        pytest.importorskip("torch")
    found = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0


def test_there_are_examples() -> None:
    parser = doctest.DocTestParser()
    assert sum(len(parser.get_examples(page.read_text())) for page in PAGES) > 30


def wide(text: str) -> list[str]:
    """Lines of code, and of what it prints, that a narrow column does not hold."""
    blocks = re.findall(r"^```(\S*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [line for kind, block in blocks if kind in ("", "python", "{computed}", "{derived}")
            for line in block.splitlines() if len(line) > WIDEST]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_is_narrow(page: Path) -> None:
    assert not wide(page.read_text())


def test_the_walk_finds_wide_code() -> None:
    line = "x = " + "1" * WIDEST
    assert wide(f"{line}\n\n```python\n{line}\n```\n\n{line}\n") == [line]
    assert wide(f"```{{computed}}\n{line}\n```\n") == wide(f"```\n{line}\n```\n") == [line]
