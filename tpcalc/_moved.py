"""Names that moved: modules at their old places find them for a release, and say where they are."""

from __future__ import annotations

import importlib
import warnings
from typing import Callable, Mapping


def moved(old: str, places: Mapping[str, str]) -> Callable[[str], object]:
    """``__getattr__`` of the module ``old``, whose names are in other modules of tpcalc now; places: by name."""

    def found(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {old!r} has no attribute {name!r}")
        warnings.warn(f"{old}.{name} is tpcalc.{places[name]}.{name} now", DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(f"tpcalc.{places[name]}"), name)
    return found
