"""Gamma and C at doubling depths: the suprema against values asked for one by one, orders, the estimated limit."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.closeness import assert_close

import tpcalc as tp
from support.nightly import few_of
from tpcalc.studies.cauchy import _geometric
from tpcalc.studies.convergence import fit_order

NET, OPT, SCALE = tp.ResNet("linear"), tp.SGD(1.0), tp.DepthScaling()
TASK = tp.Task([1, 0.8, -0.6, 0.7], [1, -0.7, 0.5, -1])  # crossing is 0 before the fourth step
DEPTHS = [2, 4, 8, 16]


@pytest.fixture(scope="module")
def found() -> tp.studies.CauchyDifferences:
    return tp.studies.cauchy_differences(NET, TASK, OPT, SCALE, DEPTHS)


@pytest.fixture(scope="module")
def runs() -> list[tp.Run]:
    """The other exact reading, whose values are asked for one at a time."""
    return [tp.train(NET, TASK, OPT, SCALE, depth, method="reflection", keep_nodes="all") for depth in DEPTHS]


def test_gamma(found: tp.studies.CauchyDifferences, runs: list[tp.Run]) -> None:
    for k, t in product((2, 3), range(4)):
        L, run, half = DEPTHS[k], runs[k], runs[k - 1]
        times = np.arange(L + 1) / L
        for s, a, b in product(range(-1, t), (0, 1), (0, 1)):
            ours = np.array([[run.gamma(t, s, a, b, p, q) for q in times[1:]] for p in times])
            coarse = np.array([[half.gamma(t, s, a, b, p, q) for q in times[1:]] for p in times])
            at = (t, s + 1, a, b)
            assert_close(found.gamma.size[k][at], np.abs(ours).max(), 1e-12, 1)
            assert_close(found.gamma.slope[k][at], L * np.abs(np.diff(ours, axis=0)).max(), 1e-12, L)
            assert_close(found.gamma.change[k - 1][at], np.abs(ours - coarse).max(), 1e-12, 1)
        assert np.all(np.isnan(found.gamma.size[k][t, t + 1:]))


def test_c(found: tp.studies.CauchyDifferences, runs: list[tp.Run]) -> None:
    for k, t in product((2, 3), range(4)):
        L = DEPTHS[k]
        times = np.arange(1, L + 1) / L
        for s, a in product(range(t + 1), (0, 1)):
            ours, coarse = (np.array([run.c(t, s, a, p) for p in times]) for run in (runs[k], runs[k - 1]))
            assert_close(found.c.size[k][t, s, a], np.abs(ours).max(), 1e-12)
            assert_close(found.c.slope[k][t, s, a], L * np.abs(np.diff(ours)).max(), 1e-12, L * ours)
            assert_close(found.c.change[k - 1][t, s, a], np.abs(ours - coarse).max(), 1e-12, ours)


def test_crossing_the_own_layer(found: tp.studies.CauchyDifferences, runs: list[tp.Run]) -> None:
    L, run = DEPTHS[-1], runs[-1]
    assert np.nanmax(found.crossing[-1][3]) > 0.01
    for t, s in ((1, 0), (2, 1), (3, 0), (3, 1), (3, 2)):
        forward = [run.gamma(t, s, 0, 1, (l - 1) / L, (l + 1) / L) - run.gamma(t, s, 0, 1, (l - 1) / L, l / L)
                   for l in range(1, L)]
        backward = [run.gamma(t, s, 1, 0, l / L, l / L) - run.gamma(t, s, 1, 0, l / L, (l - 1) / L)
                    for l in range(2, L + 1)]
        for a, values in ((0, forward), (1, backward)):
            assert_close(found.crossing[-1][t, s, a], L * np.abs(values).max(), 1e-12, L)


def test_the_constant_is_the_smallest_that_all_claims_allow(found: tp.studies.CauchyDifferences) -> None:
    L = np.array(DEPTHS, dtype=float)
    for t, constant in enumerate(found.constants()):
        sides = [found.gamma.size, found.gamma.slope, found.c.size, found.c.slope, found.crossing,
                 *(change * L[1:].reshape(-1, *(1,) * (change.ndim - 1))
                   for change in (found.gamma.change, found.c.change))]
        assert constant == max(np.nanmax(side[:, :t + 1]) if np.isfinite(side[:, :t + 1]).any() else 0.0
                               for side in sides)


@pytest.mark.parametrize("alpha, order", few_of([(0.5, 1.0), (0.75, 0.5), (1.0, 1.0)], (0.5, 1.0), (0.75, 0.5)))
def test_orders(alpha: float, order: float) -> None:
    scale = tp.DepthScaling(alpha, 1 - alpha)
    found = tp.studies.cauchy_differences(NET, TASK, tp.SGD(0.25), scale, [2**k for k in range(4, 10)])
    for slope in (found.gamma_order, found.c_order, found.output_order):
        assert abs(slope.order / order - 1) < 0.12


def test_the_claimed_constant_stays_where_the_rate_is_one_and_grows_where_not() -> None:
    def growth(alpha: float) -> float:
        depths = [2**k for k in range(4, 9)]
        found = tp.studies.cauchy_differences(NET, TASK, OPT, tp.DepthScaling(alpha, 1 - alpha), depths)
        scaled = found.depths[1:] * np.nanmax(found.c.change, axis=(1, 2, 3))
        return float(scaled[-1] / scaled[-2])

    assert 0.95 < growth(0.5) < 1.1 < 1.3 < growth(0.75) < 1.5  # 2^0, 2^(1/2)


@pytest.mark.parametrize("alpha", [0.5, 0.75, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_limit_is_that_of_the_solver_in_layer_time(alpha: float, seed: int) -> None:
    rng, scale = np.random.default_rng(seed), tp.DepthScaling(alpha, 1 - alpha)
    task = tp.Task(rng.uniform(-1, 1, 3), rng.uniform(-1, 1, 3))
    found = tp.studies.cauchy_differences(NET, task, OPT, scale, [2**k for k in range(4, 9)])
    true = tp.train(NET, task, OPT, scale, tp.oo).outputs
    assert found.limit is not None
    error = np.abs(found.limit - true).max()
    assert error < 3 * found.limit_error and error < 0.1 * np.abs(found.outputs[-1] - true).max()


@settings(max_examples=50, deadline=None)
@given(st.floats(0.2, 2), st.floats(-2, 2), st.floats(0.1, 3))
def test_a_geometric_series_is_summed(order: float, limit: float, constant: float) -> None:
    outputs = limit + constant * 2.0 ** (-order * np.arange(5)).reshape(-1, 1, 1, 1)
    found, error = _geometric(outputs)
    assert found is not None
    size = 1e-15 * (abs(limit) + constant) / (constant * 2 ** (-4 * order) * (2**order - 1) ** 2)
    assert abs(found.item() - limit) <= 100 * size * constant and error <= 1000 * size * constant


def test_the_error_goes_on_like_the_changes() -> None:
    """Ratios 2 and 5/2: estimates 2 and 11/6, whose difference goes on as 1/6 (2/5 + 4/25 + ...) = 1/9."""
    limit, error = _geometric(np.array([0, 1, 1.5, 1.7]).reshape(-1, 1, 1, 1))
    assert limit is not None and abs(limit.item() - 11 / 6) < 1e-14 and abs(error - 1 / 9) < 1e-14


def test_orders_are_those_of_the_deeper_half(found: tp.studies.CauchyDifferences) -> None:
    for slope, change in ((found.gamma_order, found.gamma.change), (found.c_order, found.c.change),
                          (found.output_order, np.diff(found.outputs, axis=0))):
        largest = np.nanmax(np.abs(change), axis=tuple(range(1, change.ndim)))
        assert slope == fit_order(found.depths[2:], largest[1:])


def test_no_limit_where_changes_grow_and_none_needed_where_there_are_none() -> None:
    growing = np.array([0.0, 1, 3, 7, 15]).reshape(-1, 1, 1, 1)
    assert _geometric(growing) == (None, np.inf)
    assert _geometric(np.ones((4, 1, 1, 1))) == (1.0, 0.0)
    found = tp.studies.cauchy_differences(NET, TASK, tp.SGD(0.1), tp.DepthScaling(0.5, 0.25), [4, 8, 16, 32])
    assert found.limit is None


def test_batches_and_outputs_are_maxima_over_them() -> None:
    """Two equal inputs a step at half weight each are one input."""
    rng = np.random.default_rng(1)
    inputs, targets = rng.uniform(-1, 1, (3, 1, 2)), rng.uniform(-1, 1, (3, 1, 2))
    one, two = (tp.studies.cauchy_differences(NET, tp.Task(np.repeat(inputs, n, 1), np.repeat(targets, n, 1)), OPT,
                                              SCALE, [2, 4, 8, 16]) for n in (1, 2))
    assert_close(two.outputs[:, :, :1], one.outputs, 1e-12)
    assert_close(np.nan_to_num(two.c.change), np.nan_to_num(one.c.change), 1e-12)
    assert_close(np.nan_to_num(two.gamma.size[:, :, 0]), np.nan_to_num(one.gamma.size[:, :, 0]), 1e-12)


def test_held_out_inputs_are_left_out() -> None:
    probed = tp.Task(TASK.inputs, TASK.targets, probes=[[2.0]])
    assert np.array_equal(tp.studies.cauchy_differences(NET, probed, OPT, SCALE, DEPTHS).outputs,
                          tp.studies.cauchy_differences(NET, TASK, OPT, SCALE, DEPTHS).outputs)


def test_progress_counts_depths() -> None:
    told: list[tuple[int, int]] = []
    tp.studies.cauchy_differences(NET, TASK, OPT, SCALE, DEPTHS, progress=lambda *at: told.append(at))
    assert told == [(k, 4) for k in (1, 2, 3, 4)]


@pytest.mark.parametrize("depths, said", [
    ([4, 8, 16], "depths: got [4, 8, 16]; expected four or more, each twice the one before"),
    ([4, 8, 16, 24], "depths: got [4, 8, 16, 24]; expected four or more, each twice the one before"),
    ([4, 8, 16, tp.oo], "depths: got oo; expected a whole number of at least 1"),
])
def test_other_depths_are_refused(depths: Any, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        tp.studies.cauchy_differences(NET, TASK, OPT, SCALE, depths)
    assert said in str(caught.value)


@pytest.mark.parametrize("wrong, said", [
    (dict(net="linear"), "net: got 'linear'; expected a tp.ResNet"),
    (dict(net=tp.ResNet("tanh")), "tp.studies.cauchy_differences"),
    (dict(task=[1.0]), "task: got [1.0]; expected a tp.Task"),
    (dict(opt=tp.SignSGD(1.0)), "expected a tp.SGD"),
    (dict(scale=0.5), "scale: got 0.5; expected a tp.DepthScaling"),
])
def test_what_is_no_linear_training_is_refused(wrong: dict[str, Any], said: str) -> None:
    given = dict(net=NET, task=TASK, opt=OPT, scale=SCALE, depths=DEPTHS) | wrong
    with pytest.raises(ValueError) as caught:
        tp.studies.cauchy_differences(**given)
    assert said in str(caught.value)


def test_a_depth_that_blows_up_is_divergence() -> None:
    with pytest.raises(tp.Divergence, match="step"):
        tp.studies.cauchy_differences(NET, TASK, tp.SGD(1e160), SCALE, DEPTHS)
