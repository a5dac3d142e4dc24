"""``tpcalc warmup`` compiles every kernel that there is, and compilations are said on a terminal."""

from __future__ import annotations

import importlib
import io
import pkgutil
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher

from tpcalc import kernels
from tpcalc.kernels.announce import Announcer, compiled_name
from tpcalc.reports.warmup import warm


def dispatchers() -> dict[str, Any]:
    found = {}
    for module in pkgutil.iter_modules(kernels.__path__):
        members = vars(importlib.import_module(f"tpcalc.kernels.{module.name}"))
        found |= {f"{value.py_func.__module__}.{name}": value for name, value in members.items()
                  if isinstance(value, Dispatcher)}
    return found


def test_every_kernel_is_compiled() -> None:
    told: list[str] = []
    warm(lambda name, seconds: told.append(name))
    assert len(told) > 5
    inner = {name for kernel in dispatchers().values() for name in kernel.py_func.__code__.co_names}
    left = [name for name, kernel in dispatchers().items()
            if not kernel.signatures and name.split(".")[-1] not in inner]  # what others call is compiled with them
    assert not left


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream, said", [
    (Terminal(), "tpcalc: compiling reflection.sweep, once"), (io.StringIO(), "")])
def test_a_compilation_is_said_on_a_terminal(stream: io.StringIO, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Event:
        data = {"dispatcher": dispatchers()["tpcalc.kernels.reflection.sweep"]}

    monkeypatch.setattr("sys.stderr", stream)
    Announcer().on_start(Event())
    assert stream.getvalue().startswith(said) and bool(stream.getvalue()) == bool(said)
    assert compiled_name({"dispatcher": None}) is None
