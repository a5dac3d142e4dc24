"""Ten thousand trainings of about ten milliseconds: a Dask cluster of two workers beside two local processes."""

from __future__ import annotations

import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest

from tpcalc.studies.jobs import FinishedJobs, run_jobs

pytestmark = pytest.mark.bench
JOBS = [(f"job-{n}", 1.0, n) for n in range(10**4)]
TIMES = 5


def training(number: int) -> int:
    """What costs ten milliseconds of waiting, as a training does of work, whatever else the machine does."""
    time.sleep(0.01)
    return number


def seconds(executor: Any) -> float:
    start = time.perf_counter()
    assert run_jobs(training, JOBS, FinishedJobs(None), executor, None) == list(range(len(JOBS)))
    return time.perf_counter() - start


def test_two_dask_workers_are_as_fast_as_two_processes() -> None:
    distributed = pytest.importorskip("dask.distributed")
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        list(pool.map(training, range(2)))
        local = [seconds(pool) for _ in range(TIMES)]
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            spread = [seconds(client) for _ in range(TIMES)]
    ratio = statistics.median(spread) / statistics.median(local)
    print(f"10^4 jobs of 10 ms: {statistics.median(local):.1f} s in two processes, {ratio:.2f} times that by Dask")
    assert ratio < 1.2
