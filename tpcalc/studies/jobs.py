"""Many independent jobs on any executor; what is finished is kept, so that a stopped sweep goes on where it stopped."""

from __future__ import annotations

from concurrent.futures import Executor, Future, as_completed
from functools import partial
from pathlib import Path
from typing import Callable, Iterator, Sequence, TypeVar

from .._types import Json, Value
from .._files import keep_json, kept_json

Job = TypeVar("Job")
Progress = Callable[[int, int], None]


class Finished:
    """Results that JSON can hold, one file each, in a folder; ``None`` keeps them in memory only.

    is_result: what a file holds is taken only where this is true of it; anything else counts as not there.
    """

    def __init__(self, folder: Path | None, is_result: Callable[[Value], bool] = lambda result: True) -> None:
        self._folder, self._known, self._is_result = folder, Json(), is_result
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def __contains__(self, key: str) -> bool:
        return key in self._known or self._read(key)

    def __getitem__(self, key: str) -> Value:
        return self._known[key]

    def put(self, key: str, result: Value) -> None:
        if self._folder is not None:
            keep_json(self._folder / f"{key}.json", key, {"result": result})
        self._known[key] = result

    def _read(self, key: str) -> bool:
        found = None if self._folder is None else kept_json(self._folder / f"{key}.json", key)
        if found is None or "result" not in found or not self._is_result(found["result"]):
            return False
        self._known[key] = found["result"]
        return True


def run_jobs(work: Callable[[Job], Value], jobs: Sequence[tuple[str, float, Job]], finished: Finished,
             executor: Executor | None, progress: Progress | None) -> list[Value]:
    """The results of all jobs, in order; jobs are (key, cost, what ``work`` takes), equal keys being one job.

    Jobs that ``finished`` has are not done again. An executor gets ``work`` and lists of jobs, the dearest first, each
    list about as dear as the dearest job; ``work`` and jobs must then be picklable. Whatever ends the sweep, an
    interruption or an error of a job, what is finished is stored before it goes on its way. progress: called with
    (jobs done, jobs).
    """
    todo = {key: (cost, job) for key, cost, job in jobs if key not in finished}
    total = len({key for key, _, _ in jobs})

    def keep(pairs: Sequence[tuple[str, Value]]) -> None:
        for key, result in pairs:
            finished.put(key, result)
            todo.pop(key, None)

    def tell() -> None:
        if progress is not None:
            progress(total - len(todo), total)

    if len(todo) < total:
        tell()
    if executor is None:
        for key, (_, job) in list(todo.items()):
            keep([(key, work(job))])
            tell()
    else:
        _spread(partial(_work_through, work), list(_chunks(todo)), keep, tell, executor)
    return [finished[key] for key, _, _ in jobs]


def _work_through(work: Callable[[Value], Value], chunk: list[tuple[str, Value]]) -> list[tuple[str, Value]]:
    return [(key, work(job)) for key, job in chunk]


def _chunks(todo: dict[str, tuple[float, Value]]) -> Iterator[list[tuple[str, Value]]]:
    full = max((cost for cost, _ in todo.values()), default=0.0)
    chunk: list[tuple[str, Value]] = []
    spent = 0.0
    for key, (cost, job) in sorted(todo.items(), key=lambda item: -item[1][0]):
        if chunk and spent + cost > full:
            yield chunk
            chunk, spent = [], 0.0
        chunk.append((key, job))
        spent += cost
    if chunk:
        yield chunk


def _spread(work: Callable[[Value], Value], chunks: list[Value], keep: Callable[[Value], None],
            tell: Callable[[], None], executor: Executor) -> None:
    futures: set[Future[Value]] = {executor.submit(work, chunk) for chunk in chunks}
    try:
        for future in as_completed(tuple(futures)):
            futures.remove(future)
            keep(future.result())
            tell()
    finally:
        for future in futures:
            future.cancel()
        for future in futures:
            if future.done() and not future.cancelled() and future.exception() is None:
                keep(future.result())
