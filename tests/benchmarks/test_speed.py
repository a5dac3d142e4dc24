"""Speed, as ratios measured in one run; everything is compiled and warmed up before it is timed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any, Callable

import numpy as np
import pytest
from support.propagators import reflect
from support.timing import best

import tpcalc as tp
from tpcalc.kernels import reflection_block

NET, SCALE = tp.ResNet("linear"), tp.DepthScaling()
Record = Callable[[str, str, str], None]


def scalars(steps: int) -> tp.Task:
    rng = np.random.default_rng(steps)
    return tp.Task(0.7 * rng.normal(size=steps), rng.normal(size=steps))


@pytest.mark.parametrize("depth, required", [(512, 300), (1024, 1000)])
def test_reflection_against_coefficients(benchmark: Any, record: Record, depth: int, required: int) -> None:
    """T = 10, one input a step. Both give the same outputs."""
    task, opt = scalars(10), tp.SGD(0.3)

    def fast() -> tp.Run:
        return tp.train(NET, task, opt, SCALE, depth)

    def oracle() -> tp.Run:
        return tp.train(NET, task, opt, SCALE, depth, method="coefficients")

    tp.train(NET, task, opt, SCALE, 8, method="coefficients")
    outputs = benchmark.pedantic(fast, rounds=20, warmup_rounds=2).outputs
    start = time.perf_counter()
    slow = oracle()
    seconds = time.perf_counter() - start
    if depth == 512:
        seconds = min(seconds, best(oracle, 1))
    ratio = seconds / benchmark.stats.stats.min
    record(f"coefficients / reflection, T = 10, L = {depth}",
           f"{seconds:.2f} s / {1e3 * benchmark.stats.stats.min:.2f} ms = {ratio:.0f}", f">= {required}")
    assert np.max(np.abs(outputs - slow.outputs)) < 1e-11
    assert ratio >= required


def test_reflection_is_linear_in_the_depth(record: Record) -> None:
    """Fitted exponent of the time from L = 2^10 to 2^16."""
    task, opt = scalars(10), tp.SGD(0.3)
    depths = 2 ** np.arange(10, 17)
    tp.train(NET, task, opt, SCALE, 64)
    times = [best(lambda: tp.train(NET, task, opt, SCALE, int(depth)), 5) for depth in depths]
    exponent = np.polyfit(np.log(depths), np.log(times), 1)[0]
    record("time of reflection, power of L, 2^10 .. 2^16",
           f"{exponent:.3f} ({1e3 * times[0]:.1f} ms .. {times[-1]:.2f} s)", "<= 1.1")
    assert exponent <= 1.1


def test_collocation_beats_reflection_at_depth_4096(benchmark: Any, record: Record) -> None:
    """Five steps of normals, known to 13 digits, to 1e-12."""
    rng = np.random.default_rng(0)
    task, opt = tp.Task(rng.normal(size=5), rng.normal(size=5)), tp.SGD(1.0)
    reference = (0, -0.0163258367572, -0.2197067530344, 0.1298113144178, -0.5194180781943)
    limit = benchmark.pedantic(lambda: tp.train(NET, task, opt, SCALE, tp.oo), rounds=20, warmup_rounds=2)
    tp.train(NET, task, opt, SCALE, 64)
    finite = best(lambda: tp.train(NET, task, opt, SCALE, 4096), 20)
    error = float(np.max(np.abs(limit.outputs.ravel() - reference)))
    seconds = benchmark.stats.stats.min
    record("collocation, second reference: error", f"{error:.1e}", "< 1e-12")
    record("reflection at L = 4096 / collocation",
           f"{1e3 * finite:.1f} ms / {1e3 * seconds:.1f} ms = {finite / seconds:.1f}", ">= 1.5")
    assert error < 1e-12 and limit.error_estimate < 1e-12
    assert finite / seconds >= 1.5


def test_digits_at_infinite_width_and_depth(benchmark: Any, record: Record) -> None:
    """10 steps of 64 images."""
    task = tp.tasks.digits(steps=10, batch=64)
    limit = benchmark.pedantic(lambda: tp.train(NET, task, tp.SGD(1.0), SCALE, tp.oo), rounds=2,
                               warmup_rounds=1)
    seconds = benchmark.stats.stats.min
    record("digits, 10 steps of 64, infinite width and depth", f"{seconds:.2f} s", "< 5 s")
    assert limit.losses[-1] < limit.losses[0]
    assert seconds < 5


def batches(steps: int, batch: int) -> tp.Task:
    rng = np.random.default_rng(batch)
    return tp.Task(rng.normal(size=(steps, batch, 8)) / 8, rng.normal(size=(steps, batch, 1)))


def test_compiled_against_numpy(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same arithmetic, one input a step, T = 10: what is left of it in NumPy is the cost of calls."""
    task, opt, depth = scalars(10), tp.SGD(0.3), 1024
    compiled = tp.train(NET, task, opt, SCALE, depth)
    seconds = best(lambda: tp.train(NET, task, opt, SCALE, depth), 10)
    monkeypatch.setattr("tpcalc.propagators.reflection.kernel.sweep", reflection_block.sweep)
    slow = best(lambda: reflect(task, opt, SCALE, depth, "plain"), 2)
    trace, _ = reflect(task, opt, SCALE, depth, "plain")
    record("NumPy / compiled, T = 10, L = 1024",
           f"{slow:.2f} s / {1e3 * seconds:.1f} ms = {slow / seconds:.0f}", ">= 20")
    assert np.max(np.abs(trace.outputs - compiled.outputs)) < 1e-12
    assert slow / seconds >= 20


