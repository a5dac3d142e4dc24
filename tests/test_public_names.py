"""Public names: few at ``tp``, each at one address, and all of them listed in docs/reference.md."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import tpcalc as tp

MOST = 54
PAGE = (Path(__file__).parent.parent / "docs" / "reference.md").read_text(encoding="utf-8")
LISTED = ("tp", "tp.theory", "tp.width", "tp.studies", "tp.testing")


def listed(namespace: str) -> list[str]:
    """The names that the page lists under a heading with the namespace's name."""
    part = re.search(rf"^### `{re.escape(namespace)}`\n.*?(^- .*?)(?=^#|\Z)", PAGE, re.M | re.S)
    assert part, namespace
    return re.findall(r"`(\w+)`", part[1])


def public(namespace: str) -> set[str]:
    """The names that a package offers: those it imports or defines, modules and what stands at ``tp`` left out."""
    if namespace == "tp":
        return set(tp.__all__)
    module = import_module(namespace.replace("tp", "tpcalc", 1))
    return {name for name, value in vars(module).items()
            if name[0] != "_" and not isinstance(value, ModuleType)
            and (name not in tp.__all__ or value is not getattr(tp, name))}


@pytest.mark.parametrize("namespace", LISTED)
def test_the_reference_lists_the_public_names(namespace: str) -> None:
    if namespace == "tp.testing":
        pytest.importorskip("hypothesis")
    names = listed(namespace)
    assert len(names) == len(set(names)) and set(names) == public(namespace)


def test_the_reference_documents_what_it_lists() -> None:
    documented = set(re.findall(r"\.\. auto(?:class|function|exception):: (?:[\w.]+\.)?(\w+)", PAGE))
    for namespace in LISTED[:-1]:  # tpcalc.testing has a page of its own
        assert set(listed(namespace)) - documented <= {"tasks", "methods", "oo"}


def test_few_names_are_at_the_top() -> None:
    assert 40 < len(tp.__all__) <= MOST


def test_every_name_has_one_address() -> None:
    homes = {namespace: public(namespace) for namespace in LISTED[:-1]}
    for one in LISTED[:-1]:
        assert not [(name, other) for other in LISTED[:-1] if other < one for name in homes[one] & homes[other]]
    assert len(homes["tp.theory"]) > 30


def test_no_name_at_the_top_is_that_of_a_subpackage() -> None:
    """But for ``tp.methods``, which is the subpackage."""
    folders = {path.parent.name for path in Path(tp.__file__).parent.glob("*/__init__.py")}
    assert {"programs", "theory", "width"} <= folders | {"theory"} and set(tp.PACKAGES) <= folders | {"theory"}
    same = set(tp.__all__) & (folders | set(tp.PACKAGES))
    assert {name for name in same if not isinstance(getattr(tp, name), ModuleType)} == set() and same == {"methods"}


@pytest.mark.parametrize("name", ["Branch", "MatVec", "Convolution", "Family", "Outer"])
def test_what_blocks_and_programs_are_written_with_is_one_import_away(name: str) -> None:
    assert hasattr(tp, name) or hasattr(tp.theory, name)
