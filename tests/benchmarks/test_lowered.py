"""Lowered programs against loops written by hand for the same work, draws included, in one run."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest
from support.closeness import assert_close
from support.plain.dense_loop import tanh_mlp
from support.plain.particles_loop import tanh_particles
from support.timing import best

import tpcalc as tp

Record = Callable[[str, str, str], None]
SCALE = tp.DepthScaling()


def task(steps: int, batch: int) -> tp.Task:
    return tp.Task(*np.random.default_rng(0).normal(size=(2, steps, batch, 1)))


@pytest.mark.parametrize("opt", [tp.SGD(0.1), tp.Adam(0.1, eps=0.01)], ids=["SGD", "Adam"])
@pytest.mark.parametrize("width, depth, steps, batch, most", [(512, 32, 6, 16, 1.5), (64, 16, 4, 1, 3.0)], ids=str)
def test_dense_networks(record: Record, opt: Any, width: int, depth: int, steps: int, batch: int, most: float) -> None:
    net, given = tp.ResNet("tanh", block="mlp"), task(steps, batch)

    def ours() -> np.ndarray:
        return tp.train(net, given, opt, SCALE, depth, width=width, method="dense").outputs

    def by_hand() -> np.ndarray:
        return tanh_mlp(given, opt, SCALE, depth, width)

    assert_close(ours(), by_hand(), 1e-11, 1.0)
    repeats = 3 if width > 100 else 10
    ratio = best(ours, repeats) / (seconds := best(by_hand, repeats))
    record(f"dense tanh mlp, {type(opt).__name__}, n = {width}, L = {depth}, T = {steps}, batch {batch}, / by hand",
           f"{ratio:.2f} (by hand {seconds:.3f} s)", f"<= {most}")
    assert ratio <= most


def test_particles(record: Record) -> None:
    """8 batches of 4096, tanh, L = 64, T = 4."""
    given = task(4, 1)

    def ours() -> np.ndarray:
        return tp.train(tp.ResNet("tanh"), given, tp.SGD(0.5), SCALE, 64).outputs.ravel()

    def by_hand() -> np.ndarray:
        return tanh_particles(given.inputs.ravel(), given.targets.ravel(), 64, 4096, 1, 8, 0.5)

    values = by_hand()
    error = np.hypot(values.std(0, ddof=1), 1e-5) / np.sqrt(8)
    assert np.all(np.abs(ours() - values.mean(0)) < 8 * error + 3 / 4096)
    ratio = best(ours, 3) / (seconds := best(by_hand, 3))
    record("particles 8 x 4096, tanh, L = 64, T = 4, / by hand", f"{ratio:.2f} (by hand {seconds:.2f} s)", "<= 1.5")
    assert ratio <= 1.5
