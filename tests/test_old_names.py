"""Names that moved are found where they were, for a release, with a warning that says where they are."""

from __future__ import annotations

import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

import tpcalc as tp
from tpcalc import solvers

CHANGES = (Path(__file__).parent.parent / "CHANGELOG.md").read_text(encoding="utf-8")
OLD = ["calculus.between_layers", "calculus.block_kernels", "calculus.densities", "calculus.gaussian",
       "calculus.overlaps", "codegen", "limits", "solvers"]


def test_what_solvers_exported_is_found_with_a_warning() -> None:
    for name in ("Run", "train", "convergence", "cauchy_differences", "gradient_correlation", "gradient_flow",
                 "tangent_kernel", "transfer"):
        with pytest.warns(DeprecationWarning, match=f"tpcalc.solvers.{name} is tpcalc"):
            assert getattr(solvers, name) is getattr(tp, name)


def test_all_moved_names_exist() -> None:
    for name in solvers.MOVED:
        with pytest.warns(DeprecationWarning):
            assert getattr(solvers, name).__name__ == name
    with pytest.raises(AttributeError, match="collocation"):
        solvers.collocation


@pytest.mark.parametrize("old", OLD)
def test_every_name_of_an_old_module_says_where_it_is(old: str) -> None:
    module = import_module(f"tpcalc.{old}")
    for name, room in module.MOVED.items():
        with pytest.warns(DeprecationWarning, match=f"tpcalc.{old}.{name} is tpcalc.{room}.{name} now"):
            assert getattr(module, name) is getattr(import_module(f"tpcalc.{room}"), name)
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        module.nothing_of_that_name


def rows() -> list[tuple[str, str]]:
    """The changelog's tables of what was written before and is written now."""
    found = re.findall(r"^\| (.+) \| (.+) \|$", CHANGES, re.MULTILINE)
    return [(before, now) for before, now in found if before != "before"]


def test_these_are_all_old_modules() -> None:
    names = [one.name for one in pkgutil.walk_packages(tp.__path__, "tpcalc.", onerror=lambda name: None)
             if one.name.split(".")[1] not in ("proofs", "torch")]  # torch is an extra, and younger than any old name
    texts = {name: Path(str(import_module(name).__file__)).read_text() for name in names}
    found = sorted(name for name, text in texts.items() if "\n__getattr__ = moved(" in text)
    assert found == [f"tpcalc.{old}" for old in OLD]


def test_the_changelog_says_what_to_write_for_every_old_name() -> None:
    for old in OLD:
        for name, room in import_module(f"tpcalc.{old}").MOVED.items():
            mine = [now for before, now in rows() if before.startswith(f"`tpcalc.{old}`:") and f"`{name}`" in before]
            assert mine == [f"`tpcalc.{room}`"], f"tpcalc.{old}.{name}"
    assert any("`found.rows()`" in before and "`found.rows`" in now for before, now in rows())


def test_what_the_changelog_says_is_there() -> None:
    """Every place that is named; old modules without a forwarding name are gone, and their new ones exist."""
    checked = 0
    for before, now in rows():
        for place in re.findall(r"`(tpcalc(?:\.\w+)+)`", now):
            import_module(place)
            checked += 1
        first = re.match(r"`(tpcalc(?:\.\w+)+)`(?!:)", before)
        if first is not None:
            parts = [first[1], *(first[1].rsplit(".", 1)[0] + part for part in re.findall(r"`(\.\w+)`", before))]
            place = re.findall(r"`(tpcalc(?:\.\w+)+)`", now)[0]
            for part in parts:
                with pytest.raises(ModuleNotFoundError):
                    import_module(part)
                if "the modules of these names" in now:
                    import_module(place + "." + part.rsplit(".", 1)[1])
                    checked += 1
    assert checked > 40
