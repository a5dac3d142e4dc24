"""Several processes share one folder: every job is done once, the dead are passed, results are those of one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

import pytest

import tpcalc as tp
from tpcalc._spread import executor_of, results_in_order
from tpcalc.studies.claims import Claims
from tpcalc.studies.jobs import FinishedJobs, _chunks, run_jobs

WORKER = """
import os, sys, time
from pathlib import Path
from tpcalc.studies.jobs import FinishedJobs, run_jobs

folder = Path(sys.argv[1])

def square(number):
    with open(folder / "log.txt", "a") as log:
        log.write(f"{os.getpid()} {number}\\n")
    time.sleep(0.05)
    return number**2

jobs = [(f"job-{n}", 1.0, n) for n in range(int(sys.argv[2]))]
print(run_jobs(square, jobs, FinishedJobs(folder), None, None, expires=float(sys.argv[3])))
"""
SQUARES = [n**2 for n in range(24)]


def worker(folder: Path, expires: float = 30.0) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WORKER, str(folder), str(len(SQUARES)), str(expires)], text=True,
                            stdout=subprocess.PIPE)


def log(folder: Path) -> list[tuple[int, int]]:
    path = folder / "log.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(pid), int(number)) for pid, number in (line.split() for line in lines)]


def test_two_processes_do_every_job_once(tmp_path: Path) -> None:
    both = [worker(tmp_path), worker(tmp_path)]
    told = [process.communicate(timeout=60)[0].strip() for process in both]
    assert told == [str(SQUARES)] * 2
    assert sorted(number for _, number in log(tmp_path)) == list(range(len(SQUARES)))
    assert not list(tmp_path.glob("*.claim.*")) and not list(tmp_path.glob("*.part"))


def test_a_process_that_is_killed_loses_the_job_in_work(tmp_path: Path) -> None:
    first = worker(tmp_path)
    while len(log(tmp_path)) < 4:
        assert first.poll() is None  # it works: no test waits for ever
        time.sleep(0.01)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    stored, begun = len(list(tmp_path.glob("*.json"))), len(log(tmp_path))
    assert begun - 1 <= stored <= begun
    assert worker(tmp_path, expires=1.0).communicate(timeout=60)[0].strip() == str(SQUARES)
    assert len(log(tmp_path)) <= len(SQUARES) + 1 and not list(tmp_path.glob("*.claim.*"))


def test_what_is_claimed_is_left_alone_until_its_holder_is_silent(tmp_path: Path) -> None:
    mine, other = Claims(tmp_path, 30.0), Claims(tmp_path, 30.0)
    assert mine.take("a") and not other.take("a") and other.take("b")
    old = time.time() - 31
    os.utime(tmp_path / "a.claim.0", (old, old))
    assert other.take("a") and not Claims(tmp_path, 30.0).take("a")
    other.release(["a", "b"])
    assert not list(tmp_path.iterdir()) and mine.take("b")


def test_one_of_many_takes_over_from_the_dead(tmp_path: Path) -> None:
    Claims(tmp_path).take("a")
    old = time.time() - 1000
    os.utime(tmp_path / "a.claim.0", (old, old))
    ready, taken = threading.Barrier(8), list[bool]()

    def race() -> None:
        claims = Claims(tmp_path)
        ready.wait()
        taken.append(claims.take("a"))

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [False] * 7 + [True]


def test_a_holder_at_work_gives_signs_of_life(tmp_path: Path) -> None:
    claims = Claims(tmp_path, expires=0.6)
    with claims.kept():
        claims.take("a")
        time.sleep(1.5)
        assert not Claims(tmp_path, expires=0.6).take("a")
    assert not list(tmp_path.iterdir())


class Later:
    """A future of no library: it has a result and can be cancelled."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work

    def result(self) -> Any:
        return self.work()

    def done(self) -> bool:
        return False

    def cancel(self) -> None: ...


class Submits:
    """Anything with submit."""

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Later:
        return Later(lambda: work(*arguments))


class Client(Submits):
    """A client whose own futures are of no use here, as Dask's."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.pool = pool

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Any:
        raise AssertionError("futures of the client's own")

    def get_executor(self) -> ThreadPoolExecutor:
        return self.pool


TASK, NET, OPT = tp.Task([1.0, 0.8], [1.0, -0.7]), tp.ResNet(), tp.SGD(0.5)


@pytest.mark.parametrize("study", ["transfer", "convergence", "particles"])
def test_results_are_those_of_one_process_whatever_has_submit(study: str, tmp_path: Path) -> None:
    def ask(executor: Any) -> Any:
        if study == "transfer":
            return tp.transfer(NET, TASK, OPT, tp.DepthScaling(), [2, 4], [0.5, 1.0, 2.0], executor).losses.tolist()
        if study == "convergence":
            return tp.convergence(NET, TASK, OPT, tp.DepthScaling(), [2, 4], executor).outputs.tolist()
        return tp.train(tp.ResNet("tanh"), TASK, OPT, tp.DepthScaling(), 2, method=tp.methods.Particles(
            samples=64, batches=3, executor=executor)).outputs.tolist()

    alone = ask(None)
    with ThreadPoolExecutor(2) as pool:
        assert ask(pool) == ask(Client(pool)) == ask(Submits()) == alone
        assert ask(pool) == alone  # the sweep after a client's is none the worse


def test_what_has_no_submit_is_refused() -> None:
    for value in (3, "threads", ThreadPoolExecutor, object()):
        with pytest.raises(ValueError, match="executor: got .*; expected what has submit"):
            executor_of(value)


def test_an_error_of_a_job_comes_through_and_cancels_the_rest() -> None:
    began = []

    def work(number: int) -> int:
        began.append(number)
        time.sleep(0.02)
        return 1 // number

    with ThreadPoolExecutor(1) as pool, pytest.raises(ZeroDivisionError):
        list(results_in_order(pool, work, [1, 0, *range(1, 50)]))
    assert len(began) < 10


def test_lists_of_very_many_short_jobs_are_few() -> None:
    many = list(_chunks({str(n): (1.0, n) for n in range(10**4)}))
    assert 300 < len(many) < 600 and sum(map(len, many)) == 10**4
    assert [len(one) for one in _chunks({str(n): (1.0, n) for n in range(20)})] == [1] * 20


def test_a_folder_holds_what_an_executor_did(tmp_path: Path) -> None:
    jobs = [(f"job-{n}", 1.0, n) for n in range(5)]
    with ThreadPoolExecutor(2) as pool:
        assert run_jobs(abs, jobs, FinishedJobs(tmp_path), pool, None) == list(range(5))
    assert len(list(tmp_path.glob("*.json"))) == 5 and not list(tmp_path.glob("*.claim.*"))
