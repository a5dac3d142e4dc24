"""Nonlinear networks at infinite width and depth: seconds, and those of particles that are as close to the limit."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp
from support.timing import best

import tpcalc as tp

Record = Callable[[str, str, str], None]
h = sp.Symbol("h", real=True)
TASK, SCALE = tp.Task((1, .8, -.6, 1.1), (1, -.7, .5, 1.2)), tp.DepthScaling()
EQUAL = 1e-3  # the error at which times are compared


def limit(net: tp.ResNet, task: tp.Task = TASK, rate: float = 1.0) -> tp.Run:
    return tp.train(net, task, tp.SGD(rate), SCALE, depth=tp.oo)


@pytest.mark.parametrize("name, net, rate, required", [
    ("tanh", tp.ResNet("tanh"), 1.0, 0.3), ("relu", tp.ResNet("relu"), 1.0, None), ("erf", tp.ResNet("erf"), 1.0, None),
    ("tanh mlp", tp.ResNet("tanh", "mlp"), 1.0, None),
    ("gated SiLU", tp.ResNet(h / (1 + sp.exp(-h)), "glu"), 0.5, None)])
def test_four_steps(benchmark: Any, record: Record, name: str, net: tp.ResNet, rate: float, required: float | None
                    ) -> None:
    """One input a step; kernels are derived and compiled in the warm-up."""
    run = benchmark.pedantic(lambda: limit(net, rate=rate), rounds=5, warmup_rounds=1)
    seconds = benchmark.stats.stats.min
    record(f"infinite depth, {name}, T = 4, learning rate {rate}",
           f"{1e3 * seconds:.0f} ms, estimate {run.error_estimate:.0e}", f"< {required} s" if required else "printed")
    assert run.error_estimate < 1e-8
    assert required is None or seconds < required


@pytest.mark.parametrize("name", ["erf", "tanh", "relu"])
def test_batches(record: Record, name: str) -> None:
    """10 steps of 8 inputs of dimension 8."""
    rng = np.random.default_rng(0)
    task = tp.Task(rng.normal(size=(10, 8, 8)) / np.sqrt(8), rng.normal(size=(10, 8, 1)))
    limit(tp.ResNet(name))
    seconds = best(lambda: limit(tp.ResNet(name), task), 1)
    record(f"infinite depth, {name}, 10 steps of 8", f"{seconds:.2f} s", "printed")


def test_against_particles_at_equal_error(record: Record) -> None:
    """tanh, T = 4. Particles at L = 16 with 2 x 4096 samples, 12 seeds, are off the limit by a mean, of the depth, like
    1/L, and a standard deviation, of the samples, like M^-1/2. Their time is linear in both (``test_sampled``). It is
    extrapolated to an error of 1e-3, of which depth and samples each have their share: L and M grow until both parts
    are 1e-3 / sqrt 2. The limit itself is known to 1e-9 and better."""
    net, depth, seeds = tp.ResNet("tanh"), 16, 12
    exact = limit(net).outputs
    ours = best(lambda: limit(net), 5)

    def particles(seed: int) -> np.ndarray:
        return tp.train(net, TASK, tp.SGD(1.0), SCALE, depth, method="particles", samples=4096, batches=2,
                        seed=seed).outputs
    seconds = best(lambda: particles(0), 3)
    off = np.array([particles(seed) - exact for seed in range(seeds)])
    spread = float(np.sqrt(np.mean(np.var(off, axis=0, ddof=1))))
    bias = float(np.sqrt(np.mean(np.mean(off, axis=0) ** 2 - np.var(off, axis=0, ddof=1) / seeds)))
    deeper, more = bias * np.sqrt(2) / EQUAL, 2 * (spread / EQUAL) ** 2
    ratio = seconds * deeper * more / ours
    record("particles, tanh, T = 4, L = 16, M = 8192", f"{seconds:.2f} s, depth {bias:.1e}, samples {spread:.1e}",
           "printed")
    record("particles / infinite depth, at error 1e-3",
           f"{seconds * deeper * more:.0f} s (L = {depth * deeper:.0f}, M = {8192 * more:.0f}) / {1e3 * ours:.0f} ms = "
           f"{ratio:.0f}", ">= 100")
    assert ratio >= 100
