"""Digits that were found before, by scripts of others: each is computed anew, or measured on plain arrays."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.horizon import power_law
from tests.support.plain.linear_streams import descend, flow


@pytest.mark.parametrize("z, value, digits", [(0.1, 0.276843, 7e-7), (0.2, 0.58608, 9e-6), (0.3, 0.9737, 5e-4)])
def test_the_curve_at_one_half(z: float, value: float, digits: float) -> None:
    """No closed form is known: steps of gradient descent that are halved twice, with a loss derivative that stays."""
    def at(steps: int) -> float:
        far = 1e6
        task = tp.Task(np.ones(steps + 1), np.full(steps + 1, far))
        run = tp.train(tp.ResNet(), task, tp.SGD(z / steps / far), tp.DepthScaling(), depth=tp.oo)
        return float(run.outputs.ravel()[-1])

    coarse, middle, fine = map(at, (8, 16, 32))
    once, twice = 2 * middle - coarse, 2 * fine - middle
    assert abs((4 * twice - once) / 3 - value) < 2 * digits


@pytest.mark.parametrize("a, b, constant, linear", [(1.5, 2.2, 0.444, 0.318), (1.3, 1.8, 0.381, 0.278)])
def test_powers_of_rates_in_data(a: float, b: float, constant: float, linear: float) -> None:
    assert abs(power_law(a, b).x - constant) < 6e-4 and abs(power_law(a, b, "linear").x - linear) < 6e-4


@pytest.mark.parametrize("part, left", [(0.5, 0.9845), (4, 0.8826)])
def test_what_noise_leaves_of_initial_weights_on_a_sphere(part: float, left: float) -> None:
    """(1 + g^2 r / n)^(-T/2) at g = 1/4, r = 1, after T = n/2 and 4n steps along noise: the law, then matrices."""
    n, g, rng = 64, 0.25, np.random.default_rng(0)
    steps = int(part * n)
    assert abs((1 + g**2 / n) ** (-steps / 2) - left) < 6e-5
    found = []
    for _ in range(12):
        w = first = rng.normal(size=(n, n)) / n**0.5
        radius = np.linalg.norm(w)
        for _ in range(steps):
            u, v = rng.normal(size=(2, n))
            w = w - g * np.outer(u, v) / np.linalg.norm(u) / np.linalg.norm(v)
            w *= radius / np.linalg.norm(w)
        found.append(np.sum(w * first) / radius**2)
    assert abs(np.mean(found) - left) < 3 * np.std(found) / 12**0.5 + 2e-4


def test_decay_at_the_balance_is_half_a_squared_angle_over_the_rate() -> None:
    """wd = eta^2 / (2 lr), so that eta ~ T^-x makes tau / T go like T^(2x - 1)."""
    found = tp.timescale(0.001, 0.02, 1000)
    assert found.angle is not None and abs(found.angle**2 / (2 * 0.001) / 0.02 - 1) < 1e-4
    shorter, longer = (tp.timescale(0.001, 0.02 * times, round(1000 / times**1.5)) for times in (1, 0.25))
    assert abs(np.log(longer.share / shorter.share) / np.log(8) - (2 / 3 - 1)) < 1e-3  # wd ~ T^(-2/3), x = 1/3


@pytest.mark.parametrize("d", (3, 4, 8))
def test_best_risks_in_units_of_least_squares(d: int) -> None:
    """At 2048 steps; of rates like 1/t none is known to be small enough there."""
    found = tp.long_horizon(tp.ResNet(), tp.Stream(np.eye(d), np.eye(d)[0], 0.5), tp.SGD(), tp.DepthScaling(1, 0))
    risks = [found.best(kind, 1, 2048).risk for kind in ("constant", "linear")]
    constant, linear = (one.risk / one.least_squares for one in risks)
    assert 2.2 < constant < 2.65 and 1.40 < linear < 1.52
    with pytest.raises(tp.NotCovered, match="no rate"):
        found.best("inverse", 1, 2048)


def test_stationary_risk_does_not_go_with_the_depth() -> None:
    """Labels' noise is one number for all layers: networks of 4 and 32 layers, and the theory of infinitely many."""
    teacher, rates = np.array([1.0, 0.0]), np.full(700, 0.005)
    found = tp.long_horizon(tp.ResNet(), tp.Stream(np.eye(2), teacher, 0.5), tp.SGD(), tp.DepthScaling(1, 0))
    theory = found.risk(rates, 1, 700)
    means, errors = [], []
    for depth in (4, 32):
        squares = np.sum((descend(depth, teacher, 0.5, rates, 1, 300, np.random.default_rng(depth)) - teacher) ** 2, 1)
        means.append(np.mean(squares))
        errors.append(np.std(squares) / 300**0.5)
    assert abs(means[1] / means[0] - 1) < 3 * np.hypot(*errors) / means[0] + 0.1
    assert abs(means[1] - theory.risk) < 3 * errors[1] + theory.error_estimate


def test_how_far_finite_networks_are_from_the_state_under_decay() -> None:
    """L (f - limit) at (1/2, 1/2), where initial matrices are forgotten."""
    half = tp.long_horizon(tp.ResNet(), tp.Stream([[1.0]], [1.0]), tp.SGD(), tp.DepthScaling())
    limit = half.stationary(0.5).weights[0]
    errors = [depth * (flow(depth, 64, 0.5, np.eye(1), np.ones(1), 0.2, 400, decay=0.5)[0] - limit)
              for depth in (16, 32)]
    assert np.allclose(errors, (-0.137, -0.138), atol=3e-3)
