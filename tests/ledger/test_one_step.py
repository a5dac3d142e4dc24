"""One step on one sample: the closed forms against numbers found elsewhere, and against real networks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tpcalc as tp
from support.proofs_module import proofs_module


def module(name: str) -> Any:
    return proofs_module(f"depthwise_transfer.{name}")


def test_reference_values() -> None:
    """H_1 - H_0 = e^(1 + tau) (tau^2 + 2/3 tau^3) at eta = y = 1, and the sum at L = 100, each to all its digits."""
    limit, finite = module("one_step"), module("one_step_finite_depth")
    change = limit.H1(limit.TAU) - limit.H0(limit.TAU)
    for tau, value in ((0.25, 0.2545041739815926), (0.5, 1.493896356779355), (0.75, 4.855446007879835),
                       (1.0, 12.31509349821775)):
        assert abs(limit.number(change, tau, 1.0, 1.0) / value - 1) < 1e-14
        trained = np.e**(1 + tau) * (1 + 4 * tau + 3 * tau**2 + 2 / 3 * tau**3)
        assert abs(limit.number(change, tau, 1.0, 1.0, 1.0) / trained - 1) < 1e-14
    *_, forward, _ = finite.formulas()(1.0, 1.0, 100.0, np.array([50, 100]))
    assert np.all(np.abs(forward / [1.437542332, 11.81190997] - 1) < 1e-9)


def test_the_limit_is_reached_like_one_over_l() -> None:
    limit, finite = module("one_step"), module("one_step_finite_depth")
    goal = limit.number(limit.H1(limit.TAU) - limit.H0(limit.TAU), 1.0, 0.5, 1.0)
    distance = [abs(finite.formulas()(0.5, 1.0, 2.0**k, 2.0**k)[3] - goal) for k in range(6, 12)]
    assert np.all(np.abs(np.log2(np.array(distance[:-1]) / distance[1:]) - 1) < 0.04)


def test_nothing_but_the_gradient_kernel_is_wrong_in_the_printed_slope(monkeypatch: pytest.MonkeyPatch) -> None:
    """(98) with e^(1 - tau) for (92) has the slope that the solver's kernel has."""
    limit = module("one_step")
    assert limit.slope_witness().printed_fails
    monkeypatch.setattr(limit, "printed_gradient_kernel", lambda tau: np.exp(1 - tau))
    witness = limit.slope_witness()
    assert not witness.printed_fails and witness.corrected_holds


@pytest.mark.slow
def test_real_networks_reject_what_is_printed() -> None:
    """Averages over seeds, at width 512 and 32 layers: the closed forms are there, (7) and (92) far off."""
    finite, limit = module("one_step_finite_depth"), module("one_step")
    eta, y, depth, seeds = 0.75, 0.5, 32, 24
    kernels = []
    for seed in range(seeds):
        run = tp.train(tp.ResNet(), tp.Task([1.0, 1.0], [y, y]), tp.SGD(eta), tp.DepthScaling(), depth, 512,
                       seed=seed, keep_nodes=[0.5, 1.0])
        size = run.forward_covariance[1]
        kernels.append([size[1, 1] - size[0, 0], run.backward_covariance[0, 0, 0] / (run.outputs[0, 0, 0] - y)**2])
    error = np.std(kernels, axis=0, ddof=1) / np.sqrt(seeds)
    _, gradient, _, forward, _ = finite.formulas()(eta, y, float(depth), np.array([depth / 2, depth]))
    expected, printed = np.array([forward[1], gradient[0]]), np.array(
        [limit.printed_change(1.0, eta, y), limit.printed_gradient_kernel(0.5)])
    assert np.all(np.abs(np.mean(kernels, axis=0) - expected) < 4 * error)
    assert np.all(np.abs(np.mean(kernels, axis=0) - printed) > 5 * error)
