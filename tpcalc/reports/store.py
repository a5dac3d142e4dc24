"""Results of stages in files: written as soon as they are there, read again when nothing changed."""

from __future__ import annotations

import hashlib
import json
import math
import time
from dataclasses import asdict, dataclass
from functools import singledispatch
from pathlib import Path
from typing import Callable, Generic, TypeVar

import numpy as np

from .._types import Json, Value
from .._files import code_digest, keep_json, kept_json, write_text

Result = TypeVar("Result")


@singledispatch
def as_json(value: Value) -> Value:
    """``value`` as JSON has it: lists, dictionaries, text, numbers; what is not finite becomes None."""
    return value


as_json.register(dict, lambda value: {str(k): as_json(v) for k, v in value.items()})
as_json.register(np.ndarray, lambda value: as_json(value.tolist()))
as_json.register(np.generic, lambda value: as_json(value.item()))
as_json.register(float, lambda value: value if math.isfinite(value) else None)
for sequence in (list, tuple):
    as_json.register(sequence, lambda value: list(map(as_json, value)))


def write_json(path: Path, value: Value) -> None:
    write_text(path, json.dumps(as_json(value), indent=1, allow_nan=False) + "\n")


def print_json(value: Value) -> None:
    print(json.dumps(as_json(value), indent=1, allow_nan=False))


@dataclass(frozen=True)
class Stored(Generic[Result]):
    """A result, the seconds it took when it was computed, and whether that was now."""

    result: Result
    seconds: float
    reused: bool


class Store:
    """The folder of finished stages."""

    def __init__(self, folder: Path, fresh: bool = False) -> None:
        self.folder = folder
        self.fresh = fresh
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, name: str, depends: Json, kind: Callable[..., Result],
            compute: Callable[[], Value]) -> Stored[Result]:
        """The stage's result: from its file where ``depends`` and the code are what they were, else computed.

        kind: the dataclass of the result, whose fields are what JSON can hold. A computed result is read
        back from JSON too, so that both ways give one value.
        """
        path = self.folder / f"{name}.json"
        key = hashlib.sha256(json.dumps([name, depends, code_digest()], sort_keys=True).encode()).hexdigest()
        found = None if self.fresh else kept_json(path, key)
        if found is not None:
            return Stored(kind(**found["result"]), found["seconds"], True)
        start = time.perf_counter()
        result = as_json(asdict(compute()))
        seconds = time.perf_counter() - start
        keep_json(path, key, {"seconds": seconds, "result": result})
        return Stored(kind(**result), seconds, False)
