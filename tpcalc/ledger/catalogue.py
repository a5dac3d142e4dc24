"""Where the entries are: ``<slug>.py`` in the folder of its paper, at any depth, each with one ``ENTRY``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from .entry import Entry
from .graph import unknown_key

PACKAGE = "tpcalc.proofs"


def package() -> ModuleType:
    """``tpcalc.proofs``; in a checkout that is not installed, the folder beside the package."""
    try:
        return importlib.import_module(PACKAGE)
    except ModuleNotFoundError as error:
        folder = Path(__file__).parents[2] / "proofs"
        if error.name != PACKAGE or not (folder / "__init__.py").exists():
            raise
    spec = importlib.util.spec_from_file_location(PACKAGE, folder / "__init__.py",
                                                  submodule_search_locations=[str(folder)])
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = module
    spec.loader.exec_module(module)
    return module


def modules() -> dict[str, str]:
    """By key, sorted, the names of the modules: files of a paper's folder that do not start with an underscore."""
    found = {}
    for path in package().__path__:
        for file in Path(path).glob("*/**/*.py"):
            if not file.name.startswith("_"):
                inside = file.relative_to(path).with_suffix("").parts
                found[f"{inside[0]}/{inside[-1]}"] = ".".join((PACKAGE, *inside))
    return dict(sorted(found.items()))


def keys() -> list[str]:
    """All keys, sorted: paper and name of the file, whatever folders are between."""
    return list(modules())


def entry(key: str) -> Entry:
    """The entry of a key; raises ``ValueError`` for one that is not there, or whose file says another key."""
    known = modules()
    if key not in known:
        raise unknown_key(key, list(known))
    found = getattr(importlib.import_module(known[key]), "ENTRY", None)
    if not isinstance(found, Entry) or found.key != key:
        raise ValueError(f"{known[key]}; expected one ENTRY with key {key!r}, found {getattr(found, 'key', found)!r}")
    return found


def entries() -> dict[str, Entry]:
    """All entries by key."""
    return {key: entry(key) for key in keys()}
