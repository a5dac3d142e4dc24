"""What cannot be done is said before any work: too large, too long, without a direction."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from reference.particles import run_particles
from support.interpreted import interpreted
from tpcalc.interpreters import run_program

NET, OPT, SCALE = tp.ResNet(), tp.SGD(0.5), tp.DepthScaling()
TASK = tp.Task([1.0, 0.5], [1.0, -1.0])
HUGE = 10**400


def begun(*at: int) -> None:
    raise AssertionError("work has begun")


@pytest.mark.parametrize("call, name", [
    (lambda: tp.train(NET, TASK, OPT, SCALE, HUGE, progress=begun), "depth"),
    (lambda: tp.train(NET, TASK, OPT, SCALE, 2, HUGE, progress=begun), "width"),
    (lambda: tp.train(NET, TASK, OPT, SCALE, sp.Integer(10)**5000, progress=begun), "depth"),
    (lambda: tp.train(tp.ResNet("tanh"), TASK, OPT, SCALE, 2, samples=HUGE, progress=begun), "samples"),
    (lambda: tp.train(tp.ResNet("tanh"), TASK, OPT, SCALE, 2, batches=HUGE, progress=begun), "batches"),
    (lambda: tp.train(tp.ResNet("tanh"), TASK, OPT, SCALE, 2, seed=HUGE, progress=begun), "seed"),
    (lambda: tp.convergence(NET, TASK, OPT, SCALE, [2, HUGE], progress=begun), "depths"),
    (lambda: tp.transfer(NET, TASK, OPT, SCALE, [2, HUGE], [1.0], progress=begun), "depths"),
    (lambda: tp.recipe(depth=HUGE), "depth"), (lambda: tp.ResNet(block="mlp", matrices=HUGE), "matrices"),
    (lambda: tp.ResNet(block="mlp", matrices=10**6), "matrices"),
    (lambda: tp.program(NET, OPT, SCALE, d_out=HUGE), "d_out"),
    (lambda: tp.DepthScaling(branch=HUGE), "branch"), (lambda: tp.DepthScaling(base_depth=HUGE), "base_depth"),
    (lambda: tp.SGD(HUGE), "lr"), (lambda: tp.Task([HUGE], [1.0]), "inputs"),
    (lambda: tp.train(NET, TASK, OPT, tp.DepthScaling(HUGE), 8, progress=begun), "alpha"),
    (lambda: tp.train(NET, TASK, OPT, tp.DepthScaling(-500, 501), 8, progress=begun), "alpha"),
    (lambda: tp.train(NET, TASK, OPT, tp.DepthScaling(500, -499), 8, progress=begun), "alpha"),
    (lambda: tp.recursion(tp.kets(tp.program(NET, OPT, SCALE))).compile()(HUGE, [1.0], [1.0]), "depth")])
def test_numbers_beyond_counting_are_refused(call: Callable[[], Any], name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}.*(given|expected)") as caught:
        call()
    assert len(str(caught.value)) < 800


LONG = tp.Task(np.ones(10**5), np.ones(10**5))
FRESH = tp.Task(np.linspace(0.1, 1, 10**5), np.ones(10**5))  # of one batch at every step few rows are kept
WIDE = tp.Task(np.ones((2, 10**5, 1)), np.ones((2, 10**5, 1)))


@pytest.mark.parametrize("call", [
    lambda: tp.train(NET, TASK, OPT, SCALE, 10**12, progress=begun),
    lambda: tp.train(NET, TASK, OPT, SCALE, 10**12, method="coefficients", progress=begun),
    lambda: tp.train(NET, TASK, OPT, SCALE, 10**12, 1, progress=begun),
    lambda: tp.train(NET, TASK, OPT, SCALE, 10, 10**9, progress=begun),
    lambda: tp.train(NET, TASK, OPT, SCALE, 10**12, 1, keep_nodes="all", progress=begun),
    lambda: tp.train(tp.ResNet("tanh"), TASK, OPT, SCALE, 10**12, progress=begun),
    lambda: tp.train(tp.ResNet("tanh"), TASK, OPT, SCALE, 2, 10**12, progress=begun),
    lambda: tp.train(NET, LONG, OPT, SCALE, 2, progress=begun),
    lambda: tp.train(NET, FRESH, OPT, SCALE, tp.oo, progress=begun),
    lambda: tp.train(tp.ResNet("tanh"), LONG, OPT, SCALE, tp.oo, progress=begun),
    lambda: tp.train(tp.ResNet("tanh"), WIDE, OPT, SCALE, tp.oo, progress=begun),
    lambda: tp.train(NET, WIDE, OPT, SCALE, tp.oo, keep_nodes="all", progress=begun),
    lambda: tp.train(NET, WIDE, OPT, SCALE, 3).forward_covariance,
    lambda: OPT.memory(10**8),
    lambda: run_particles(tp.program(NET, OPT, SCALE), {"T": 1, "L": 1}, {"xi": [1.0], "y": [1.0]}, 10**12),
    lambda: run_program(tp.program(NET, OPT, SCALE), {"T": 1, "L": 10**12}, {"xi": [1.0], "y": [1.0]}, 4)])
def test_what_cannot_fit_is_refused_before_any_work(call: Callable[[], Any]) -> None:
    with pytest.raises(MemoryError, match=r"needs .* GiB, this machine has .* GiB; \w+"):
        call()


def test_compiled_kernels_that_cannot_fit_are_refused() -> None:
    kernel = interpreted(tp.recursion(tp.kets(tp.program(NET, OPT, SCALE))))
    with pytest.raises(MemoryError, match=r"this kernel with T = 2, L = 10000000 needs .* GiB, this machine has"):
        kernel(10**7, [1.0, 0.5], [1.0, -1.0])
    found = kernel(8, [1.0, 0.5], [1.0, -1.0])
    total = sum(array.size for array in found.arrays.values())
    assert kernel.entries.subs({s: {"T": 2, "L": 8}[s.name] for s in kernel.entries.free_symbols}) == total


@pytest.mark.parametrize("depth, width", [(2, tp.oo), (2, 8), (tp.oo, tp.oo)])
@pytest.mark.parametrize("where", ["inputs", "probes"])
def test_inputs_without_a_direction_are_not_normalized(depth: Any, width: Any, where: str) -> None:
    inputs, probes = np.ones((2, 1, 2)), np.ones((1, 2))
    (inputs[1] if where == "inputs" else probes)[0] = 0
    task = tp.Task(inputs, np.ones((2, 1, 1)), probes=probes)
    with pytest.raises(ValueError, match=f"{where}: got an input of norm 0, at .* with norm='rms'"):
        tp.train(tp.ResNet("tanh", norm="rms"), task, OPT, SCALE, depth, width, progress=begun)
    tp.train(NET, task, OPT, SCALE, depth, width)


def test_hundreds_of_steps_at_infinite_depth_are_told() -> None:
    rng, told = np.random.default_rng(0), []
    task = tp.Task(rng.uniform(-1, 1, 120), rng.uniform(-1, 1, 120))
    run = tp.train(NET, task, tp.SGD(0.3), SCALE, tp.oo, progress=lambda *at: told.append(at))
    assert run.error_estimate < 1e-11 and len(told) >= 120 and set(told) == {(k, 120) for k in range(1, 121)}
