"""Slopes of valleys, of responses and of distances, on numbers whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tpcalc import Adam, DepthScaling, ResNet, methods, train
from tpcalc.figures.depthwise.block_readouts import NET
from tpcalc.figures.depthwise.settings import same_dynamics
from tpcalc.figures.curve import Curve
from tpcalc.figures.figure import Sizes
from tpcalc.figures.images import Images, Patches, labeled_images
from tpcalc.figures.tp6.diversity import FeatureDistances, powers_of_distances
from tpcalc.figures.tp6.transformers import costs_off_best, power_of_depth
from tpcalc.figures.tp6.two_matrices import response_slope, valley_slope
from tpcalc.figures.trainings import StartedAtZero

X = np.linspace(-3, 3, 7)


@given(st.floats(-2.5, -0.5), st.floats(-0.5, 0.5), st.floats(-0.5, 0.5))
def test_a_valley_has_its_slope(slope: float, x0: float, y0: float) -> None:
    """A steep quadratic across a line, a flat one along it, around a point that is no grid point."""
    u, v = X[None, :] - x0, X[:, None] - y0
    losses = np.exp((v - slope * u) ** 2 + 0.05 * (u + slope * v) ** 2)
    assert valley_slope(X, X, losses) == pytest.approx(slope, rel=0.02)


def test_a_valley_is_told_from_its_mirror() -> None:
    losses = np.exp((X[:, None] + 2 * X) ** 2 + 0.1 * X**2)
    assert valley_slope(X, X, losses) < -1.8 and valley_slope(X, X, losses[:, ::-1]) > 1.8
    blown = np.where(X[:, None] + X > 3, np.inf, losses)
    assert valley_slope(X, X, blown) == pytest.approx(valley_slope(X, X, losses), rel=0.1)
    assert np.isnan(valley_slope(X[:2], X[:2], losses[:2, :2]))


def test_updates_multiply_in_shallow_networks_and_add_in_deep_ones() -> None:
    """At infinite width, where the updates of all steps go far; a single step's add at any depth."""
    pytest.importorskip("sklearn")
    net, toy = ResNet("abs", "mlp", norm="layer"), Sizes("toy")
    shallow, deep = (response_slope(toy, net, depth, 0.25, 0.25, 80) for depth in (2, 32))
    assert shallow == pytest.approx(-2, abs=0.3) and shallow < deep - 0.2 < -1
    assert response_slope(toy, net, 2, 0.25, 0.25, 1) == pytest.approx(-1, abs=0.2)


def test_exponents_of_distances() -> None:
    eps = [1 / 16, 1 / 8, 1 / 4, 1 / 2]
    found = powers_of_distances(eps, np.array([[np.sqrt(eps), 3 * np.power(eps, 0.6)]]))
    assert found.shape == (1, 2) and found[0] == pytest.approx([0.5, 0.6])


def test_distances_are_those_of_a_run() -> None:
    pytest.importorskip("sklearn")
    eps = (0.25, 0.5)
    net, opt, data = ResNet("relu"), Adam(0.5, eps=1e-8), Images(steps=4, batch=4)
    one = FeatureDistances(net, opt, DepthScaling(), 8, 8, data, 1, (0, 3), eps)
    run = train(one.problem(4), method=methods.Dense(seed=1, dtype="float32"), keep_nodes="all")
    known = [run.feature_difference((t, 0), 0.25, e) for t in (0, 3) for e in eps]
    assert one.numbers() == pytest.approx(known, rel=1e-5)


def test_matrices_start_at_zero() -> None:
    """Outputs are then those of a network without blocks, at first alone."""
    pytest.importorskip("sklearn")
    one = StartedAtZero(NET, Adam(0.5, eps=1e-8), DepthScaling(), 2, 8, Images(steps=3, batch=4), 1, ("W4",))
    run = one.run(3)
    weights = run.initial_weights()
    x = one.data.task(1).inputs[0] @ weights["U"]
    assert np.allclose(run.outputs[0], x @ weights["nV"].T / 8, atol=1e-6) and not np.any(weights["W4"])
    x = one.data.task(1).inputs[2] @ weights["U"]
    assert not np.allclose(run.outputs[2], x @ weights["nV"].T / 8, atol=1e-2)


def test_patches_are_where_they_belong() -> None:
    pytest.importorskip("sklearn")
    task, whole = Patches(steps=2, batch=3).task(5), Images(steps=2, batch=3).task(5)
    images = whole.inputs.reshape(2, 3, 8, 8)
    assert task.inputs.shape == (2, 3, 16, 20) and np.mean(np.sum(task.inputs**2, -1)) == pytest.approx(1, abs=0.2)
    for position, (row, column) in enumerate(np.ndindex(4, 4)):
        patch = images[:, :, 2 * row:2 * row + 2, 2 * column:2 * column + 2].reshape(2, 3, 4)
        assert np.allclose(task.inputs[:, :, position, :4] * np.sqrt(2), 4 * patch)
        assert np.argmax(task.inputs[0, 0, position, 4:]) == position
    assert np.array_equal(task.targets[:, :, 7], whole.targets)
    with pytest.raises(ValueError, match="divisible by 3"):
        Patches(steps=2, batch=3, grid=3).task(0)
    assert len(labeled_images("digits")[0]) == 1797


def curve(octaves: list[float]) -> Curve:
    """Parabolas of two seeds with their minima at powers of 2, sizes 4 and 16."""
    rates = 2.0 ** np.arange(-4.0, 5)
    return Curve((4, 16), rates, np.array([[[(np.log2(rate) - low) ** 2] * 2 for rate in rates] for low in octaves]))


def test_the_power_of_the_depth() -> None:
    falls, grows = power_of_depth(curve([1.0, 0.0])), power_of_depth(curve([0.0, 1.0]))
    assert falls.value == pytest.approx(-0.5) and grows.value == pytest.approx(0.5)


def test_sensitivity_is_that_of_two_octaves() -> None:
    assert costs_off_best(curve([0.0, 1.0]).losses) == pytest.approx([4, 4])
    assert costs_off_best(0.1 * curve([0.0, 1.0]).losses) == pytest.approx([0.4, 0.4])


def test_dynamics_that_depend_on_the_depth_are_told() -> None:
    """Settings, depths, seeds, steps."""
    steps = np.linspace(2, 1, 16)
    settings = np.array([1.0, 1.5, 2.0])[:, None, None, None] * steps + 0.01 * np.arange(3)[:, None]
    alike = np.repeat(settings, 2, axis=1)
    assert same_dynamics("rate", alike).agrees is True
    alike[:, 1] += 3
    assert same_dynamics("rate", alike).agrees is False
