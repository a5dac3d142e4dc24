"""Without torch, its room says what to install, and nothing else asks for it."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """
import sys, tpcalc.groups
print("torch" in sys.modules)
sys.modules["torch"] = None
try:
    import tpcalc.torch
except tpcalc.MissingExtra as error:
    print(error)
"""


def said(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_groups_need_no_torch_and_the_room_names_its_extra() -> None:
    assert said(WITHOUT).splitlines() == [
        "False", "tpcalc.torch needs torch; install it with: pip install 'tpcalc[torch]'"]


def test_plans_need_no_numba() -> None:
    """Kernels are compiled for solvers; roles, powers and factors of a plan are exponents, which nothing is derived
    for."""
    code = """
import sys
sys.modules["numba"] = None
from tpcalc.groups import plan_shapes
def shapes(n, layers):
    sizes = {"fc": (4 * n, n), "proj": (n, 4 * n)}
    blocks = {f"h.{l}.{name}.weight": sizes[name] for l in range(layers) for name in sizes}
    return {"emb.weight": (65, n), **blocks, "head.weight": (65, n)}
plan = plan_shapes(shapes(8, 2), shapes(16, 4))
assert len(plan.rows) == 4
others = [name for name in sys.modules if name.startswith(("tpcalc.verdicts", "tpcalc.calculus"))]
print(plan.entry("h.3.proj.weight").factor("lr"), others)
"""
    assert said(code) == "0.25 []"
