"""Files that are written whole or not at all and read whole or refused, and a digest of this code's sources."""

from __future__ import annotations

import hashlib
import json
import os
from functools import cache
from pathlib import Path
from typing import Mapping
from uuid import uuid4

import numpy as np

from ._types import Fields, Value


@cache
def code_digest(package: Path = Path(__file__).resolve().parent) -> str:
    """A digest of a folder's sources, by default the package's: results of other code are not taken for this code's."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def write_text(path: Path, text: str) -> None:
    """Whole or not at all: an interruption leaves the old file."""
    temporary = path.with_name(f"{path.name}.{uuid4().hex}.part")  # other processes may write the same
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def text_of(path: Path) -> str:
    """The text of a file in UTF-8, with or without a byte order mark; ``ValueError`` for other bytes.

    Raises ``OSError`` where the file cannot be opened. Who calls names the file, here and below.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is no text; expected text in UTF-8") from None


def json_of(text: str) -> Value:
    """What a text says in JSON; ``ValueError`` for other text, brackets nested beyond all sense among it."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("brackets are nested too deeply") from None


def arrays_of(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .npz file by name; ``ValueError`` for a file that is none, is cut off or damaged, or holds
    objects in the place of numbers; ``OSError`` where it cannot be opened."""
    with open(path, "rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it holds one array without a name")
            with archive:
                arrays = {name: archive[name] for name in archive.files}
        except Exception as error:  # what NumPy and zipfile raise of damaged bytes is of no common class
            raise ValueError(f"no .npz file that can be read ({str(error) or type(error).__name__}); expected named "
                             "arrays of numbers, as numpy.savez writes them") from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{name!r} is no array; expected named arrays of numbers")
    return arrays


def digest_of(fields: Mapping[str, object], arrays: Mapping[str, np.ndarray] = {}) -> str:
    """A digest of what JSON can hold and of arrays by name: it tells a damaged file from what was written."""
    digest = hashlib.sha256(json.dumps(fields, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def keep_json(path: Path, key: str, fields: Fields) -> None:
    """Keep fields that JSON can hold, with the key of what they are the result of."""
    fields = json.loads(json.dumps(fields))  # names as JSON has them, which are text
    write_text(path, json.dumps({"key": key, "digest": digest_of(fields), "fields": fields}, allow_nan=True) + "\n")


def kept_json(path: Path, key: str) -> Fields | None:
    """The fields kept for this key; a file that is missing, damaged or of another key counts as nothing kept."""
    try:
        found = json_of(text_of(path))
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict) or found.get("key") != key or not isinstance(found.get("fields"), dict):
        return None
    fields: Fields = found["fields"]
    return fields if found.get("digest") == digest_of(fields) else None
