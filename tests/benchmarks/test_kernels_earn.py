"""What each special kernel earns against the form that would do without it: seconds and memory, in one run.

A kernel stays where it is 1.3 times as fast or needs 1.5 times less memory at sizes that people have; the figures
stand in docs/architecture.md. ``python -m pytest -m bench -s tests/benchmarks/test_kernels_earn.py`` prints them.
"""

from __future__ import annotations

import tracemalloc
from typing import Any, Callable

import numpy as np
import pytest
from support.propagators import reflect
from support.timing import best

import tpcalc as tp
from tpcalc.methods import reflection as method
from tpcalc.propagators import reflection
from tpcalc.propagators.collocation import CollocationPropagator
from tpcalc.propagators.mesh import Mesh
from tpcalc.propagators.training import train_rows

SCALE, OPT = tp.DepthScaling(), tp.SGD(0.3)
Record = Callable[[str, str, str], None]
Solve = Callable[[], np.ndarray]


def peak(call: Solve) -> int:
    """Bytes of the arrays that a call holds at most."""
    tracemalloc.start()
    call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def earned(record: Record, what: str, simple: Solve, special: Solve, rounds: int) -> tuple[float, float]:
    """How many times as long, and how many times as much memory, the simple form takes; both give the same outputs."""
    assert np.max(np.abs(simple() - special())) < 1e-11
    slow, fast = map(min, zip(*((best(simple, 1), best(special, 1)) for _ in range(rounds))))
    time, memory = slow / fast, peak(simple) / peak(special)
    record(what, f"{1e3 * slow:.1f} ms / {1e3 * fast:.1f} ms = {time:.2f}, memory {memory:.2f}", "1.3 or 1.5")
    return time, memory


def task(steps: int, rows: int) -> tp.Task:
    """Batches that have as many rows a step; one input where that is 1."""
    rng = np.random.default_rng(steps)
    if rows == 1:
        return tp.Task(0.7 * rng.normal(size=steps), rng.normal(size=steps))
    return tp.Task(rng.normal(size=(steps, rows, 8)) / 8, rng.normal(size=(steps, rows, 1)))


def outputs(given: tp.Task, depth: int, packed: bool = False) -> Solve:
    return lambda: reflect(given, OPT, SCALE, depth, "plain", packed)[0].outputs


@pytest.mark.parametrize("steps, depth", [(4, 256), (16, 256), (64, 64), (200, 16)])
def test_packed_rows_against_whole_matrices_at_finite_depth(record: Record, steps: int, depth: int) -> None:
    """One row a step: ``reflection_row`` on triangles, ``reflection`` on matrices in blocks of one."""
    given = task(steps, 1)
    time, memory = earned(record, f"whole matrices / triangles, T = {steps}, L = {depth}", outputs(given, depth),
                          outputs(given, depth, True), 8 if steps < 100 else 3)
    assert memory > 1.5 if steps > 4 else time > 1.3


class Whole(type):
    """What makes a propagator of matrices where one of triangles is asked for."""

    def __call__(cls, depth: int, *physics: Any) -> reflection.ReflectionPropagator:
        return reflection.ReflectionPropagator(depth, 1, *physics)


class WholeMatrices(metaclass=Whole):
    pass


@pytest.mark.parametrize("steps, depth", [(4, 64), (16, 64), (4, 1024), (16, 1024), (64, 1024)])
def test_packed_rows_against_whole_matrices_in_a_whole_training(record: Record, monkeypatch: pytest.MonkeyPatch,
                                                                steps: int, depth: int) -> None:
    """``tp.train`` with each of the two."""
    given = task(steps, 1)

    def train(propagator: type) -> Solve:
        def solve() -> np.ndarray:
            monkeypatch.setattr(method, "PackedReflectionPropagator", propagator)
            return tp.train(tp.ResNet(), given, OPT, SCALE, depth, method="reflection").outputs
        return solve

    time, memory = earned(record, f"whole matrices / triangles in tp.train, T = {steps}, L = {depth}",
                          train(WholeMatrices), train(reflection.PackedReflectionPropagator), 8 if steps < 64 else 2)
    assert memory > 1.5
    assert time > 1.3 or depth < 1024


@pytest.mark.parametrize("steps", [5, 20, 80, 160])
def test_packed_layer_time_against_whole_matrices(record: Record, steps: int) -> None:
    """One row a step on one element of 18 nodes: the kernel on triangles, ``Element`` on matrices."""
    given, mesh, (rho, w) = task(steps, 1), Mesh.uniform(1, 18), OPT.memory(steps)

    def solve(packed: bool) -> np.ndarray:
        propagator = CollocationPropagator(mesh, 1, 1.0, 1.0, rho, w, packed=packed)
        return train_rows(given, propagator, "plain", lambda t: None).outputs

    time, memory = earned(record, f"whole matrices / triangles in layer time, T = {steps}", lambda: solve(False),
                          lambda: solve(True), 3 if steps < 160 else 1)
    assert time > 2
    assert memory > 1.5 or steps == 5


@pytest.mark.parametrize("steps, rows, depth", [(10, 2, 256), (10, 10, 64), (16, 8, 64)])
def test_compiled_blocks_against_numpy(record: Record, monkeypatch: pytest.MonkeyPatch, steps: int, rows: int,
                                       depth: int) -> None:
    """Below ``LARGE`` rows in all ``reflection`` does what ``reflection_block`` does in NumPy."""
    given = task(steps, rows)

    def numpy() -> np.ndarray:
        with monkeypatch.context() as patched:
            patched.setattr(reflection, "LARGE", 0)
            return outputs(given, depth)()

    assert earned(record, f"NumPy / compiled, {steps} steps of {rows} rows, L = {depth}", numpy, outputs(given, depth),
                  8)[0] > 1.3


@pytest.mark.parametrize("steps, rows, required", [(64, 4, 1.3), (10, 64, 1.0)])
def test_large_blocks_against_compiled_ones(record: Record, monkeypatch: pytest.MonkeyPatch, steps: int, rows: int,
                                            required: float) -> None:
    """From ``LARGE`` rows in all products with large matrices are all that counts, which NumPy does in place."""
    given = task(steps, rows)

    def compiled() -> np.ndarray:
        with monkeypatch.context() as patched:
            patched.setattr(reflection, "LARGE", 10**9)
            return outputs(given, 16)()

    assert earned(record, f"compiled / NumPy, {steps} steps of {rows} rows, L = 16", compiled, outputs(given, 16),
                  3)[0] > required
