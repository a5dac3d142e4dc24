"""Progress bars on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import Callable, Iterator


@contextmanager
def bar(title: str, total: int) -> Iterator[Callable[[int, int], None]]:
    """A callback (done, total) that moves a bar on standard error, if that is a terminal and tqdm is there."""
    try:
        from tqdm import tqdm
    except ImportError:
        tqdm = None
    if tqdm is None or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    with tqdm(total=total, desc=title, leave=False, file=sys.stderr) as shown:
        def update(done: int, total: int) -> None:
            shown.total = total
            shown.update(done - shown.n)

        yield update
