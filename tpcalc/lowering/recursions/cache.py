"""Generated source files: named by their content, written atomically, loaded as modules.

What is run is the text that was generated; the file beside it serves tracebacks and numba, which keeps machine code in
``__pycache__`` there and loads it as it finds it. So only a folder that no one else can write to is used.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType

from ..._files import write_text


def cache_folder() -> Path:
    """Where generated sources go: ``TPCALC_CACHE_DIR``, else the user's cache folder."""
    chosen = os.environ.get("TPCALC_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("LOCALAPPDATA") if os.name == "nt" else None)
    return Path(base or Path.home() / ".cache") / "tpcalc"


def load_source(source: str) -> ModuleType:
    """Write ``source`` once per content and import it; several processes may do so at once. Where the cache folder
    cannot be written, or is not the user's own (one warning), a temporary folder serves for this process."""
    name = "tpcalc_generated_" + hashlib.sha256(source.encode()).hexdigest()[:24]
    if name in sys.modules:
        return sys.modules[name]
    try:
        path = _write(_own(cache_folder()), name, source)
    except OSError:
        path = _write(Path(_private().name), name, source)
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _own(folder: Path) -> Path:
    """The folder, made where it is missing, or the temporary one where others can write to it."""
    compiled = folder / "__pycache__"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    compiled.mkdir(mode=0o700, exist_ok=True)
    for location in (folder, compiled):
        why = _open_to_others(location)
        if why:
            _warn(str(location), why)
            return Path(_private().name)
    return folder


def _open_to_others(folder: Path) -> str:
    """Who else can write to it; nothing where the user alone can, or where files have no such owners (Windows)."""
    if not hasattr(os, "getuid"):
        return ""
    found = folder.stat()
    if found.st_uid != os.getuid():
        return f"belongs to user {found.st_uid}"
    return "can be written by others" if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else ""


@cache
def _warn(location: str, why: str) -> None:
    warnings.warn(f"{location} {why}, so nothing in it is run: generated code goes to a temporary folder. Take away "
                  f"what "
                  "is there, or choose a folder of your own by TPCALC_CACHE_DIR", RuntimeWarning, stacklevel=5)


@cache
def _private() -> tempfile.TemporaryDirectory[str]:
    """The temporary folder of this process, which goes when it ends."""
    return tempfile.TemporaryDirectory(prefix="tpcalc-", ignore_cleanup_errors=True)


def _write(folder: Path, name: str, source: str) -> Path:
    path = folder / f"{name}.py"
    if not path.exists() or path.read_text(encoding="utf-8", errors="replace") != source:  # a damaged one differs
        write_text(path, source)
    return path
