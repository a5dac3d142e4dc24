"""Say on a terminal that a kernel is compiled: it takes seconds, once for a machine."""

from __future__ import annotations

import sys

from numba.core import event


class Announcer(event.Listener):
    """Told of every compilation; says those of this package, while they happen."""

    def on_start(self, event):
        name = compiled_name(event.data)
        if name is not None and sys.stderr.isatty():
            print(f"tpcalc: compiling {name}, once for this machine (tpcalc warmup compiles all)", file=sys.stderr,
                  flush=True)

    def on_end(self, event):
        pass


def compiled_name(data):
    """module.function of a kernel of this package, None for anything else."""
    function = getattr(data.get("dispatcher"), "py_func", None)
    module = getattr(function, "__module__", None) or ""
    if not module.startswith("tpcalc"):
        return None
    last = module.split(".")[-1]
    return f"{'a derived recursion' if last.startswith('tpcalc_generated') else last}.{function.__name__}"


def announce():
    """Listen from now on."""
    event.register("numba:compile", Announcer())
