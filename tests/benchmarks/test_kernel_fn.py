"""The lazy limit at infinite depth beside neural-tangents' layers, 2^18 of them, in one process after imports."""

from __future__ import annotations

import math
import statistics
import time
from typing import Any, Callable

import numpy as np
import pytest

from tpcalc import ResNet, kernel_fn

pytestmark = pytest.mark.bench
DEPTH = 2**18
TIMES = 5
ANGLES = np.pi / 4 * np.arange(5)


def timed(call: Callable[[], Any]) -> tuple[float, np.ndarray]:
    start = time.perf_counter()
    value = np.asarray(call())
    return time.perf_counter() - start, value


def theirs(x: np.ndarray) -> Callable[[], Any]:
    import jax
    from neural_tangents import stax

    jax.config.update("jax_enable_x64", True)

    def call() -> Any:
        branch = stax.serial(stax.Relu(), stax.Dense(1, W_std=1 / math.sqrt(DEPTH), parameterization="ntk"))
        layer = stax.serial(stax.FanOut(2), stax.parallel(stax.Identity(), branch), stax.FanInSum())
        start = stax.Dense(1, W_std=1.0, parameterization="ntk")[2](math.sqrt(2) * x, None)
        return stax.repeat(layer, DEPTH)[2](start.replace(ntk=0 * start.nngp)).ntk

    return call


def test_infinite_depth_beside_neural_tangents() -> None:
    pytest.importorskip("neural_tangents")
    net = ResNet("relu", "pre_nonlin")
    x = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
    calls = [lambda: kernel_fn(net)(x, get="ntk"), theirs(x)]
    (first_ours, ours), (first_theirs, their) = [timed(call) for call in calls]
    later_ours, later_theirs = [statistics.median(timed(call)[0] for _ in range(TIMES)) for call in calls]
    print(f"relu pre, 5 inputs: first call {first_ours:.2f} s, {first_theirs / first_ours:.1f} times faster; "
          f"later {1e3 * later_ours:.1f} ms, {later_theirs / later_ours:.0f} times faster")
    assert np.max(np.abs(ours - their)) < 1e-4
    assert first_theirs > 7 * first_ours and later_theirs > 100 * later_ours  # 9 to 12, 118 to 353 on a busy machine
