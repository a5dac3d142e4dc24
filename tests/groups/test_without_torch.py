"""Without torch, its room says what to install, and nothing else asks for it."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """
import sys, tpcalc.groups
sys.modules["torch"] = None
try:
    import tpcalc.torch
except tpcalc.MissingExtra as error:
    print(error)
"""


def said(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_room_names_its_extra() -> None:
    assert said(WITHOUT) == "tpcalc.torch needs torch; install it with: pip install 'tpcalc[torch]'"


def test_groups_need_no_torch() -> None:
    assert said("import sys, tpcalc.groups; print('torch' in sys.modules)") == "False"
