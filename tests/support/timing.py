"""Timing for the benchmarks."""

from __future__ import annotations

import time
from typing import Any, Callable


def best(call: Callable[[], Any], rounds: int) -> float:
    """Seconds of the fastest of some rounds."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
