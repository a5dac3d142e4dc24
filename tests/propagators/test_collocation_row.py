"""Rows carried through packed triangles by the kernel, against whole matrices and ``Element``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc.propagators import collocation_row, element
from tpcalc.propagators.collocation import CollocationPropagator, TooCoarse, solve_limit
from tpcalc.propagators.mesh import Mesh
from tpcalc.propagators.training import Trace, embedding_readout_memory, train_rows
from tpcalc.optimizers import SGD
from tpcalc.data import Task
from tpcalc.optimizers.sgd import rows_per_step, update_kernel

FIRST = Task((1, .8, -.6, 1.1), (1, -.7, .5, 1.2))
NAMES = ("P", "Q", "S", "R", "A", "B", "C0", "C1")


def collocate(task: Task, opt: SGD, mesh: Mesh, packed: bool, noise: float = 1.0, samples: str = "plain",
              train_embedding_readout: bool = False,
              guess: CollocationPropagator | None = None) -> tuple[Trace, CollocationPropagator]:
    rho, w = opt.memory(task.steps)
    b = rows_per_step(task, samples)
    w, rho = update_kernel(w, task, samples), np.repeat(rho, b)
    propagator = CollocationPropagator(mesh, b, noise, 0.9, rho, w, guess=guess, packed=packed)
    return train_rows(task, propagator, samples, lambda t: None,
                      embedding_readout_memory(train_embedding_readout, rho, w)), propagator


def assert_same(one: tuple[Trace, CollocationPropagator], two: tuple[Trace, CollocationPropagator],
                tolerance: float) -> None:
    size = max(1.0, float(np.max(np.abs(two[0].outputs))))
    np.testing.assert_allclose(one[0].outputs, two[0].outputs, rtol=0, atol=tolerance * size)
    if two[0].probe_outputs is not None:
        size = max(size, float(np.max(np.abs(two[0].probe_outputs))))
        np.testing.assert_allclose(one[0].probe_outputs, two[0].probe_outputs, rtol=0, atol=tolerance * size)
    for name in NAMES:
        first, second = getattr(one[1], name), getattr(two[1], name)
        np.testing.assert_allclose(first, second, rtol=0, atol=10 * tolerance * np.max(np.abs(second), initial=1e-300))
    for side, other in ((one[1].left, two[1].left), (one[1].right, two[1].right)):
        np.testing.assert_allclose(side.N, other.N, rtol=0, atol=10 * tolerance * np.max(np.abs(other.N), initial=1.0))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(1, 6), rate=st.sampled_from([0.1, 0.5, 1.0]),
       momentum=st.sampled_from([0.0, 0.5]), decay=st.sampled_from([0.0, 0.3]), train_embedding_readout=st.booleans(),
       noise=st.sampled_from([0.0, 0.8]), batch=st.integers(1, 3), probes=st.integers(0, 2))
def test_rows_are_those_of_whole_matrices(seed: int, steps: int, rate: float, momentum: float, decay: float,
                                          train_embedding_readout: bool, noise: float, batch: int, probes: int) -> None:
    """alpha = 1/2 (noise) and above (none), one row a step, plain or effective; batches and probes are passengers."""
    draw = np.random.default_rng(seed)
    task = Task(draw.uniform(-1, 1, (steps, batch, 2)), draw.uniform(-1, 1, (steps, batch, 1)),
                probes=draw.uniform(-1, 1, (probes, 2)) if probes else None)
    opt = SGD(rate, momentum, weight_decay=decay)
    how: Any = (noise, "plain" if batch == 1 else "effective", train_embedding_readout)
    try:
        whole = collocate(task, opt, Mesh.uniform(2, 14), False, *how)
    except TooCoarse:
        return
    assert_same(collocate(task, opt, Mesh.uniform(2, 14), True, *how), whole, 1e-12)


def test_a_guess_changes_nothing() -> None:
    mesh = Mesh.uniform(2, 14)
    _, coarse = collocate(FIRST, SGD(1.0), mesh, True)
    fine = mesh.with_nodes(16)
    assert_same(collocate(FIRST, SGD(1.0), fine, True, guess=coarse), collocate(FIRST, SGD(1.0), fine, False), 1e-12)


@pytest.mark.parametrize("rate, alpha", [
    (8.0, 0.5), pytest.param(64.0, 0.5, marks=pytest.mark.nightly), (8.0, 0.75)])
def test_large_learning_rates_take_both_roads(rate: float, alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel where it contracts, ``Element`` where it does not; whole matrices agree within the estimate."""
    noise, elements = float(alpha == 0.5), list[element.Element]()
    solve = element.Element.solve

    def counted(self: element.Element, *arguments: Any) -> element.Solved | None:
        elements.append(self)
        return solve(self, *arguments)

    monkeypatch.setattr(element.Element, "solve", counted)
    limit = solve_limit(FIRST, SGD(rate), noise, 0.9, "plain")
    assert elements
    mesh = limit.propagator.mesh
    while True:
        try:
            whole, _ = collocate(FIRST, SGD(rate), mesh, False, noise)
            break
        except TooCoarse as coarser:
            mesh = mesh.cut(coarser.cuts)
    assert np.max(np.abs(whole.outputs)) > 4
    assert np.max(np.abs(limit.trace.outputs - whole.outputs)) < limit.error


