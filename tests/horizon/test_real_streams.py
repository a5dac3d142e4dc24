"""Closed forms of long training beside networks in plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp
from tpcalc.horizon import end_to_end
from tpcalc.horizon.end_to_end import velocity
from tests.support.plain.linear_streams import descend, flow

TURNING = np.array([[1.5, 0.4], [0.4, 0.6]]), np.array([0.9, -1.1])


def horizon(covariance: object, teacher: object, noise: float = 0.0, scale: tp.DepthScaling = tp.DepthScaling(1, 0)
            ) -> tp.horizon.LongHorizon:
    return tp.long_horizon(tp.ResNet(), tp.Stream(covariance, teacher, noise), tp.SGD(0.05), scale)


@pytest.mark.parametrize("alpha", [1.0, 0.75])
def test_gradient_flow_of_a_covariance_that_turns_the_gradient(alpha: float) -> None:
    """Without initial matrices what is left is 1/L and the step; they cancel in what two depths and steps say."""
    found = horizon(*TURNING, scale=tp.DepthScaling(alpha, 1 - alpha)).flow([0.5, 1.5])
    for weights, steps in zip(found, (50, 150)):
        shallow, deep, fine = (flow(depth, 4, alpha, *TURNING, 0.01 / part, part * steps, initial=0.0)
                               for depth, part in ((32, 1), (64, 1), (64, 2)))
        assert np.max(np.abs(deep - weights)) > 1e-4
        assert np.max(np.abs(2 * deep - shallow + 2 * (fine - deep) - weights)) < 1e-4


def test_gradient_flow_beside_a_real_network_of_random_matrices() -> None:
    weights = horizon(*TURNING).flow([1.5])[0]
    errors = [np.max(np.abs(np.mean([flow(depth, 96, 1.0, *TURNING, 0.02, 75, seed=seed) for seed in range(4)],
                                    axis=0) - weights)) for depth in (8, 64)]
    assert errors[1] < 0.02 < errors[0] < 0.2


def test_inputs_of_another_variance_and_a_branch_of_another_size_are_other_units() -> None:
    usual = horizon(np.eye(2), [1.0, 0.5], 0.3)
    scaled = horizon(4 * np.eye(2), [1.0, 0.5], 0.6, tp.DepthScaling(1, 0, branch=3.0))
    rates = np.full(400, 0.004)
    assert np.allclose(scaled.risk(rates / 12, 2, 400).risk, 4 * usual.risk(rates, 2, 400).risk, rtol=1e-9)
    assert np.allclose(scaled.flow([0.05]), usual.flow([0.6]), rtol=1e-9)
    assert np.allclose(scaled.stationary(1.2).weights, usual.stationary(0.1).weights, rtol=1e-9)


def test_the_mean_of_stochastic_descent_is_gradient_flow() -> None:
    found, rates = horizon(4 * np.eye(2), [1.0, 0.5]), np.full(20000, 1e-5)
    error = found.flow([0.2])[0] - [1.0, 0.5]
    assert abs(found.risk(rates, 10**6, 20000).bias / (4 * error @ error) - 1) < 1e-4


@pytest.mark.parametrize("kind, peak", [("linear", 0.006), ("constant", 0.0015)])
def test_stochastic_descent(kind: str, peak: float) -> None:
    """Within three standard errors and what the theory says it may be off by; that is much less than its parts."""
    teacher, noise, steps, seeds = np.array([1.0, 0.0, 0.0]), 0.5, 2048, 200
    rates = np.array(tp.schedule(peak, steps, fall=kind))
    found = horizon(np.eye(3), teacher, noise).risk(rates, 1, steps)
    weights = descend(32, teacher, noise, rates, 1, seeds, np.random.default_rng(1))
    squares = np.sum((weights - teacher) ** 2, axis=1)
    error = np.std(squares) / np.sqrt(seeds)
    assert abs(np.mean(squares) - found.risk) < 3 * error + found.error_estimate < 0.35 * found.risk


def test_what_is_left_out_is_within_the_estimate() -> None:
    """Rates like 1/t weigh tangent kernels by the logarithm of time: real networks are above, by less than is said."""
    teacher, seeds, at = np.array([1.0, 0.0, 0.0]), 400, np.arange(512)
    theory = horizon(np.eye(3), teacher, 0.5)
    rates = 0.05 / (1 + 0.05 * theory._descent.fastest * at)
    found = theory.risk(rates, 4, 512)
    squares = np.sum((descend(32, teacher, 0.5, rates, 4, seeds, np.random.default_rng(3)) - teacher) ** 2, axis=1)
    error = np.std(squares) / np.sqrt(seeds)
    assert 3 * error < np.mean(squares) - found.risk < found.error_estimate


def test_one_layer_is_linear_regression() -> None:
    """Of one layer the recursion is exact, at rates that are not small."""
    from tpcalc.kernels.stochastic_descent import descend as recursion

    teacher, rates, seeds, ones = np.array([0.8, 0.0, 0.0]), np.full(12, 0.2), 20000, np.ones(2)
    weights = descend(1, teacher, 0.5, rates, 2, seeds, np.random.default_rng(2))
    squares = np.stack([(weights[:, 0] - 0.8) ** 2, np.sum(weights[:, 1:] ** 2, axis=1)])
    output, parallel, others, _ = recursion(rates, 0.8, ones, ones, 2, 0.25, 2)
    known = np.array([(output - 0.8) ** 2 + parallel, others])
    assert np.all(np.abs(np.mean(squares, axis=1) - known) < 4 * np.std(squares, axis=1) / np.sqrt(seeds))
    assert np.all(np.std(squares, axis=1) / np.sqrt(seeds) < 0.02 * known)
    *_, moved = recursion(np.full(100, 1e-3), 1e-6, ones, ones, 2, 0.25, 2)
    assert abs(moved / (100 * 1e-6 * 3 * 0.25 / 2) - 1) < 1e-3  # three directions, noise alone


def test_the_stationary_noise_is_that_of_the_tangent_kernels() -> None:
    found, rate = horizon(np.eye(4), [1.0, 0, 0, 0], 0.5), 2e-5
    point = found.curve(found.curve(0.0).z + 0.747494605)
    expected = rate * 0.25 * (point.along + 3 * point.across) / 2
    assert abs(found.risk(rate, 1, 10**6).risk / float(expected) - 1) < 5e-4


@pytest.mark.parametrize("decay, teacher, output", [(0.1, 1, 0.950563), (0.5, 1, 0.766196), (0.2, 2, 1.901402)])
def test_stationary_outputs_that_were_found_before(decay: float, teacher: float, output: float) -> None:
    found = horizon([[1.0]], [teacher]).stationary(decay)
    assert abs(found.weights[0] - output) < 6e-7
    assert abs(found.squared_norm - (found.angle / np.cos(found.angle)) ** 2) < 1e-12


def test_the_stationary_state_of_any_covariance() -> None:
    found = horizon(*TURNING).stationary(0.3)
    shallow, deep = (flow(depth, 4, 1.0, *TURNING, 0.05, 2000, decay=0.3, initial=0.0) for depth in (32, 64))
    assert np.max(np.abs(2 * deep - shallow - found.weights)) < 2e-4 < np.max(np.abs(deep - found.weights))
    error = deep - TURNING[1]
    assert abs(error @ TURNING[0] @ error - found.risk) < 5e-3


@pytest.mark.parametrize("decay", [1e3, 1e6, 1e9])
def test_large_decays_leave_what_one_step_gives(decay: float) -> None:
    """Weights near 0 are those at which decay balances the first gradient, covariance teacher / decay."""
    covariance, teacher = np.array([[1.5, 0.4], [0.4, 0.6]]), np.array([0.9, -1.1])
    found = tp.long_horizon(tp.ResNet(), tp.Stream(covariance, teacher), tp.SGD(0.001), tp.DepthScaling(1, 0))
    np.testing.assert_allclose(found.stationary(decay).weights, covariance @ teacher / decay, rtol=3 / decay)


def test_flow_goes_on_for_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Directions that were learned long ago do not hold it up."""
    asked = []
    monkeypatch.setattr(end_to_end, "velocity", lambda *given: asked.append(0) or velocity(*given))
    covariance = np.diag([1e3, 1.0, 1e-3])
    found = tp.long_horizon(tp.ResNet(), tp.Stream(covariance, [1.0, -1.0, 0.5]), tp.SGD(0.001), tp.DepthScaling(1, 0))
    weights = found.flow([0.1, 20.0, 1e6])
    np.testing.assert_allclose(weights[:2], [[1, -0.144, 0], [1, -1, 0.019]], atol=1e-3)
    assert np.abs(weights[2] - [1.0, -1.0, 0.5]).max() < 1e-9 and len(asked) < 2e4


