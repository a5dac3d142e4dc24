"""Work that takes long: progress bars on a terminal, nothing elsewhere, and processes that share it."""

from __future__ import annotations

import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import count
from typing import Any, Callable, Iterator

Progress = Callable[[int, int], None]


def silent(done: int, total: int) -> None:
    """Progress that nobody sees."""


def counting(progress: Progress, total: int) -> Callable[[], None]:
    """Called, it says that one more of so many is done."""
    done = count(1)
    return lambda: progress(next(done), total)


@contextmanager
def bar(title: str, total: int) -> Iterator[Progress]:
    """A callback (done, total) that moves a bar on standard error, if that is a terminal and tqdm is there."""
    try:
        from tqdm import tqdm
    except ImportError:
        tqdm = None
    if tqdm is None or not sys.stderr.isatty():
        yield silent
        return
    with tqdm(total=total, desc=title, leave=False, file=sys.stderr) as shown:
        def update(done: int, total: int) -> None:
            shown.total = total
            shown.update(done - shown.n)

        yield update


def workers(number: int) -> Any:
    """Processes that share the work; one is this process."""
    return nullcontext() if number == 1 else ProcessPoolExecutor(number, multiprocessing.get_context("spawn"))
