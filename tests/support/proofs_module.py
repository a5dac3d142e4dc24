"""A module of the proofs, by its paper and its file's name: whatever folders are between, wherever it is installed."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from tpcalc.ledger.catalogue import package


def proofs_module(name: str) -> Any:
    *paper, file = name.split(".")
    home = Path(package().__path__[0])
    found, = home.joinpath(*paper).glob(f"**/{file}.py") if paper else [home / f"{file}.py"]
    return importlib.import_module(".".join((package().__name__, *found.relative_to(home).with_suffix("").parts)))
