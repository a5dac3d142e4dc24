"""Work spread over whatever has ``submit``: executors of concurrent.futures, a Dask client, or something like them."""

from __future__ import annotations

from concurrent.futures import Future, as_completed
from typing import Any, Callable, Iterator, Sequence

from ._checks import short


def executor_of(value: Any) -> Any:
    """What has ``submit``, or None; a Dask client by its ``get_executor``, whose futures are those of the library.

    Raises ``ValueError`` for anything else, and for a class in the place of an object.
    """
    require_executor(value)
    return value.get_executor() if callable(getattr(value, "get_executor", None)) else value


def require_executor(value: object) -> None:
    """Raise ``ValueError`` for what ``executor_of`` refuses, without asking a client for anything."""
    if value is not None and (isinstance(value, type) or not callable(getattr(value, "submit", None))):
        raise ValueError(f"executor: got {short(value)}; expected what has submit, as executors of "
                         "concurrent.futures and Dask clients do, or None")


def results_in_order(executor: Any, work: Callable[[Any], Any], jobs: Sequence[Any],
                     progress: Callable[[int, int], None] | None = None) -> Iterator[Any]:
    """The results of ``work`` on all jobs, in their order, as they come; what is not begun is cancelled on the way out.

    executor: None does them here, one when the one before has been taken; progress: called with (jobs done, jobs).
    """
    spread = executor_of(executor)
    futures = [] if spread is None else [spread.submit(work, job) for job in jobs]
    try:
        for done, result in enumerate(map(work, jobs) if spread is None else (f.result() for f in futures), start=1):
            if progress is not None:
                progress(done, len(jobs))
            yield result
    finally:
        for future in futures:
            future.cancel()


def finished_first(futures: Sequence[Any]) -> Iterator[Any]:
    """Futures as they finish, where the library can tell; else in their order."""
    yield from as_completed(futures) if all(isinstance(future, Future) for future in futures) else futures
