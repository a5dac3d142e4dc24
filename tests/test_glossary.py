"""One term a concept: retired words name nothing, no two things have one name, terms are found in the code."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from importlib import import_module
from pathlib import Path
from typing import Iterator

ROOT = Path(__file__).parent.parent
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
#: Names of one interface, which a caller takes from this module or that, and names that the design promises
TWICE = {
    "audit": "of powers by hand, and of a live model: tp.audit and tpcalc.torch.audit are both public",
    "transfer": "by exact trainings, and of live models: tp.transfer and tpcalc.torch.transfer are both public",
    "sweep": "a kernel is chosen by the size of its rows, and called by the one name that all of them have"}


def rows(text: str) -> list[list[str]]:
    """Cells of the tables of a page, heads and rulers left out."""
    found = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [row for k, row in enumerate(found) if set(row[0]) != {"-"} and (
        k + 1 == len(found) or set(found[k + 1][0]) != {"-"})]


TERMS, RETIRED = (rows(part) for part in GLOSSARY.split("## Retired terms"))


def of_kind(kind: str) -> dict[str, str]:
    return {term: say for term, which, say in RETIRED if which == kind}


def files() -> list[Path]:
    return [path for folder in ("tpcalc", "proofs") for path in sorted((ROOT / folder).rglob("*.py"))
            if "proofs" not in path.relative_to(ROOT).parts[1:]]


def words(name: str) -> set[str]:
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def tops(body: list[ast.stmt]) -> Iterator[str]:
    """Names that statements bind, imports left out."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


def identifiers(body: list[ast.stmt]) -> Iterator[str]:
    """Those of a module, of its classes, and parameters of both."""
    yield from tops(body)
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from identifiers(node.body)
        elif isinstance(node, ast.FunctionDef):
            yield from (one.arg for one in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs])


def test_the_walk_finds_what_there_is() -> None:
    assert len(files()) > 300 and len(TERMS) > 40 and len(RETIRED) > 30
    tree = ast.parse("class A:\n    def f(self, norm_place): ...\nB: int = 1\n")
    assert {"A", "B", "f", "norm_place"} <= set(identifiers(tree.body)) and words("norm_PlaceOf") == {
        "norm", "place", "of"}


def test_no_identifier_is_retired() -> None:
    retired = of_kind("identifier")
    found = [f"{path.relative_to(ROOT)}: {name}, say {retired[name]}" for path in files()
             for name in identifiers(ast.parse(path.read_text()).body) if name in retired]
    assert not found, "\n".join(found)


def test_no_part_of_a_name_is_retired() -> None:
    retired = of_kind("part")
    found = [f"{path.relative_to(ROOT)}: {name}, say {retired[word]}" for path in files()
             for name in [path.stem, path.parent.name, *tops(ast.parse(path.read_text()).body)]
             for word in sorted(words(name) & set(retired))]
    assert not found, "\n".join(found)


def test_no_page_has_a_retired_phrase() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").rglob("*.ipynb"))]
    found = [f"{page.name}: {phrase}, say {say}" for page in pages if page.name != "glossary.md"
             for phrase, say in of_kind("phrase").items()
             if re.search(rf"\b{phrase}", page.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


def test_no_class_and_no_public_function_has_the_name_of_another() -> None:
    homes: dict[str, set[str]] = defaultdict(set)
    for path in files():
        if path.relative_to(ROOT).parts[0] == "tpcalc":
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) or isinstance(node, ast.FunctionDef) and node.name[0] != "_":
                    homes[node.name].add(str(path.relative_to(ROOT)))
    twice = {name: sorted(found) for name, found in homes.items() if len(found) > 1}
    assert {name: found for name, found in twice.items() if name not in TWICE} == {}
    assert set(TWICE) <= set(twice)  # what is no longer there is not allowed


def test_every_term_is_found_in_the_code() -> None:
    for row in TERMS:
        names = re.findall(r"`([\w.]+)`", row[-1])
        assert len(row) == 6 and names, row
        for name in names:
            assert found(name), name


def found(name: str) -> bool:
    """Is it a module, what one holds, or an attribute or field of that? What needs PyTorch is looked up in its
    source."""
    parts = name.split(".")
    if parts[:2] == ["tpcalc", "torch"]:
        module = ROOT.joinpath(*parts[:-1]).with_suffix(".py")
        return module.exists() and parts[-1] in set(tops(ast.parse(module.read_text()).body))
    for length in range(len(parts), 0, -1):
        try:
            here: object = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for k, part in enumerate(parts[length:]):
            if part in getattr(here, "__dataclass_fields__", ()) and length + k == len(parts) - 1:
                return True
            if not hasattr(here, part):
                return False
            here = getattr(here, part)
        return True
    return False
