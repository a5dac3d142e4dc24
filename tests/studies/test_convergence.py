"""``convergence`` and the orders it fits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tpcalc as tp
from support.closeness import assert_close
from tpcalc.studies.convergence import fit_order

NET, OPT, SCALE = tp.ResNet("linear"), tp.SGD(0.5), tp.DepthScaling()
TASK = tp.Task((1, 0.8, -0.6), (1, -0.7, 0.5))
DEPTHS = [8, 16, 32, 64]


@given(st.floats(-2, 2), st.floats(1e-6, 1e6), st.integers(3, 8))
def test_the_order_of_a_power_law_is_its_power(order: float, constant: float, count: int) -> None:
    depths = 2.0 ** np.arange(count)
    slope = fit_order(depths, constant * depths**-order)
    assert abs(slope.order - order) < 1e-12 and slope.uncertainty < 1e-12


def test_the_uncertainty_is_the_standard_error_of_the_slope() -> None:
    """Against the spread of fitted slopes over draws of known noise, to three standard deviations of that spread."""
    rng = np.random.default_rng(0)
    depths = 2.0 ** np.arange(6)
    slopes = [fit_order(depths, depths**-1.0 * np.exp(0.1 * rng.normal(size=6))) for _ in range(2000)]
    spread = np.std([slope.order for slope in slopes])
    stated = np.sqrt(np.mean([slope.uncertainty**2 for slope in slopes]))
    assert abs(stated / spread - 1) < 0.1


def test_orders_need_two_points_and_an_uncertainty_three() -> None:
    assert np.isnan(fit_order(np.array([2, 4]), np.array([1.0, 0.0])).order)
    two = fit_order(np.array([2, 4]), np.array([1.0, 0.25]))
    assert abs(two.order - 2) < 1e-12 and two.uncertainty == np.inf


def test_convergence_is_train_at_every_depth_beside_the_limit() -> None:
    found = tp.convergence(NET, TASK, OPT, SCALE, DEPTHS)
    values = np.array([tp.train(NET, TASK, OPT, SCALE, depth).outputs for depth in DEPTHS])
    limit = tp.train(NET, TASK, OPT, SCALE, tp.oo)
    assert found.limit is not None and found.distance is not None and found.reason == ""
    assert np.array_equal(found.depths, DEPTHS) and np.array_equal(found.outputs, values)
    assert np.array_equal(found.limit.outputs, limit.outputs)
    assert_close(found.losses, [TASK.losses(f) for f in values], 1e-15)
    assert_close(found.cauchy, np.abs(np.diff(values, axis=0)).max(axis=(1, 2, 3)), 1e-15)
    assert_close(found.distance, np.abs(values - limit.outputs).max(axis=(1, 2, 3)), 1e-15)
    assert found.limit_order is not None
    assert found.limit_order.order == fit_order(found.depths[2:], found.distance[2:]).order
    assert found.cauchy_order.order == fit_order(found.depths[2:], found.cauchy[1:]).order


def test_the_table_says_the_numbers() -> None:
    found = tp.convergence(NET, TASK, OPT, SCALE, DEPTHS)
    lines = found.table().splitlines()
    assert len(lines) == 1 + len(DEPTHS) + 3
    assert found.distance is not None
    for line, depth, distance in zip(lines[1:], DEPTHS, found.distance):
        fields = line.split()
        assert int(fields[0]) == depth and abs(float(fields[3]) / distance - 1) < 1e-3
    assert [row["depth"] for row in found.rows] == DEPTHS and np.isnan(found.rows[0]["cauchy"])


def test_without_a_limit_the_reason_is_said() -> None:
    found = tp.convergence(NET, TASK, tp.SGD(0.01), tp.DepthScaling(0.5, 0), DEPTHS)
    assert found.limit is None and found.distance is None and found.limit_order is None
    assert "a limit needs alpha >= 1/2 and alpha + gamma >= 1" in found.reason
    assert found.table().splitlines()[-1] == f"no limit: {found.reason}"


def test_an_executor_changes_nothing_and_progress_counts_depths() -> None:
    told: list[tuple[int, int]] = []
    with ThreadPoolExecutor(2) as pool:
        parallel = tp.convergence(NET, TASK, OPT, SCALE, DEPTHS, executor=pool, progress=lambda *at: told.append(at))
    assert np.array_equal(parallel.outputs, tp.convergence(NET, TASK, OPT, SCALE, DEPTHS).outputs)
    assert told == [(k, 4) for k in (1, 2, 3, 4)]


def test_the_plot_shows_changes_and_distances() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    found = tp.convergence(NET, TASK, OPT, SCALE, DEPTHS)
    ax = found.plot()
    changes, distances = (line.get_xydata() for line in ax.get_lines())
    assert_close(changes, np.stack([found.depths[1:], found.cauchy], axis=1), 1e-15)
    assert_close(distances, np.stack([found.depths, found.distance], axis=1), 1e-15)
    import matplotlib.pyplot as plt
    plt.close(ax.figure)


@pytest.mark.parametrize("depths, said", [
    ([16], "depths: got [16]; expected two or more growing depths"),
    ([], "depths: got []; expected two or more growing depths"),
    ([16, 8], "depths: got [16, 8]; expected two or more growing depths"),
    ([8, 8], "depths: got [8, 8]; expected two or more growing depths"),
    ([8, 2.5], "depths: got 2.5; expected a whole number of at least 1"),
    ([0, 8], "depths: got 0; expected a whole number of at least 1"),
    ([8, tp.oo], "depths: got oo; expected a whole number of at least 1"),
])
def test_depths_that_do_not_grow_are_refused(depths: Any, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        tp.convergence(NET, TASK, OPT, SCALE, depths)
    assert said in str(caught.value)


def test_a_finite_depth_that_blows_up_is_divergence() -> None:
    with pytest.raises(tp.Divergence, match="step") as caught:
        tp.convergence(NET, TASK, tp.SGD(1e160), tp.DepthScaling(0.5, 0), DEPTHS)
    assert caught.value.step is not None
