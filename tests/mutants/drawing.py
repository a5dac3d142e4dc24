"""Which faults are put in: a few of every folder, the same as long as their lines stand, wherever these move."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

from operators import Fault, faults

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("calculus", "ledger", "orders", "limits", "verdicts", "propagators", "methods", "kernels", "interpreters",
           "lowering", "models", "optimizers", "programs", "proofs", "scaling", "training", "tune")


@dataclass(frozen=True)
class Drawn:
    """A fault in a file of the tree, and a name that stays as long as the line does."""

    name: str
    file: Path
    fault: Fault

    @property
    def inside(self) -> Path:
        """Where the file lies in a copy of the tree: proofs lie in the package, as where it is installed."""
        inside = self.file.relative_to(ROOT)
        return Path("tpcalc") / inside if inside.parts[0] == "proofs" else inside

    def lines(self) -> tuple[str, str]:
        """The line without the fault and with it."""
        source = self.file.read_text()
        was, is_ = (text.splitlines()[self.fault.line - 1].strip() for text in (source, self.fault.apply(source)))
        return was, is_


def drawn(folder: str, each: int, seed: int | None = None) -> list[Drawn]:
    """Faults of a folder. They are drawn by their names, so that a change in one file leaves those of others; by a seed
    and their names, so that another seed draws others."""
    home = ROOT / "proofs" if folder == "proofs" else ROOT / "tpcalc" / folder
    locations = {one.name: one for file in sorted(home.rglob("*.py")) for one in _of(file)}
    return [locations[name] for name in sorted(locations, key=lambda name: by_seed(name, seed))[:each]]


def folders_of(seed: int) -> tuple[str, ...]:
    """The three folders that a seed draws."""
    return tuple(sorted(FOLDERS, key=lambda name: by_seed(name, seed))[:3])


def by_seed(name: str, seed: int | None) -> str:
    return name if seed is None else hashlib.sha256(f"{seed} {name}".encode()).hexdigest()


def _of(file: Path) -> Iterator[Drawn]:
    source = file.read_text()
    lines = source.splitlines()
    for fault in faults(source):
        text = f"{file.relative_to(ROOT)} {lines[fault.line - 1]} {fault.start} {fault.after}"
        yield Drawn(hashlib.sha256(text.encode()).hexdigest()[:12], file, fault)
