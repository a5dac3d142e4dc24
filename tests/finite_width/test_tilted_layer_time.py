"""Fluctuations at infinite depth: finite depths extrapolated, meshes, large rates, what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from support.nightly import few
from support.closeness import assert_close
from support.references.depth_extrapolation import infinite_depth as extrapolated
from tpcalc.kernels import tilted
from tpcalc.propagators import layer_time
from tpcalc.finite_width import tilted_limit
from tpcalc.finite_width.causal_pairs import causal_pairs
from tpcalc.finite_width.fluctuations import Fluctuations
from tpcalc.finite_width.tilted_determinant_layer_time import added
from tpcalc.finite_width.tilted_layer_time import tilted_density

ALPHAS = (0.5, 0.75, 1.0)


def drawn(seed: int, rates: tuple[float, ...], longest: int) -> tp.Run:
    """A run at infinite depth: random data, rate, decay, momentum, scaling, batch, outputs and ends."""
    rng = np.random.default_rng(seed)
    steps, batch, d_out = int(rng.integers(1, longest + 1)), int(rng.integers(1, 3)), int(rng.integers(1, 3))
    task = tp.Task(rng.normal(size=(steps, batch, 2)) / 2, rng.normal(size=(steps, batch, d_out)),
                   probes=rng.normal(size=(1, 2)) if rng.integers(2) else None)
    opt = tp.SGD(float(rng.choice(rates)), momentum=float(rng.choice([0, 0.5])),
                 weight_decay=float(rng.choice([0, 0.3])))
    alpha = ALPHAS[seed % 3]
    return tp.train(tp.ResNet(train_embedding_readout=bool(rng.integers(2))), task, opt,
                    tp.DepthScaling(alpha, 1 - alpha), tp.oo)


def at_depth(found: Fluctuations, depth: int) -> Fluctuations:
    """Layers that share the constants of the limit: a power series in 1/L, at any alpha."""
    return Fluctuations(found.task, found.optimizer, depth, found.noise / depth, found.drift / depth,
                        found.train_embedding_readout)


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 3, 4, 5))])
def test_layer_time_is_the_limit_of_layers(seed: int) -> None:
    """Two solvers that share densities and read-outs alone."""
    found = drawn(seed, (0.2, 0.5, 1.0), 3).fluctuations
    covariance = extrapolated(lambda depth: at_depth(found, depth).covariance.ravel(), 1e-11)
    assert_close(found.covariance.ravel(), covariance.value, 1e-10)
    bias = extrapolated(lambda depth: at_depth(found, depth).bias.ravel(), 1e-9)
    assert_close(found.bias.ravel(), bias.value, 2e-8, covariance.value)
    if found.task.probes is not None:
        probes = extrapolated(lambda depth: at_depth(found, depth).probe_covariance.ravel(), 1e-11)
        assert_close(found.probe_covariance.ravel(), probes.value, 1e-10)
        shift = extrapolated(lambda depth: at_depth(found, depth).probe_bias.ravel(), 1e-9)
        assert_close(found.probe_bias.ravel(), shift.value, 2e-8, probes.value)


@pytest.mark.parametrize("seed", few(range(3), 1, 2))
def test_higher_cumulants_are_those_of_layers(seed: int) -> None:
    found = drawn(seed, (0.2, 0.5), 3).fluctuations
    for order in (3, 4):
        limit = extrapolated(lambda depth: at_depth(found, depth).cumulant(order).ravel(), 1e-10)
        assert_close(found.cumulant(order).ravel(), limit.value, 1e-8, 1.0)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_drawn_trainings_are_known_to_ten_digits(seed: int) -> None:
    """Wherever the limit is solved: errors below 1e-10 of the largest value, and outputs as collocation has them.

    The bias is measured by the covariances that it comes from: it may vanish."""
    run = drawn(seed, (0.1, 0.5, 1.0, 2.0), 3)
    found = run.fluctuations
    scale = np.max(np.abs(found.covariance))
    assert found.covariance_error <= 1e-10 * scale
    assert found.bias_error <= 1e-10 * scale
    assert np.max(np.abs(found.cumulant(1) - run.outputs)) <= run.error_estimate + 1e-12 * np.max(np.abs(run.outputs))
    size = run.outputs.size
    assert np.min(np.linalg.eigvalsh(found.covariance.reshape(size, size))) > -1e-10 * scale


@pytest.mark.parametrize("alpha", ALPHAS[:2])
def test_errors_hold_the_difference_to_a_finer_mesh(alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few nodes, so that there is an error to see."""
    task = tp.Task((1, 0.8, -0.6, 1.1), (1, -0.7, 0.5, 1.2))

    def asked() -> Fluctuations:
        return tp.train(tp.ResNet(), task, tp.SGD(1.0), tp.DepthScaling(alpha, 1 - alpha), tp.oo).fluctuations

    fine = asked()
    exact = fine.covariance, fine.bias
    monkeypatch.setattr(tilted_limit, "COARSE", 8)
    monkeypatch.setattr(tilted_limit, "FINE", 9)
    monkeypatch.setattr(tilted_limit, "KNOWN", 1e-2)
    monkeypatch.setattr("tpcalc.finite_width.fluctuations.TOLERANCE", 1e-2)
    rough = asked()
    for value, error, truth in ((rough.covariance, rough.covariance_error, exact[0]),
                                (rough.bias, rough.bias_error, exact[1])):
        assert 1e-14 < np.max(np.abs(value - truth)) <= error


