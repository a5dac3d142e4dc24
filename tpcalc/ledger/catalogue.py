"""Where the entries are: ``proofs/<paper>/<slug>.py``, each with one ``ENTRY``, installed as ``tpcalc.proofs``."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
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


def keys() -> list[str]:
    """All keys, sorted: the paths of the files whose names do not start with an underscore."""
    found = []
    for paper in pkgutil.iter_modules(package().__path__):
        if paper.ispkg:
            folder = importlib.import_module(f"{PACKAGE}.{paper.name}")
            found += [f"{paper.name}/{slug.name}" for slug in pkgutil.iter_modules(folder.__path__)
                      if not slug.name.startswith("_")]
    return sorted(found)


def entry(key: str) -> Entry:
    """The entry of a key; raises ``ValueError`` for one that is not there, or whose file says another key."""
    known = keys()
    if key not in known:
        raise unknown_key(key, known)
    module = importlib.import_module(f"{PACKAGE}.{key.replace('/', '.')}")
    found = getattr(module, "ENTRY", None)
    if not isinstance(found, Entry) or found.key != key:
        raise ValueError(f"proofs/{key}.py; expected one ENTRY with key {key!r}, found "
                         f"{getattr(found, 'key', found)!r}")
    return found


def entries() -> dict[str, Entry]:
    """All entries by key."""
    return {key: entry(key) for key in keys()}
