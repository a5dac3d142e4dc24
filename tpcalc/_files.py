"""Files that are written whole or not at all, and a digest that tells results of this code from others'."""

from __future__ import annotations

import hashlib
import json
import os
from functools import cache
from pathlib import Path
from typing import Any, Mapping
from uuid import uuid4


@cache
def code_digest() -> str:
    """A digest of the package's sources: results of other code are not taken for this code's."""
    package = Path(__file__).resolve().parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def write_text(path: Path, text: str) -> None:
    """Whole or not at all: an interruption leaves the old file."""
    temporary = path.with_name(f"{path.name}.{uuid4().hex}.part")  # other processes may write the same
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def keep_json(path: Path, key: str, fields: Mapping[str, object]) -> None:
    """Keep fields that JSON can hold, with the key of what they are the result of."""
    write_text(path, json.dumps({"key": key, **fields}, allow_nan=True) + "\n")


def kept_json(path: Path, key: str) -> dict[str, Any] | None:
    """The fields kept for this key; a file that is missing, damaged or of another key counts as nothing kept."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("key") == key else None
