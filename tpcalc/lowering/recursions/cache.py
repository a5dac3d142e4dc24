"""Generated source files: named by their content, written atomically, loaded as modules."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType


def cache_folder() -> Path:
    """Where generated sources go: ``TPCALC_CACHE_DIR``, else the user's cache folder."""
    chosen = os.environ.get("TPCALC_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("LOCALAPPDATA") if os.name == "nt" else None)
    return Path(base or Path.home() / ".cache") / "tpcalc"


def load_source(source: str) -> ModuleType:
    """Write ``source`` once per content and import it; several processes may do so at once.

    Where the cache folder cannot be written a temporary folder serves for this process.
    """
    name = "tpcalc_generated_" + hashlib.sha256(source.encode()).hexdigest()[:24]
    if name in sys.modules:
        return sys.modules[name]
    try:
        path = _write(cache_folder(), name, source)
    except OSError:
        path = _write(Path(tempfile.mkdtemp(prefix="tpcalc-")), name, source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _write(folder: Path, name: str, source: str) -> Path:
    path = folder / f"{name}.py"
    if path.exists() and path.read_text() == source:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
    with os.fdopen(descriptor, "w") as file:
        file.write(source)
    os.replace(temporary, path)
    return path
