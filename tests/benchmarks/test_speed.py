"""Speed, as ratios measured in one run; everything is compiled and warmed up before it is timed."""

from __future__ import annotations

import time
from typing import Any, Callable

import numpy as np
import pytest
from support.timing import best

import tpcalc as tp

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
    """The second reference of MATH.md section 4, to 1e-12."""
    rng = np.random.default_rng(0)
    task, opt = tp.Task(rng.normal(size=5), rng.normal(size=5)), tp.SGD(1.0)
    reference = (0, -0.0163258367572, -0.2197067530344, 0.1298113144178, -0.5194180781943)
    limit = benchmark.pedantic(lambda: tp.train(NET, task, opt, SCALE, tp.oo), rounds=20, warmup_rounds=2)
    tp.train(NET, task, opt, SCALE, 64)
    finite = best(lambda: tp.train(NET, task, opt, SCALE, 4096), 20)
    error = float(np.max(np.abs(limit.outputs.ravel() - reference)))
    seconds = benchmark.stats.stats.min
    record("collocation, second reference: error", f"{error:.1e}", "< 1e-12")
    record("collocation / reflection at L = 4096", f"{1e3 * seconds:.1f} ms / {1e3 * finite:.1f} ms", "< 1")
    assert error < 1e-12 and limit.error_estimate < 1e-12
    assert seconds < finite


def test_digits_at_infinite_width_and_depth(benchmark: Any, record: Record) -> None:
    """10 steps of 64 images."""
    task = tp.tasks.digits(steps=10, batch=64)
    limit = benchmark.pedantic(lambda: tp.train(NET, task, tp.SGD(1.0), SCALE, tp.oo), rounds=2,
                               warmup_rounds=1)
    seconds = benchmark.stats.stats.min
    record("digits, 10 steps of 64, infinite width and depth", f"{seconds:.2f} s", "< 5 s")
    assert limit.losses[-1] < limit.losses[0]
    assert seconds < 5
