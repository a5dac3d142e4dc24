"""Many independent jobs on any executor; what is finished is kept, so that a stopped sweep goes on where it stopped."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence, TypeVar

from .._types import Value
from .._files import keep_json, kept_json
from .._spread import executor_of, finished_first
from .claims import EXPIRES, Claims

WINDOW = 64  # lists at an executor at once
MOST_CHUNKS = 512
FIRST_WAIT, LAST_WAIT = 0.02, 1.0  # seconds, for what others hold
Job = TypeVar("Job")
Progress = Callable[[int, int], None]


class FinishedJobs:
    """Results that JSON can hold, one file each, in a folder; ``None`` keeps them in memory only.

    is_result: what a file holds is taken only where this is true of it; anything else counts as not there.
    """

    def __init__(self, folder: Path | None, is_result: Callable[[Any], bool] = lambda result: True) -> None:
        self.folder, self._known, self._is_result = folder, dict[str, Any](), is_result
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def __contains__(self, key: str) -> bool:
        return key in self._known or self._read(key)

    def __getitem__(self, key: str) -> Value:
        return self._known[key]

    def put(self, key: str, result: Any) -> None:
        if self.folder is not None:
            keep_json(self.folder / f"{key}.json", key, {"result": result})
        self._known[key] = result

    def _read(self, key: str) -> bool:
        """A file that is missing or damaged counts as nothing stored."""
        found = None if self.folder is None else kept_json(self.folder / f"{key}.json", key)
        if found is None or "result" not in found or not self._is_result(found["result"]):
            return False
        self._known[key] = found["result"]
        return True


def run_jobs(work: Callable[[Job], Any], jobs: Sequence[tuple[str, float, Job]], finished: FinishedJobs,
             executor: Any, progress: Progress | None, expires: float = EXPIRES) -> list[Any]:
    """The results of all jobs, in order; jobs are (key, cost, what ``work`` takes), equal keys being one job.

    Jobs that ``finished`` has are not done again. Where it is a folder, other processes may work on the same jobs, from
    this machine or another: each job is claimed before it is done, what another process holds is left to it and waited
    for, and claims of the dead expire after ``expires`` seconds. An executor (``tpcalc._spread``) gets ``work`` and
    lists of jobs, the dearest first, each list about as dear as the dearest job or a small share of all; ``work`` and
    jobs must then be picklable. Whatever ends the sweep, an interruption or an error of a job, what is finished is
    stored before it goes on its way. progress: called with (jobs done, jobs).
    """
    spread = executor_of(executor)
    todo = {key: (cost, job) for key, cost, job in jobs if key not in finished}
    total = len({key for key, _, _ in jobs})
    claims = Claims(finished.folder, expires)

    def keep(pairs: Sequence[tuple[str, Value]]) -> None:
        for key, result in pairs:
            finished.put(key, result)
            todo.pop(key, None)
        claims.release([key for key, _ in pairs])

    def tell() -> None:
        if progress is not None:
            progress(total - len(todo), total)

    if len(todo) < total:
        tell()
    waited = FIRST_WAIT
    with claims.kept():
        while todo:
            before = len(todo)
            if spread is None:
                for key, (_, job) in list(todo.items()):
                    if _ours(key, claims, finished):
                        keep([(key, work(job))])
                        tell()
            else:
                _spread(partial(_work_through, work), list(_chunks(todo)), keep, tell, spread,
                        lambda key: _ours(key, claims, finished))
            for key in [key for key in todo if key in finished]:  # done by others
                del todo[key]
                tell()
            waited = FIRST_WAIT if len(todo) < before else min(2 * waited, LAST_WAIT)
            if todo:
                time.sleep(waited)
    return [finished[key] for key, _, _ in jobs]


def _ours(key: str, claims: Claims, finished: FinishedJobs) -> bool:
    """Is it ours to do a job? Not where another process holds it, or has done it meanwhile."""
    if key in finished or not claims.take(key):
        return False
    if key in finished:  # it was done between the two looks
        claims.release([key])
        return False
    return True


def _work_through(work: Callable[[Any], Any], chunk: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [(key, work(job)) for key, job in chunk]


def _chunks(todo: dict[str, tuple[float, Any]]) -> Iterator[list[tuple[str, Any]]]:
    """Lists of jobs, the dearest first: as dear as the dearest job, or as a share of all where there are very many."""
    costs = [cost for cost, _ in todo.values()]
    full = max(max(costs, default=0.0), sum(costs) / MOST_CHUNKS)
    chunk: list[tuple[str, Any]] = []
    spent = 0.0
    for key, (cost, job) in sorted(todo.items(), key=lambda item: -item[1][0]):
        if chunk and spent + cost > full:
            yield chunk
            chunk, spent = [], 0.0
        chunk.append((key, job))
        spent += cost
    if chunk:
        yield chunk


def _spread(work: Callable[[Any], Any], chunks: list[Any], keep: Callable[[Any], None], tell: Callable[[], None],
            executor: Any, ours: Callable[[str], bool]) -> None:
    """A window of lists at a time, so that other processes find jobs that nobody has claimed."""
    waiting = iter(chunks)
    futures: list[Any] = []

    def fill() -> None:
        while len(futures) < WINDOW:
            chunk = next(waiting, None)
            if chunk is None:
                return
            mine = [(key, job) for key, job in chunk if ours(key)]
            if mine:
                futures.append(executor.submit(work, mine))

    try:
        fill()
        while futures:
            future = next(finished_first(futures))
            futures.remove(future)
            keep(future.result())
            tell()
            fill()
    finally:
        for future in futures:
            future.cancel()
        for future in futures:
            if future.done() and not future.cancelled() and future.exception() is None:
                keep(future.result())
