"""What README, citation and docs promise: papers are named and linked, commands are those that there are."""

from __future__ import annotations

import re
from pathlib import Path

import tpcalc as tp
from tpcalc.ledger.bibliography import PAPERS
from tpcalc.reports import commands
from tpcalc.reports.cli import build_parser

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAPER = re.compile(r"https://arxiv.org/abs/\d{4}\.\d{5}")


def test_the_first_line_links_the_three_papers() -> None:
    assert len(set(PAPER.findall(README.splitlines()[0]))) == 3


def test_papers_are_the_same_everywhere() -> None:
    three = set(PAPER.findall(README.splitlines()[0]))
    assert set(PAPER.findall((ROOT / "CITATION.cff").read_text())) == three
    assert set(PAPER.findall((ROOT / "setup.cfg").read_text())) == three
    assert {link for text in PAPERS.values() for link in PAPER.findall(text)} <= three


def test_papers_go_by_their_names() -> None:
    """docs/ledger.md alone says what the letters in docstrings stand for."""
    texts = {page.name: page.read_text() for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]}
    assert [name for name, text in texts.items() if re.search(r"paper [ABC]\b", text)] == ["ledger.md"]


def test_the_citation_has_the_version() -> None:
    assert f"version: {tp.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_readme_knows_every_command() -> None:
    usage = build_parser().format_usage()
    names = re.search(r"\{(.*)\}", usage)
    assert names is not None
    for name in names[1].split(","):
        assert f"tpcalc {name}" in README and callable(getattr(commands, name))