@pytest.mark.parametrize("eta", [3.0, 8.0])
def test_large_rates_have_the_closed_forms_of_two_steps(eta: float) -> None:
    """[tpcalc/two_steps_at_finite_width], in units of their own size, at variances of thousands."""
    (xi, other), y = (1.0, 0.8), 0.7
    z, w, e = eta * xi**2, eta * xi * y, math.e
    found = tp.train(tp.ResNet(), tp.Task((xi, other), (y, 0.0)), tp.SGD(eta), tp.DepthScaling(), tp.oo).fluctuations
    cross = xi * other * (e * (1 - e * z) + 5 / 6 * e**2 * w**2)
    last = other**2 * (e * (1 - e * z) ** 2 + 5 / 3 * e**2 * w**2 * (1 - e * z) + 20 / 3 * e**2 * w**2
                       + 47 / 60 * e**3 * w**4)
    assert_close(found.covariance.reshape(2, 2), [[e * xi**2, cross], [cross, last]], 1e-10)
    bias = other * e**2 * (-5 / 3 * z * w + 11 / 30 * w**3)
    assert abs(found.bias.ravel()[1] - bias) <= 1e-10 * last
    assert found.covariance_error <= 1e-10 * last and found.bias_error <= 1e-10 * last


@pytest.mark.parametrize("alpha, train_embedding_readout", [(0.5, False), (0.75, True)])
def test_direct_solutions_are_those_of_the_iteration(alpha: float, train_embedding_readout: bool,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Picard's iteration every element is solved directly."""
    task, opt = tp.Task((1, 0.8, -0.6), (1, -0.7, 0.5)), tp.SGD(0.7, momentum=0.3, weight_decay=0.2)
    net, scale = tp.ResNet(train_embedding_readout=train_embedding_readout), tp.DepthScaling(alpha, 1 - alpha)

    def found() -> tuple[np.ndarray, np.ndarray]:
        fluctuations = tp.train(net, task, opt, scale, tp.oo).fluctuations
        return fluctuations.bias, fluctuations.covariance

    iterated = found()
    monkeypatch.setattr(layer_time, "PICARD", 0)
    bias, covariance = found()
    assert_close(covariance, iterated[1], 1e-11)
    assert_close(bias, iterated[0], 1e-11, covariance)


@pytest.mark.parametrize("alpha, eta", [
    (0.75, 4.0), *(pytest.param(0.5, eta, marks=pytest.mark.slow) for eta in (4.0, 8.0))])
def test_large_rates_are_known_to_ten_digits(alpha: float, eta: float) -> None:
    """Rows decay at rates of hundreds, where iterations need elements of a thousandth."""
    task = tp.Task((1, 0.8, -0.6, 1.1), (1, -0.7, 0.5, 1.2))
    run = tp.train(tp.ResNet(), task, tp.SGD(eta), tp.DepthScaling(alpha, 1 - alpha), tp.oo)
    found = run.fluctuations
    assert found.covariance_error <= 1e-10 * np.max(np.abs(found.covariance))


@pytest.mark.parametrize("steps, eta", [(3, 4.0), *(pytest.param(steps, eta, marks=pytest.mark.slow)
                                                    for steps, eta in ((4, 4.0), (6, 4.0), (4, 8.0)))])
def test_biases_at_large_rates_are_known_to_ten_digits(steps: int, eta: float) -> None:
    """And are, of the first steps, those of a training that stops there."""
    xi, y = np.array((1, 0.8, -0.6, 1.1, 0.9, -0.7, 0.5, 1.2)), np.array((1, -0.7, 0.5, 1.2, -0.4, 0.8, 1, -0.9))
    long, short = (tp.train(tp.ResNet(), tp.Task(xi[:k], y[:k]), tp.SGD(eta), tp.DepthScaling(), tp.oo).fluctuations
                   for k in (steps, 2))
    size = np.max(np.abs(long.covariance))
    assert long.bias_error <= 1e-10 * size
    assert np.max(np.abs(long.bias[:2] - short.bias)) <= long.bias_error + short.bias_error


def test_biases_that_would_take_hours_are_refused_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, with a bound; and where a mesh was affordable and its finer one is not, what is known is given."""
    task, tried = tp.Task((1, 0.8), (1, -0.7)), []
    monkeypatch.setattr("tpcalc.finite_width.tilted_determinant_layer_time.Node", lambda *given: tried.append(given))
    monkeypatch.setattr("tpcalc.finite_width.tilted_determinant_layer_time.SECONDS", 10.0)
    found = tp.train(tp.ResNet(), task, tp.SGD(0.5), tp.DepthScaling(), tp.oo).fluctuations
    with pytest.raises(ValueError, match=r"bias of a finite width at infinite depth: got 2 rows .* on 1 elements .* "
                                         r"about .* minutes of a core .*; expected 10; fewer steps"):
        found.bias
    assert not tried
    assert found.covariance.shape == (2, 1, 1, 2, 1, 1)


def test_a_finer_mesh_that_would_take_hours_leaves_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked() -> Fluctuations:
        return tp.train(tp.ResNet(), tp.Task((1, 0.8, -0.6), (1, -0.7, 0.5)), tp.SGD(1.0), tp.DepthScaling(),
                        tp.oo).fluctuations

    exact = asked().bias
    size = causal_pairs(3, 1).size
    monkeypatch.setattr(tilted_limit, "COARSE", 12)
    monkeypatch.setattr(tilted_limit, "FINE", 14)
    found = asked()
    elements = tilted_limit.LimitTask(found.task, found.optimizer, found.noise, found.drift, False, None
                                      ).mesh().elements
    monkeypatch.setattr("tpcalc.finite_width.fluctuations.TOLERANCE", 0.0)
    monkeypatch.setattr("tpcalc.finite_width.tilted_determinant_layer_time.SECONDS",
                        600 / (size**3 * (1.5 * 13 * elements + 1)))
    rough = asked()
    assert np.max(np.abs(rough.bias - exact)) <= rough.bias_error


def test_what_no_mesh_resolves_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tilted_limit, "MOST_ELEMENTS", 1)
    monkeypatch.setattr(tilted_limit, "COARSE", 3)
    monkeypatch.setattr(tilted_limit, "FINE", 4)
    run = tp.train(tp.ResNet(), tp.Task((1, 0.8), (1, -0.7)), tp.SGD(0.5), tp.DepthScaling(), tp.oo)
    with pytest.raises(tp.Divergence, match="fluctuations at infinite depth are .* with at most 1 elements"):
        run.fluctuations.covariance


def test_a_trivial_limit_fluctuates_as_at_initialization() -> None:
    """gamma = 1: f_t is V . x^L / n of an untrained network, Sigma_ts = e xi_t xi_s, without bias."""
    xi = np.array([1, 0.8, -0.6])
    run = tp.train(tp.ResNet(), tp.Task(xi, (1, -0.7, 0.5)), tp.SGD(0.5), tp.DepthScaling(0.5, 1), tp.oo)
    assert_close(run.fluctuations.covariance.reshape(3, 3), math.e * np.outer(xi, xi), 1e-12)
    assert_close(run.fluctuations.bias, np.zeros((3, 1, 1)), 1e-13, 1.0)


@pytest.mark.parametrize("forward", [True, False])
def test_densities_of_all_nodes_are_those_of_the_kernel(forward: bool) -> None:
    rng = np.random.default_rng(0)
    C, noise, drift = rng.normal(size=(3, 8, 8)), rng.normal(size=(4, 4)), np.tril(rng.normal(size=(4, 4)), -1)
    C, noise = C + C.transpose(0, 2, 1), noise + noise.T
    for overlaps, found in zip(C, tilted_density(C, noise, drift, forward)):
        out = np.zeros((8, 8))
        tilted.added_density(overlaps, noise, drift, 0 if forward else 4, out)
        assert_close(found, out, 1e-14)


@pytest.mark.parametrize("side", ["p", "q"])
def test_sums_on_pairs(side: str) -> None:
    rng = np.random.default_rng(0)
    M, X = rng.normal(size=(2, 4, 4))
    X = X + X.T
    pairs = causal_pairs(2, 1)
    i, j = getattr(pairs, side)
    assert_close(added(pairs, M, side) @ X[i, j], (M @ X + X @ M.T)[i, j], 1e-14)
