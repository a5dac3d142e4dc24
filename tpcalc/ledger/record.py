"""The record of spoiling: which equations of the ledger are read, entry by entry, kept in files as they are found."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Callable, Mapping

from .._files import code_digest, digest_of, json_of, keep_json, kept_json, text_of, write_text
from .._spread import results_in_order
from .._types import Fields
from .catalogue import package
from .entry import Entry
from .spoiling import ReadEquation, read_corrections, read_equations


@dataclass(frozen=True)
class ReadEntry:
    """What spoiling found of an entry: equations of its statement, and corrected forms of its errata."""

    equations: tuple[ReadEquation, ...]
    corrections: tuple[ReadEquation, ...] = ()

    @classmethod
    def of(cls, entry: Entry, seed: int = 0) -> ReadEntry:
        return cls(read_equations(entry, seed), read_corrections(entry, seed))

    @classmethod
    def from_fields(cls, kept: Fields) -> ReadEntry:
        """What ``asdict`` and JSON made of one."""
        return cls(*(tuple(ReadEquation(one["key"], one["number"], one["text"], tuple(map(tuple, one["spoils"])),
                                        tuple(one["equal"])) for one in kept[field.name]) for field in fields(cls)))


def read_ledger(entries: Mapping[str, Entry], seed: int = 0, progress: Callable[[int, int], None] | None = None,
                executor: Any = None, folder: Path | None = None) -> dict[str, ReadEntry]:
    """What is read of many entries, by key; executor, progress: as in ``check``.

    folder: every entry is kept there when it is done, and is not spoiled again while the seed, the package and the
    proofs are what they were. Raises ``NotCovered`` for an entry whose checks fail as it is.
    """
    proofs = [code_digest(Path(home)) for home in package().__path__]  # which a checkout has beside the package
    digest = digest_of({"seed": seed, "code": [code_digest(), *proofs]})
    found = {} if folder is None else {key: ReadEntry.from_fields(kept) for key in entries
                                       if (kept := kept_json(_file(folder, key), digest)) is not None}
    left = [key for key in entries if key not in found]

    def told(done: int, _: int) -> None:
        if progress is not None:
            progress(len(entries) - len(left) + done, len(entries))

    read = results_in_order(executor, partial(ReadEntry.of, seed=seed), [entries[key] for key in left], told)
    for key, one in zip(left, read):
        if folder is not None:
            _file(folder, key).parent.mkdir(parents=True, exist_ok=True)
            keep_json(_file(folder, key), digest, asdict(one))
        found[key] = one
    return {key: found[key] for key in entries}


def _file(folder: Path, key: str) -> Path:
    return folder / f"{key}.json"


def write_record(path: Path, read: Mapping[str, ReadEntry]) -> None:
    """One file of what was read of many entries, a line an entry."""
    lines = (f"{json.dumps(key)}: {json.dumps(asdict(one))}" for key, one in sorted(read.items()))
    write_text(path, "{" + ",\n".join(lines) + "}\n")


def read_record(path: Path) -> dict[str, ReadEntry]:
    """What ``write_record`` wrote; raises ``OSError`` where there is no such file."""
    return {key: ReadEntry.from_fields(kept) for key, kept in json_of(text_of(path)).items()}


def counts_of_read(read: Mapping[str, ReadEntry]) -> str:
    """How many equations are read, in a line a paper, and how many corrected forms."""
    papers: dict[str, list[bool]] = {}
    for key, several in read.items():
        papers.setdefault(key.partition("/")[0], []).extend(one.is_read for one in several.equations)
    lines = [f"{paper}: {sum(known)} of {len(known)} equations are read" for paper, known in papers.items()]
    total = [is_read for known in papers.values() for is_read in known]
    corrected = [one.is_read for several in read.values() for one in several.corrections]
    return "\n".join([*lines, f"all: {sum(total)} of {len(total)} equations are read",
                      f"corrected forms: {sum(corrected)} of {len(corrected)} are read"])
