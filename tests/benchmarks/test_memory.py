"""Memory: of the reflection form linear in the depth, a small multiple of T^2 L numbers; of a long run in the limit."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from typing import Callable

import numpy as np

import tpcalc as tp

NET, SCALE, OPT = tp.ResNet("linear"), tp.DepthScaling(), tp.SGD(0.3)
STEPS = 10
Record = Callable[[str, str, str], None]

# Peak resident memory above that of the imports and a warm-up, in bytes (ru_maxrss is in KiB on Linux, bytes on macOS)
PEAK = f"""
import resource, sys
import numpy as np, tpcalc as tp
rng = np.random.default_rng(0)
task = tp.Task(0.7 * rng.normal(size={STEPS}), rng.normal(size={STEPS}))
def peak(depth):
    tp.train(tp.ResNet("linear"), task, tp.SGD(0.3), tp.DepthScaling(), depth)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
before = peak(8)
print(peak(2**18) - before)
"""

# The same at infinite depth, with the seconds it takes, and how far the first outputs are from those of a short run
LONG = """
import resource, sys, time
import numpy as np, tpcalc as tp
rng = np.random.default_rng(1)
xi, y = 0.7 * rng.normal(size=1000), rng.normal(size=1000)
def run(steps):
    task = tp.Task(xi[:steps], y[:steps])
    return tp.train(tp.ResNet("linear"), task, tp.SGD(0.3), tp.DepthScaling(), tp.oo)
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
short = run(100).outputs
before, start = peak(), time.perf_counter()
long = run(1000)
print(time.perf_counter() - start, peak() - before, np.max(np.abs(long.outputs[:100] - short)), long.error_estimate,
      len(long.layer_times))
"""


def test_memory_of_reflection_is_linear_in_the_depth(record: Record) -> None:
    """Fitted exponent of the allocations' peak from L = 2^10 to 2^16."""
    rng = np.random.default_rng(0)
    task = tp.Task(0.7 * rng.normal(size=STEPS), rng.normal(size=STEPS))
    depths, peaks = 2 ** np.arange(10, 17), []
    tp.train(NET, task, OPT, SCALE, 8)
    for depth in depths:
        tracemalloc.start()
        tp.train(NET, task, OPT, SCALE, int(depth))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    exponent = np.polyfit(np.log(depths), np.log(peaks), 1)[0]
    record("memory of reflection, power of L, 2^10 .. 2^16", f"{exponent:.3f}", "<= 1.1")
    assert exponent <= 1.1


def test_depth_two_to_the_eighteen_needs_a_few_times_steps_squared_depth(record: Record) -> None:
    """Resident memory of a process of its own. Stored are 4 covariances and 6 triangles, 7 T^2 L in all."""
    answer = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    multiple = int(answer.stdout) / (STEPS**2 * 2**18 * 8)
    record("peak memory at L = 2^18, T = 10", f"{multiple:.1f} T^2 L doubles = {int(answer.stdout) / 2**30:.2f} GiB",
           "<= 12 T^2 L")
    assert multiple <= 12


def test_kept_nodes_need_no_more(record: Record) -> None:
    """T = 200 at L = 64 with keep_nodes, and their covariances: 4 GiB at T = 1000 are 8.4 T^2 L doubles."""
    rng = np.random.default_rng(0)
    task = tp.Task(0.7 * rng.normal(size=200), rng.normal(size=200))
    tracemalloc.start()
    run = tp.train(NET, task, tp.SGD(0.1), SCALE, 64, keep_nodes=[0, 0.5, 1])
    assert run.forward_covariance.shape == (3, 200, 200)
    multiple = tracemalloc.get_traced_memory()[1] / (200**2 * 64 * 8)
    tracemalloc.stop()
    record("peak memory with keep_nodes, L = 64, T = 200", f"{multiple:.1f} T^2 L doubles", "<= 8 T^2 L")
    assert 3 < multiple <= 8


def test_a_thousand_steps_at_infinite_depth(record: Record) -> None:
    """Minutes. By causality the first outputs are those of a short run."""
    answer = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True, check=True)
    seconds, peak, difference, estimate, nodes = map(float, answer.stdout.split())
    record("T = 1000 at infinite depth", f"{seconds:.0f} s, {peak / 2**30:.2f} GiB, {nodes:.0f} nodes, estimate "
           f"{estimate:.1e}, first 100 outputs {difference:.0e} off", "<= 4 GiB, 1e-12")
    assert difference < 1e-12 and estimate < 1e-11
    assert peak <= 4 * 2**30
