"""A plugin of pytest: what probes every test meets, and how long it takes; of fixtures, for all tests of a file."""

from __future__ import annotations

import functools
import gc
import json
import os
from pathlib import Path
from typing import Any, Iterator

import pytest
from sitecustomize import SEEN

_file = ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """What an earlier file's tests have computed, later ones would not be seen to run."""
    global _file
    here = item.nodeid.split("::")[0]
    if here != _file:
        _file = here
        for one in gc.get_objects():
            if isinstance(one, functools._lru_cache_wrapper) and getattr(one, "__module__", "").startswith("tpcalc"):
                one.cache_clear()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[Any]:
    report = yield
    if isinstance(collector, pytest.Module):
        _record(collector.nodeid, 0.0, False)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[Any]:
    report = yield
    _record(item.nodeid.split("[")[0] if call.when == "call" else _file, call.duration, report.outcome == "failed")
    return report


def _record(test: str, seconds: float, failed: bool) -> None:
    line = {"test": test, "seconds": seconds, "seen": sorted(SEEN), "failed": failed}
    with (Path(os.environ["MUTANTS_SEEN"]) / f"{os.getpid()}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    SEEN.clear()
