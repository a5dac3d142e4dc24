"""Long training between kept rows: the bound holds against the exact solver, on random tasks, rates and optimizers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp
from tpcalc.kernels import collocation_span
from tpcalc.propagators import long_training
from tpcalc.propagators.element import ITERATIONS, SETTLED
from tpcalc.propagators.mesh import reference
from tpcalc.propagators.spanned import STAGNANT
from tpcalc.methods import Collocation, LongCollocation
from tpcalc.methods.long_collocation import MANY

ODE = tp.DepthScaling(0.75, 0.25)
SDE = tp.DepthScaling(0.5, 0.5)


def repeated(inputs: Any, targets: Any, steps: int, **options: Any) -> tp.Task:
    inputs, targets = np.asarray(inputs, dtype=float), np.asarray(targets, dtype=float)
    return tp.Task(np.repeat(inputs[None], steps, 0), np.repeat(targets[None], steps, 0), **options)


def random_task(seed: int, steps: int, batch: int, d_in: int, d_out: int, **options: Any) -> tp.Task:
    rng = np.random.default_rng(seed)
    inputs = rng.standard_normal((batch, d_in)) / np.sqrt(d_in)
    targets, probes = rng.standard_normal((batch, d_out)), rng.standard_normal((2, d_in))
    return repeated(inputs, targets, steps, probes=probes, **options)


def compared(problem: tp.Problem, tolerance: float) -> tuple[float, float, tp.Run]:
    """(error against the exact solver, what is said of it, the run)."""
    run = tp.train(problem, method=LongCollocation(tolerance=tolerance))
    exact = tp.train(problem, method=Collocation())
    assert exact.error_estimate < run.error_estimate
    assert run.probe_outputs is not None and exact.probe_outputs is not None
    error = max(np.max(np.abs(a - b)) for a, b in ((run.outputs, exact.outputs),
                                                   (run.probe_outputs, exact.probe_outputs)))
    return float(error), run.error_estimate, run


@settings(deadline=None, max_examples=4)
@given(st.integers(0, 10**6), st.floats(0.05, 0.6), st.sampled_from([SDE, ODE]), st.sampled_from([0.0, 0.5]),
       st.sampled_from([1e-3, 1e-5]))
def test_the_bound_holds(seed: int, rate: float, scale: tp.DepthScaling, momentum: float, tolerance: float) -> None:
    rng = np.random.default_rng(seed)
    batch, d_in = (int(rng.integers(1, 5)) for _ in range(2))
    task = random_task(seed, 14, batch, d_in, 1)
    opt = tp.SGD(rate * (1 - momentum), momentum=momentum)
    error, said, _ = compared(tp.Problem(tp.ResNet(), task, opt, scale, depth=tp.oo), tolerance)
    assert error <= said


@pytest.mark.parametrize("opt, loss, d_out", [
    (tp.SGD(0.4, momentum=0.6, nesterov=True), "square", 1), (tp.SGD([0.6] * 4 + [0.0] * 2 + [0.3] * 4), "square", 2),
    (tp.SGD(0.4, momentum=0.3, dampening=0.5), "logistic", 1)])
def test_optimizers_losses_and_outputs(opt: tp.SGD, loss: str, d_out: int) -> None:
    task = random_task(3, 10, 3, 4, d_out)
    if loss == "logistic":
        task = tp.Task(task.inputs, np.sign(task.targets), loss, task.probes)
    error, said, _ = compared(tp.Problem(tp.ResNet(), task, opt, SDE, depth=tp.oo), 1e-6)
    assert error <= said < 1e-2 and error < 1e-5


def test_rows_are_few_and_what_they_leave_out_is_counted() -> None:
    """Sixty steps are a dozen rows; a ledger that forgot what was left out would say less than the error."""
    task = random_task(1, 60, 4, 6, 1)
    trace, error, kept = long_training.train_spanned(task, tp.SGD(0.3), 1.0, 1.0, 1e-4, 60, lambda t: None)
    finer, _, more = long_training.train_spanned(task, tp.SGD(0.3), 1.0, 1.0, 1e-6, 60, lambda t: None)
    assert kept < more < 30
    assert 2 * trace.mismatch < np.max(np.abs(trace.outputs - finer.outputs)) < error < 0.1


def test_training_that_is_over_costs_nothing() -> None:
    """A thousand steps of which thirty learn; repeated inputs and inputs of zero norm are inputs."""
    task = repeated([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]], [1.0, 1.0, 2.0], 1000)
    steps: list[int] = []
    run = tp.train(tp.ResNet(), task, tp.SGD(0.6), SDE, tp.oo, method=LongCollocation(1e-6),
                   progress=lambda done, all: steps.append(done))
    assert steps == list(range(1, 1001))
    assert np.allclose(run.outputs[-1, :, 0], [1.0, 1.0, 0.0], atol=1e-5) and run.error_estimate < 1e-2


def test_zero_targets_stay_where_they_are() -> None:
    run = tp.train(tp.ResNet(), repeated([[1.0]], [0.0], 50), tp.SGD(1.0), SDE, tp.oo, method=LongCollocation())
    assert not run.outputs.any() and run.error_estimate == 0.0


def test_what_is_not_covered_is_refused_by_name() -> None:
    task = random_task(0, 5, 2, 2, 1)
    problem = tp.Problem(tp.ResNet(), task, tp.SGD(0.5), SDE, depth=tp.oo)
    fresh = tp.Task([1.0, 0.5] * 600, [1.0, 0.3] * 600)
    for changed, said in (
            (replace(problem, task=fresh), "task: got 1200 steps, of batches that differ"),
            (replace(problem, task=fresh), "takes about 7e+12 floating-point operations and 1.4 GB"),
            (replace(problem, opt=tp.SGD(0.5, weight_decay=0.1)), "without weight decay"),
            (replace(problem, opt=tp.Adam(0.1, eps=0.1)), "tp.SGD"),
            (replace(problem, net=tp.ResNet("tanh")), "tanh"),
            (replace(problem, net=tp.ResNet(train_embedding_readout=True)), "train_embedding_readout"),
            (replace(problem, depth=8), "depth 8")):
        with pytest.raises(ValueError) as caught:
            tp.train(changed, method="long_collocation")
        assert said in str(caught.value), said
    with pytest.raises(ValueError, match="^keep_nodes: got 'all'"):
        tp.train(problem, method="long_collocation", keep_nodes="all")
    with pytest.raises(ValueError, match="^rows: got 2; at step . of 5 more are needed"):
        tp.train(problem, method=LongCollocation(rows=2))
    with pytest.raises(ValueError, match="long_collocation"):
        tp.train(problem, method=LongCollocation()).forward_covariance


def test_what_blows_up_is_a_divergence() -> None:
    task = repeated([[1.0, 0.5]], [1.0], 400)
    with pytest.raises(tp.Divergence):
        tp.train(tp.ResNet(), task, tp.SGD(30.0), SDE, tp.oo, method=LongCollocation())
    with pytest.raises(tp.Divergence):
        tp.train(tp.ResNet(), task, tp.SGD(0.5), tp.DepthScaling(0.25, 0.5), tp.oo, method=LongCollocation())


def test_auto_takes_it_where_the_exact_one_would_take_an_hour() -> None:
    def chosen(steps: int, change: float = 0.0) -> str | None:
        task = repeated([[1.0]], [1.0], steps)
        inputs = task.inputs.copy()
        inputs[0] += change
        return tp.methods.table(tp.Problem(tp.ResNet(), tp.Task(inputs, task.targets), tp.SGD(0.1), SDE,
                                           depth=tp.oo)).chosen

    assert [chosen(MANY), chosen(MANY + 1), chosen(MANY + 1, 0.5)] == ["collocation", "long_collocation", "collocation"]


@pytest.mark.slow
@pytest.mark.parametrize("seed, rate, scale", [(0, 0.05, SDE), (2, 0.3, ODE)])
def test_the_bound_holds_after_500_steps(seed: int, rate: float, scale: tp.DepthScaling) -> None:
    task = random_task(seed, 500, 4, 2, 1)
    error, said, _ = compared(tp.Problem(tp.ResNet(), task, tp.SGD(rate), scale, depth=tp.oo), 1e-5)
    assert error <= said < 1e-2


def test_what_elements_leave_is_relative_to_the_outputs() -> None:
    training = long_training._Training(random_task(1, 3, 2, 2, 1), tp.SGD(0.3), 1.0, 1.0, 1e-4, 9, 1)
    training.left_out.path = 1.0
    assert training._round_off(10.0) == pytest.approx(10 * training._round_off(1.0)) and training._round_off(1.0) > 0


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_rows_are_settled_relative_to_their_size(size: float) -> None:
    """y' = y W is linear in the row: a thousand million times as large, the row is solved as well."""
    rng, m, k = np.random.default_rng(0), 3, 2
    points, _, integral = reference(12)
    along = 1 + points[:, None, None]
    on_p, on_s = (rng.normal(size=shape) + along * rng.normal(size=shape) for shape in ((m, m + 2 * k), (k, 2 * k)))
    updates, start = rng.normal(size=(k, m)), rng.normal(size=m + k)

    def solved(size: float) -> np.ndarray:
        y, c = np.repeat(size * start[None], 12, axis=0), np.empty((12, k))
        assert collocation_span.element(size * start, y, m, on_p, on_s, updates, points, integral, 0.1, ITERATIONS,
                                        SETTLED, STAGNANT, c)
        return y

    np.testing.assert_allclose(solved(size) / size, solved(1.0), rtol=0, atol=1e-13)
