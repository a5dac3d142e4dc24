"""How many files of tpcalc a first call goes through: ``python tests/support/walks.py`` prints them, call by call.

A file counts where a function of it runs; imports are made before. Each call is the first of a fresh process, so that
nothing is remembered.
"""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import CodeType, FrameType
from typing import Any

import tpcalc as tp

PACKAGE = Path(tp.__file__).parent
APART = ("tpcalc.__main__", "tpcalc.proofs", "tpcalc.reports", "tpcalc.testing", "tpcalc.torch")
TRAINED = "tp.train(tp.ResNet(), tp.Task([1.0, 0.5], [1.0, -1.0]), tp.SGD(0.5), tp.DepthScaling(), depth={})"
CALLS = {"classify": "tp.classify(.5, .5)", "infinite depth": TRAINED.format("tp.oo"), "depth 64": TRAINED.format(64),
         "recipe": "tp.recipe()"}


def files_run(call: str) -> list[str]:
    """The files in which functions run during a call, given as text, in the order in which they are met."""
    for module in walk_packages(tp.__path__, "tpcalc."):
        if not module.name.startswith(APART):
            import_module(module.name)
    met: dict[CodeType, None] = {}

    def seen(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            met.setdefault(frame.f_code)

    sys.setprofile(seen)
    try:
        eval(call, {"tp": tp})
    finally:
        sys.setprofile(None)
    paths = (Path(code.co_filename) for code in met)
    return list(dict.fromkeys(path.relative_to(PACKAGE).as_posix() for path in paths if PACKAGE in path.parents))


def first_call(name: str) -> list[str]:
    """Those of the first call of a process of its own."""
    done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=True)
    return done.stdout.split()


if __name__ == "__main__":
    for one in sys.argv[1:]:
        print(*files_run(CALLS[one]), sep="\n")
    if not sys.argv[1:]:
        for name, call in CALLS.items():
            print(f"{len(first_call(name))} files: {call}")
