"""What README, citation and docs promise: papers are named and linked, commands are those that there are."""

from __future__ import annotations

import re
from pathlib import Path

import tpcalc as tp
from tpcalc.ledger.bibliography import PAPERS
from tpcalc.reports.cli import build_parser, command_of

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAPER = re.compile(r"https://arxiv.org/abs/\d{4}\.\d{5}")


def of_the_readme() -> set[str]:
    """Papers that the first paragraph links."""
    return set(PAPER.findall(README.split("\n\n")[1]))


def test_the_readme_says_what_it_is_and_links_the_three_papers() -> None:
    assert re.match("# tpcalc: exact infinite-width and infinite-depth limits of residual networks and "
                    "transformers", README)
    assert len(of_the_readme()) == 3


def test_papers_are_the_same_everywhere() -> None:
    three = of_the_readme()
    assert set(PAPER.findall((ROOT / "CITATION.cff").read_text())) == three
    assert set(PAPER.findall((ROOT / "setup.cfg").read_text())) == three
    assert {link for text in PAPERS.values() for link in PAPER.findall(text)} <= three


def test_papers_go_by_their_names() -> None:
    """No letter stands for a paper, on a page, in a docstring or in a notebook."""
    written = [path for folder in ("docs", "tpcalc", "proofs") for kind in ("*.md", "*.py", "*.ipynb", "*.j2")
               for path in (ROOT / folder).rglob(kind)]
    assert len(written) > 300
    for path in [*ROOT.glob("*.md"), ROOT / "CITATION.cff", *written]:
        assert not re.search(r"\b[Pp]apers?\s+[ABC]\b", path.read_text(encoding="utf-8")), path


def test_the_citation_has_the_version() -> None:
    assert f"version: {tp.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_readme_knows_every_command() -> None:
    usage = build_parser().format_usage()
    names = re.search(r"\{(.*)\}", usage)
    assert names is not None
    for name in names[1].split(","):
        assert f"tpcalc {name}" in README and callable(command_of(name))


def test_architecture_says_where_things_are() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    section = page.split("## Where things are")[1].split("\n## ")[0]
    cells = [line.strip("|").split("|")[1] for line in section.splitlines() if line[:2] == "| "][1:]
    assert len(cells) >= 10
    for cell in cells:
        for path, named in re.findall(r"`([\w/]+\.py)`((?:(?!`[\w/]+\.py`).)*)", cell):
            text = (ROOT / "tpcalc" / path).read_text()
            for name in re.findall(r"`(\w+)`", named):
                assert re.search(rf"\b(def|class) {name}\b", text), f"{name} is not in {path}"
    plain = re.findall(r"`(\w+\.py)`", section)
    assert len(plain) >= 4 and all((ROOT / "tests" / "support" / "plain" / name).exists() for name in plain)


def test_the_guide_has_the_extras_that_there_are() -> None:
    table = (ROOT / "docs" / "guide.md").read_text().split("## Install")[1].split("## ")[0]
    extras = (ROOT / "setup.cfg").read_text().split("[options.extras_require]")[1].split("\n[")[0]
    assert sorted(re.findall(r"^\| `(\w+)`", table, re.M)) == sorted(re.findall(r"^(\w+) =", extras, re.M))


def test_architecture_names_packages_and_files_that_there_are() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    table = page.split("## Packages and their imports")[1].split("## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:3] == "| `"]
    packages = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    there = {path.parent.name for path in (ROOT / "tpcalc").glob("*/__init__.py")} - {"proofs"}
    assert set(packages) - {"proofs"} == there and len(packages) == len(set(packages))
    for row in rows:
        home = ROOT / "tpcalc" / re.findall(r"`(\w+)`", row[0])[0]
        named = re.findall(r"`([\w/]+\.py)`", row[2])
        assert all((home / name).exists() or (home.parent / name).exists() for name in named)
