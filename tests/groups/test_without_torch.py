"""Without torch, its room says what to install, and nothing else asks for it."""

from __future__ import annotations

import subprocess
import sys


def said(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_room_names_its_extra() -> None:
    code = ("import sys; sys.modules['torch'] = None\nimport tpcalc, tpcalc.groups\ntry:\n    import tpcalc.torch\n"
            "except tpcalc.MissingExtra as error: print(error)")
    assert said(code) == "tpcalc.torch needs torch; install it with: pip install 'tpcalc[torch]'"


def test_groups_need_no_torch() -> None:
    assert said("import sys, tpcalc.groups; print('torch' in sys.modules)") == "False"
