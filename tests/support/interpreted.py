"""Generated kernels as Python runs them: where little is computed that is quicker than to compile them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import tpcalc as tp
from tpcalc.lowering.recursions.recursion import CompiledRecursion


def interpreted(recursion: tp.theory.Recursion, *loss: Any) -> CompiledRecursion:
    """``recursion.compile(*loss)``, whose source is run as it stands."""
    compiled = recursion.compile(*loss)
    return replace(compiled, kernel=getattr(compiled.kernel, "py_func", compiled.kernel))
