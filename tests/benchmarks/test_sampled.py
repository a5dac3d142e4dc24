"""Sampled readings: how time and memory grow, and what the widest networks take."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any, Callable

import numpy as np
from support.timing import best

import tpcalc as tp
from reference.conditioned import run_conditioned
from reference.particles import run_particles
from tpcalc.training.builders import L, T

Record = Callable[[str, str, str], None]
PROGRAM = tp.program(tp.ResNet("tanh"), tp.SGD(0.5), tp.DepthScaling())

# Of a process of its own; ru_maxrss is in KiB on Linux, bytes on macOS
WIDEST = """
import resource, sys, time
import numpy as np, tpcalc as tp
from reference.conditioned import run_conditioned
from tpcalc.training.builders import L, T
program = tp.program(tp.ResNet("tanh"), tp.SGD(0.5), tp.DepthScaling())
xi, y = np.random.default_rng(0).normal(size=(2, 10))
start = time.perf_counter()
run_conditioned(program, {T: 10, L: 64}, dict(xi=xi, y=y), width=2**17, dtype="float32", keep=())
seconds = time.perf_counter() - start
print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""


def data(steps: int) -> dict[str, np.ndarray]:
    xi, y = np.random.default_rng(0).normal(size=(2, steps))
    return dict(xi=xi, y=y)


def slope(sizes: Any, times: Any) -> float:
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def test_conditioned_is_linear_in_the_width(record: Record) -> None:
    """Four layers, ten steps, float32, n = 2^12 .. 2^17."""
    widths = 2 ** np.arange(12, 18)
    run_conditioned(PROGRAM, {T: 10, L: 4}, data(10), width=64, dtype="float32")
    times = [best(lambda: run_conditioned(PROGRAM, {T: 10, L: 4}, data(10), width=int(n), dtype="float32", keep=()), 3)
             for n in widths]
    power = slope(widths, times)
    record("time of conditioned, power of n, 2^12 .. 2^17", f"{power:.2f} ({times[0]:.2f} .. {times[-1]:.2f} s)",
           "<= 1.1")
    record("the same from 2^14 on", f"{slope(widths[2:], times[2:]):.2f}", "printed")
    assert power <= 1.1


def test_the_widest_network(record: Record) -> None:
    """Width 2^17, 64 layers, 10 steps, float32."""
    answer = subprocess.run([sys.executable, "-c", WIDEST], capture_output=True, text=True, check=True).stdout.split()
    record("conditioned, n = 2^17, L = 64, T = 10", f"{float(answer[0]):.1f} s, {float(answer[1]) / 1e9:.2f} GB",
           "< 3 GB")
    assert float(answer[1]) < 3e9


def test_particles_are_linear_in_depth_and_in_samples(record: Record) -> None:
    depths, samples = 2 ** np.arange(3, 8), 2 ** np.arange(12, 17)

    def seconds(depth: int, number: int) -> float:
        return best(lambda: run_particles(PROGRAM, {T: 4, L: depth}, data(4), number, batches=2, keep=()), 3)

    seconds(2, 256)
    deep = [seconds(int(depth), 4096) for depth in depths]
    many = [seconds(8, int(number)) for number in samples]
    for what, sizes, times in (("L, 2^3 .. 2^7", depths, deep), ("M, 2^12 .. 2^16", samples, many)):
        power = slope(sizes, times)
        record(f"time of particles, power of {what}", f"{power:.2f} ({times[0]:.2f} .. {times[-1]:.2f} s)", "<= 1.1")
        assert power <= 1.1


def test_particles_against_real_networks_at_equal_error(record: Record) -> None:
    """tanh, T = 4, L = 8. Time to a given error goes like the variance: seconds times squared error are compared."""
    reference = run_particles(PROGRAM, {T: 4, L: 8}, data(4), 2**15, batches=16, keep=()).series("f")

    def cost(values: Callable[[int], np.ndarray]) -> float:
        start = time.perf_counter()
        found = np.array([values(seed) for seed in range(16)])
        return (time.perf_counter() - start) * float(np.mean((found - reference) ** 2))

    particles = cost(lambda seed: run_particles(PROGRAM, {T: 4, L: 8}, data(4), 4096, seed + 1, 2, keep=()).series("f"))
    real = cost(lambda seed: run_conditioned(PROGRAM, {T: 4, L: 8}, data(4), 8192, seed, keep=()).series("f"))
    record("time to equal error, real networks / particles, tanh, L = 8", f"{real / particles:.0f}", "> 3")
    assert real > 3 * particles
