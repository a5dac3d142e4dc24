"""Two readings of one problem agree wherever both apply."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import tpcalc as tp
from support.closeness import assert_close
from support.propagators import reflect
from tpcalc.testing import DrawnProblem, problems

NET = tp.ResNet("linear")
# round-off of order-one solutions over at most 24 layers and 18 rows; the two readings share no intermediate result
TOLERANCE = 1e-11


@given(problems(max_depth=24, max_steps=6, max_probes=2))
def test_coefficients_are_reflection(problem: DrawnProblem) -> None:
    """Outputs, probes, and the covariances of both passes at every node."""
    fast = tp.train(NET, *problem, keep_nodes="all")
    oracle = tp.train(NET, *problem, method="coefficients", keep_nodes="all")
    assert (fast.method, oracle.method) == ("reflection", "coefficients")
    assert_close(fast.outputs, oracle.outputs, TOLERANCE, problem.task.targets)
    if problem.task.probes is not None:
        assert_close(fast.probe_outputs, oracle.probe_outputs, TOLERANCE, problem.task.targets)
    assert_close(fast.forward_covariance, oracle.forward_covariance, TOLERANCE)
    assert_close(fast.backward_covariance, oracle.backward_covariance, TOLERANCE)


@settings(max_examples=10)
@given(problems(max_depth=4, max_steps=4, max_batch=2, max_outputs=1, min_steps=2))
def test_gamma_and_c_of_coefficients_are_those_of_reflection(problem: DrawnProblem) -> None:
    """Lemma D.1's functions between nodes and layers of both sides, and at the ends."""
    fast = tp.train(NET, *problem, keep_nodes="all")
    oracle = tp.train(NET, *problem, method="coefficients", keep_nodes="all")
    steps, batch, depth = problem.task.steps, problem.task.batch, problem.depth
    rows = [(t, i) for t in range(steps) for i in range(batch)]
    nodes = [l / depth for l in range(depth + 1)]
    pairs = [(rows[-1], s) for s in rows[:-1]] + [(rows[0], rows[-1])]
    where = [(t, s, a, b, p, q) for t, s in pairs for a in (0, 1) for b in (0, 1) for p in nodes for q in nodes[1:]]
    assert_close([fast.gamma(*at) for at in where], [oracle.gamma(*at) for at in where], TOLERANCE)
    where_c = [(t, s, a, p) for t, s in pairs for a in (0, 1) for p in nodes]
    assert_close([fast.c(*at) for at in where_c], [oracle.c(*at) for at in where_c], TOLERANCE)


@given(problems(max_depth=24, max_steps=6, max_probes=2))
def test_effective_samples_are_plain_samples(problem: DrawnProblem) -> None:
    """One row for every output or one for every input: the same training, whichever has fewer rows."""
    plain, _ = reflect(*problem, "plain")
    effective, _ = reflect(*problem, "effective")
    assert_close(effective.outputs, plain.outputs, TOLERANCE, problem.task.targets)
    if problem.task.probes is not None:
        assert_close(effective.probe_outputs, plain.probe_outputs, TOLERANCE, problem.task.targets)


@settings(max_examples=15)
@given(problems(max_steps=3, max_probes=1, with_limit=True))
def test_effective_samples_are_plain_samples_at_infinite_depth(problem: DrawnProblem) -> None:
    """keep_nodes makes ``train`` use plain samples; without it, it takes the fewer rows."""
    task, opt, scale, _ = problem
    few = tp.train(NET, task, opt, scale, tp.oo)
    plain = tp.train(NET, task, opt, scale, tp.oo, keep_nodes="all")
    # both are solved to 1e-12 max(1, |f|)
    assert_close(few.outputs, plain.outputs, 4e-12, np.ones(1))
    if task.probes is not None:
        assert_close(few.probe_outputs, plain.probe_outputs, 4e-12, np.ones(1))


@given(problems(max_depth=24, max_steps=6, max_batch=1, max_probes=2))
def test_packed_kernel_is_block_kernel(problem: DrawnProblem) -> None:
    """One row a step: outputs, and everything both media know at every node."""
    depth, samples = problem.depth, problem.task.steps
    packed_trace, packed = reflect(*problem, "plain", packed=True)
    block_trace, block = reflect(*problem, "plain")
    assert_close(packed_trace.outputs, block_trace.outputs, TOLERANCE, problem.task.targets)
    if problem.task.probes is not None:
        assert_close(packed_trace.probe_outputs, block_trace.probe_outputs, TOLERANCE, problem.task.targets)
    lower = np.tril_indices(samples, -1)
    for name in ("P", "Q", "A", "B"):
        assert_close(getattr(packed, name), getattr(block, name)[:, lower[0], lower[1]], TOLERANCE, 1.0)
    lower = np.tril_indices(samples)
    for name in ("S", "R"):
        assert_close(getattr(packed, name), getattr(block, name)[:, lower[0], lower[1]], TOLERANCE)
    weight = problem.scale.multiplier(depth) ** 2
    for name in ("C0", "C1"):
        assert_close(getattr(packed, name), weight * getattr(block, name)[:, lower[0], lower[1]], TOLERANCE)


@pytest.mark.parametrize("batch, outputs", [(8, 1), (8, 8), (20, 3)])
def test_blocks_wide_enough_for_blas_agree_with_coefficients(batch: int, outputs: int) -> None:
    """More rows a step than the kernels handle in loops of their own; four steps, the fewest that use every product."""
    rng = np.random.default_rng(batch + outputs)
    task = tp.Task(rng.normal(size=(4, batch, 4)) / 2, rng.normal(size=(4, batch, outputs)),
                   probes=rng.normal(size=(9, 4)) / 2)
    opt, scale = tp.SGD([0.7, 0.4, 0.8, 1.0]), tp.DepthScaling(0.6, 0.3)
    oracle = tp.train(NET, task, opt, scale, 5, method="coefficients", keep_nodes="all")
    for samples in ("plain", "effective"):
        trace, _ = reflect(task, opt, scale, 5, samples)
        assert_close(trace.outputs, oracle.outputs, TOLERANCE)
        assert_close(trace.probe_outputs, oracle.probe_outputs, TOLERANCE)
    fast = tp.train(NET, task, opt, scale, 5, keep_nodes="all")
    assert_close(fast.forward_covariance, oracle.forward_covariance, TOLERANCE)
    assert_close(fast.backward_covariance, oracle.backward_covariance, TOLERANCE)
