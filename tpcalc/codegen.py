"""Names from before ``lowering.recursions``: they go with the next release."""

from __future__ import annotations

import warnings
from typing import Any

from .lowering import recursions

MOVED = ("CompiledRecursion", "Recursion", "recursion")


def __getattr__(name: str) -> Any:
    if name not in MOVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"tpcalc.codegen.{name} is tpcalc.lowering.recursions.{name} now", DeprecationWarning, stacklevel=2)
    return getattr(recursions, name)