def test_the_kernel_goes_on_after_an_element_that_is_solved_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    mesh, solved = Mesh((0.0, 0.02, 0.05, 0.45, 0.55, 0.95, 0.98, 1.0), 24), list[element.Element]()
    solve = element.Element.solve
    whole = collocate(FIRST, SGD(8.0), mesh, False)

    def counted(self: element.Element, *arguments: Any) -> element.Solved | None:
        solved.append(self)
        return solve(self, *arguments)

    monkeypatch.setattr(element.Element, "solve", counted)
    packed = collocate(FIRST, SGD(8.0), mesh, True)
    assert 0 < len(solved) < 8 * mesh.elements
    assert_same(packed, whole, 1e-10)


@pytest.mark.parametrize("samples", ["plain", "effective"])
def test_without_the_kernel_rows_are_the_same(samples: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No iteration is allowed: every element is solved directly, and stored in triangles."""
    draw = np.random.default_rng(3)
    batch = 1 if samples == "plain" else 2
    task = Task(draw.normal(size=(3, batch, 2)) / 2, draw.normal(size=(3, batch, 1)), probes=draw.normal(size=(2, 2)))
    opt, mesh = SGD(0.5, momentum=0.4, weight_decay=0.3), Mesh.uniform(2, 16)
    expected = collocate(task, opt, mesh, True, 0.8, samples)
    monkeypatch.setattr(element, "ITERATIONS", 0)
    assert_same(collocate(task, opt, mesh, True, 0.8, samples), expected, 1e-12)


def test_passengers_are_carried_as_a_basis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of as many dimensions as inputs have."""
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(7, 3)) @ draw.normal(size=(3, 10))
    weights, basis = collocation_row.spanned(rows)
    assert basis.shape == (3, 10)
    np.testing.assert_allclose(weights @ basis, rows, rtol=0, atol=1e-14 * np.max(np.abs(rows)))
    task = Task(draw.normal(size=(4, 30, 2)), draw.normal(size=(4, 30, 1)))
    calls: list[int] = []
    carry = collocation_row.kernel.sweep
    monkeypatch.setattr(collocation_row.kernel, "sweep", lambda *a: calls.append(1) or carry(*a))
    packed = collocate(task, SGD(0.3), Mesh.uniform(1, 16), True, samples="effective")
    monkeypatch.undo()
    assert len(calls) == 4 * 2 + 1 + 2 + 2  # rows, forward and backward, and two passengers, one at step 1
    assert_same(packed, collocate(task, SGD(0.3), Mesh.uniform(1, 16), False, samples="effective"), 1e-12)


def test_too_coarse_says_where() -> None:
    for packed in (True, False):
        with pytest.raises(TooCoarse) as caught:
            collocate(FIRST, SGD(6.0), Mesh.uniform(1, 12), packed)
        assert caught.value.step == 2 and all(0 < cut < 1 for cut in caught.value.cuts)


def test_too_coarse_beyond_what_is_solved_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of an element are tried by the kernel alone."""
    monkeypatch.setattr("tpcalc.propagators.collocation.LARGEST", 0)
    limit = solve_limit(FIRST, SGD(8.0), 1.0, 1.0, "plain")
    monkeypatch.undo()
    expected = solve_limit(FIRST, SGD(8.0), 1.0, 1.0, "plain")
    assert limit.propagator.mesh.elements > expected.propagator.mesh.elements
    np.testing.assert_allclose(limit.trace.outputs, expected.trace.outputs, rtol=0, atol=limit.error + expected.error)


def test_packed_is_for_one_row_a_step() -> None:
    rho, w = SGD(1.0).memory(4)
    with pytest.raises(ValueError, match="packed: got True with 2 rows a step"):
        CollocationPropagator(Mesh.uniform(1, 8), 2, 1.0, 1.0, rho, w, packed=True)


def scalars(steps: int) -> Task:
    rng = np.random.default_rng(1)
    return Task(0.7 * rng.normal(size=1000)[:steps], rng.normal(size=1000)[:steps])


@pytest.mark.parametrize("few, steps", [(12, 30), pytest.param(60, 240, marks=pytest.mark.slow)])
def test_long_runs_begin_like_short_ones(few: int, steps: int) -> None:
    """Causality; the short one by whole matrices."""
    net, opt, scale = tp.ResNet("linear"), SGD(0.3), tp.DepthScaling()
    run = tp.train(net, scalars(steps), opt, scale, tp.oo)
    mesh = Mesh.uniform(1, 20)
    rho, w = opt.memory(few)
    whole = train_rows(scalars(few), CollocationPropagator(mesh, 1, 1.0, 1.0, rho, w), "plain", lambda t: None)
    np.testing.assert_allclose(run.outputs[:few], whole.outputs, rtol=0, atol=1e-12)
    assert run.error_estimate < 1e-11
