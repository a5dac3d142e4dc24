"""The examples in the README and in docs/ print what they say."""

import doctest
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples(page: Path) -> None:
    if "import tpcalc.torch" in page.read_text():
        pytest.importorskip("torch")
    found = doctest.testfile(str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0


def test_there_are_examples() -> None:
    parser = doctest.DocTestParser()
    assert sum(len(parser.get_examples(page.read_text())) for page in PAGES) > 30