def test_at_one_half_initial_matrices_are_forgotten() -> None:
    half = horizon([[1.0]], [1.0], scale=tp.DepthScaling())
    limit = half.stationary(0.5).weights[0]
    errors = [depth * (flow(depth, 48, 0.5, np.eye(1), np.ones(1), 0.2, 250, decay=0.5)[0] - limit)
              for depth in (16, 64)]
    assert np.allclose(errors, -0.137, atol=0.15) and limit == horizon([[1.0]], [1.0]).stationary(0.5).weights[0]
    for asked in (lambda: half.flow([1.0]), lambda: half.curve(0.5), lambda: half.risk(0.1, 1, 10)):
        with pytest.raises(tp.NotCovered, match="alpha > 1/2"):
            asked()


def test_the_best_rate_is_one_at_which_the_theory_holds() -> None:
    found = horizon(np.eye(3), [1.0, 0.0, 0.0], 0.5)
    best, restored = found.best("inverse", 16, 20000), float(found._descent.fastest)

    def bound(rate: float) -> float:
        risk = found.risk(rate / (1 + rate * restored * np.arange(20000)), 16, 20000)
        return risk.risk + risk.error_estimate

    assert bound(best.rate) < min(bound(1.2 * best.rate), bound(best.rate / 1.2))
    assert best.risk.error_estimate < 0.5 * best.risk.risk < best.risk.least_squares
