"""Claims on jobs in a folder that several processes or machines share: one works, others see it, the dead are passed.

A claim is a file that only one process can make. Its holder touches it while it works; a claim that nobody has touched
for ``EXPIRES`` seconds is one of a process that is gone, and the next in line makes the next claim on the same job.
Times are compared between files of the folder, so that clocks of machines need not agree. Should two of them work on
one job all the same, their results are equal, and either may be stored.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Iterable, Iterator
from uuid import uuid4

EXPIRES = 60.0  # seconds without a sign of life
TOUCHES = 6     # of them in that time


class Claims:
    """The claims of one process on jobs by key. folder: None claims nothing, and every job is free."""

    def __init__(self, folder: Path | None, expires: float = EXPIRES) -> None:
        self._folder, self._expires = folder, expires
        self._held: dict[str, Path] = {}

    def take(self, key: str) -> bool:
        """Is the job ours now? Not where another process holds it and shows signs of life."""
        if self._folder is None:
            return True
        if self._make(key, 0):
            return True
        last = self._last(key)
        return self._stale(self._path(key, last)) and self._make(key, last + 1)

    def release(self, keys: Iterable[str]) -> None:
        """Give jobs back, and clear away what claims the dead left on them."""
        for key in list(keys):
            if self._held.pop(key, None) is not None:
                for number in range(self._last(key), -1, -1):
                    self._path(key, number).unlink(missing_ok=True)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Signs of life for all that is held, while the work goes on; given back at its end, however it ends."""
        over = threading.Event()

        def touch() -> None:
            while not over.wait(self._expires / TOUCHES):
                for path in list(self._held.values()):
                    try:
                        os.utime(path)
                    except OSError:  # given back meanwhile
                        continue

        signs = threading.Thread(target=touch, daemon=True)
        if self._folder is not None:
            signs.start()
        try:
            yield
        finally:
            over.set()
            if self._folder is not None:
                signs.join()
            self.release(list(self._held))

    def _make(self, key: str, number: int) -> bool:
        """Make a claim, which one process can do; False where there is such a claim."""
        path = self._path(key, number)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        self._held[key] = path
        return True

    def _last(self, key: str) -> int:
        """The number of the claim that counts, the highest: every claim on the dead has the next one."""
        number = 0
        while self._path(key, number + 1).exists():
            number += 1
        return number

    def _path(self, key: str, number: int) -> Path:
        assert self._folder is not None
        return self._folder / f"{key}.claim.{number}"

    def _stale(self, path: Path) -> bool:
        """Has the file system's clock moved on without this claim?"""
        assert self._folder is not None
        now = self._folder / f".now-{uuid4().hex}"
        try:
            now.touch()
            return now.stat().st_mtime - path.stat().st_mtime > self._expires
        except FileNotFoundError:  # given back meanwhile: asked again in the next round
            return False
        finally:
            now.unlink(missing_ok=True)