def power(sizes: np.ndarray, times: list[float]) -> float:
    """The fitted exponent."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def blocked_flops(depth: int, steps: int, batch: int) -> float:
    """Of the matrix products of the sweeps: per step and layer 14 with a square, 7 among the step's rows."""
    m = batch * np.arange(steps)
    return float(2 * depth * np.sum(14 * 2 * batch * m**2 + 7 * 2 * batch**2 * m))


def test_blocked_steps_run_at_the_rate_of_matrix_products(record: Record) -> None:
    """640 samples, 10 steps of 64, without the effective-sample reduction; both timed in turns."""
    task, opt, depth = batches(10, 64), tp.SGD(0.3), 16
    reflect(task, opt, SCALE, 1, "plain")
    square = np.random.default_rng(0).normal(size=(640, 640))
    fractions = []
    for _ in range(3):
        product = 2 * 640**3 / best(lambda: square @ square, 20)
        ours = blocked_flops(depth, 10, 64) / best(lambda: reflect(task, opt, SCALE, depth, "plain"), 1)
        fractions.append(ours / product)
    record("blocked steps, 640 samples: rate",
           f"{max(fractions):.2f} of a matrix product's ({product / 1e9:.0f} GFlop/s)", ">= 0.33")
    assert max(fractions) >= 1 / 3


THREADS = """
import sys
from support.media import reflect
from support.timing import best
from test_speed import SCALE, batches
import tpcalc as tp
task, opt = batches(10, 64), tp.SGD(0.3)
reflect(task, opt, SCALE, 1, "plain")
print(best(lambda: reflect(task, opt, SCALE, 16, "plain"), 3))
"""


def test_threads_help_on_blocked_steps(record: Record) -> None:
    """BLAS with two threads against one, in processes of their own; measured, not required: cores may be shared."""
    seconds = []
    for threads in ("1", "2"):
        paths = os.pathsep.join([os.path.dirname(__file__), os.path.dirname(os.path.dirname(__file__)), *sys.path])
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads, "PYTHONPATH": paths}
        answer = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True,
                                env=environment)
        seconds.append(float(answer.stdout))
    record("blocked steps, two threads against one", f"{seconds[0]:.2f} s / {seconds[1]:.2f} s = "
           f"{seconds[0] / seconds[1]:.2f}", "printed")


def test_growth_in_steps_and_batch(record: Record) -> None:
    """Fitted exponents: T^3 and, for plain rows, batch^3 in the end; smaller where calls still count."""
    opt = tp.SGD(0.3)
    steps = np.array([16, 32, 64, 128])
    times = [best(lambda: tp.train(NET, scalars(int(t)), opt, SCALE, 32), 2) for t in steps]
    record("time of reflection, power of T, 16 .. 128", f"{power(steps, times):.2f}", "printed")
    batch = np.array([8, 16, 32, 64])
    times = [best(lambda: reflect(batches(6, int(k)), opt, SCALE, 16, "plain"), 2) for k in batch]
    record("time of blocked steps, power of the batch, 8 .. 64", f"{power(batch, times):.2f}", "printed")
    lengths = np.array([16, 32, 64, 128])
    times = [best(lambda: tp.train(NET, scalars(int(t)), opt, SCALE, tp.oo), 2) for t in lengths]
    record("time of collocation, power of T, 16 .. 128", f"{power(lengths, times):.2f}", "printed")


def test_large_learning_rates_at_infinite_depth(record: Record) -> None:
    """Outputs of 70: elements graded toward both ends."""
    task = tp.Task((1, .8, -.6, 1.1), (1, -.7, .5, 1.2))
    run = tp.train(NET, task, tp.SGD(32.0), SCALE, tp.oo, keep_nodes="all")
    seconds = best(lambda: tp.train(NET, task, tp.SGD(32.0), SCALE, tp.oo), 2)
    record("collocation, learning rate 32, |f| = 70", f"{seconds:.2f} s, {len(run.layer_times)} nodes, "
           f"estimate {run.error_estimate:.0e}", "printed")
