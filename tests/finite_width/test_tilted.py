"""The tilted law of trained networks against brute force from the statements of the training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tpcalc as tp
from support.closeness import assert_close
from support.references.overlap_action import training
from tpcalc.finite_width.loss_series import loss_series
from tpcalc.finite_width.tilted import series_in_tilt, base_solution, tilted_network
from tpcalc.finite_width.tilted_determinant import LayersGradient

HALVES = tp.DepthScaling(0.5, 0.5)
TOLERANCE = 1e-11  # round-off of order-one numbers; brute force inverts matrices over all overlaps of all layers
# steps, batch, d_in, d_out, probes, depth, optimizer, scale, trained ends
CASES = {
    "one input a step": (4, 1, 1, 1, 0, 5, tp.SGD(0.5), HALVES, False),
    "decay and trained ends": (3, 1, 1, 1, 0, 3, tp.SGD(0.5, weight_decay=0.6), HALVES, True),
    "batch, heavy ball": (3, 2, 2, 1, 0, 3, tp.SGD((0.5, 0.3, 0.6), momentum=0.5), tp.DepthScaling(0.8, 0.3), False),
    "outputs, Nesterov, decoupled decay, trained ends": (
        3, 2, 2, 2, 0, 2, tp.SGD(0.3, momentum=0.5, nesterov=True, weight_decay=0.4, decoupled=True), HALVES, True),
    "probes": (3, 1, 2, 1, 2, 2, tp.SGD(0.5, weight_decay=0.3), HALVES, True),
    "one layer": (3, 2, 1, 2, 1, 1, tp.SGD(0.4), tp.DepthScaling(0.5, 0.5, branch=0.7), False),
}


def brute_force(case: tuple) -> tuple:
    """The run, the action of its overlaps, and which of them are outputs: of the batches, and of the probes."""
    steps, batch, d_in, d_out, held_out, depth, opt, scale, train_embedding_readout = case
    rng = np.random.default_rng(steps + 10 * depth + 100 * batch)
    probes = rng.normal(size=(held_out, d_in)) if held_out else None
    task = tp.Task(rng.normal(size=(steps, batch, d_in)) / 2, rng.normal(size=(steps, batch, d_out)), probes=probes)
    run = tp.train(tp.ResNet(train_embedding_readout=train_embedding_readout), task, opt, scale, depth)
    action, wanted = training(task.inputs, task.targets, depth, scale.multiplier(depth), scale.update_size(depth),
                              *opt.memory(steps), train_embedding_readout,
                              np.zeros((0, d_in)) if probes is None else probes)
    samples = batch + held_out
    trained = [k for k in range(len(wanted)) if k // d_out % samples < batch]
    return run, action, [wanted[k] for k in trained], [w for k, w in enumerate(wanted) if k not in trained]


@pytest.mark.parametrize("name", CASES)
def test_covariances_and_biases_are_those_of_the_action(name: str) -> None:
    run, action, outputs, probes = brute_force(CASES[name])
    mean, covariance, bias = action.fluctuations(outputs)
    found = run.fluctuations
    assert_close(run.outputs.ravel(), mean, TOLERANCE, 1.0)
    assert_close(found.covariance.ravel(), covariance.ravel(), TOLERANCE)
    assert_close(found.bias.ravel(), bias, TOLERANCE, covariance)
    assert found.covariance.shape == 2 * run.outputs.shape and found.bias.shape == run.outputs.shape
    assert found.covariance_error < TOLERANCE * np.max(np.abs(covariance))
    assert found.bias_error < TOLERANCE * np.max(np.abs(covariance))
    if probes:
        mean, covariance, bias = action.fluctuations(probes)
        assert_close(run.probe_outputs.ravel(), mean, TOLERANCE, 1.0)
        assert_close(found.probe_covariance.ravel(), covariance.ravel(), TOLERANCE)
        assert_close(found.probe_bias.ravel(), bias, TOLERANCE, covariance)
        assert found.probe_covariance.shape == 2 * run.probe_outputs.shape
        assert found.probe_bias.shape == run.probe_outputs.shape


@pytest.mark.parametrize("name", ["decay and trained ends", "one layer"])
def test_cumulants_are_derivatives_under_the_tilt(name: str) -> None:
    """Of the means that brute force finds at small tilts of one output, by central differences of sixth order."""
    run, action, outputs, probes = brute_force(CASES[name])
    step, tilts = 4e-3, np.arange(-4, 5)
    # exact for polynomials of degree 8: derivatives 1, 2, 3 at 0
    weights = np.linalg.inv(np.vander(tilts, increasing=True).astype(float))[1:4] * np.array([[1.0], [2.0], [6.0]])
    for which, found in ((outputs, run.fluctuations.cumulant), (probes, run.fluctuations.probe_cumulant)):
        if not which:
            continue
        last = np.eye(len(which))[-1]
        values = np.array([action.tilted_means(which, step * k * last)[-1] for k in tilts])
        for order, row in enumerate(weights, 1):
            assert_close(found(order + 1).ravel()[-1], row @ values / step**order, 1e-6, 1e-2)


def test_the_first_cumulants_are_the_limit_and_the_variances() -> None:
    run, *_ = brute_force(CASES["batch, heavy ball"])
    size = run.outputs.size
    variances = np.diagonal(run.fluctuations.covariance.reshape(size, size))
    assert_close(run.fluctuations.cumulant(1), run.outputs, 1e-13)
    assert_close(run.fluctuations.cumulant(2).ravel(), variances, 1e-13)


@pytest.mark.parametrize("depth", [1, 3, 50])
def test_cumulants_at_initialization_have_closed_forms(depth: int) -> None:
    """f_0 is V . x^L / n: its fourth cumulant is three times the variance of |x^L|^2 / n, which a layer of multiplier
    eps takes from v to (1 + eps^2)^2 v + q^2 (4 eps^2 + 2 eps^4), q its mean, from 2 xi^4 and xi^2; its third is 0."""
    xi, eps2 = 0.9, 1.0 / depth
    q, v = xi**2, 2 * xi**4
    for _ in range(depth):
        q, v = q * (1 + eps2), (1 + eps2) ** 2 * v + q**2 * (4 * eps2 + 2 * eps2**2)
    found = tp.train(tp.ResNet(), tp.Task([xi], [1.0]), tp.SGD(1.0), HALVES, depth).fluctuations
    assert_close([float(found.cumulant(k).item()) for k in (2, 3, 4)], [q, 0.0, 3 * v], 1e-12)


@pytest.mark.parametrize("loss", ["mse", "logistic", "softmax"])
def test_losses_are_expanded_in_their_outputs(loss: str) -> None:
    """Coefficients of loss'(f) and of its slope along a polynomial f, from means over a circle in the complex plane."""
    rng = np.random.default_rng(0)
    orders, rows, d = 4, 3, 2
    f = rng.normal(size=(orders, rows, d))
    y = np.array([[0.2, 0.8], [1.0, 0.0], [0.5, 0.5]]) if loss == "softmax" else rng.choice([-1.0, 1.0], size=(rows, d))
    series = loss_series(tp.Task(np.ones((1, rows, 1)), y[None], loss).loss, y)
    chi, slope = np.zeros((orders, rows, d)), np.zeros((orders, rows, d, d))
    for order in range(orders):
        chi[order], slope[order] = series.coefficient(order, f, chi, slope)

    def derivative(x: np.ndarray) -> np.ndarray:
        if loss == "mse":
            return x - y
        if loss == "logistic":
            return -y / (1 + np.exp(y * x))
        return np.exp(x) / np.sum(np.exp(x), axis=-1, keepdims=True) - y

    circle = 0.1 * np.exp(2j * np.pi * np.arange(32) / 32)
    values = np.array([derivative(np.tensordot(c ** np.arange(orders), f, 1)) for c in circle])
    slopes = np.array([[(derivative(np.tensordot(c ** np.arange(orders), f, 1) + 1e-7 * unit) - derivative(
        np.tensordot(c ** np.arange(orders), f, 1) - 1e-7 * unit)) / 2e-7 for unit in np.eye(d)] for c in circle])
    for order in range(orders):
        assert_close(chi[order], np.mean(values / circle[:, None, None]**order, axis=0).real, 1e-11, 1.0)
        expected = np.mean(slopes / circle[:, None, None, None]**order, axis=0).real
        assert_close(slope[order], np.moveaxis(expected, 0, -1), 1e-5, 1.0)
    move = np.zeros((2, rows, d))
    move[0] = f[0]
    for l in range(d):  # the slope along one output, to first order
        move[1] = np.eye(d)[l]
        first = series.coefficient(0, move, move, slope[:2])
        both = np.array([first[0], np.zeros((rows, d))]), np.array([first[1], np.zeros((rows, d, d))])
        assert_close(series.curvature(first[0])[..., l], series.coefficient(1, move, *both)[1], 1e-13, 1.0)


def test_long_trainings_are_not_lost_in_round_off() -> None:
    """Rows of steps that are not known yet grow without bounds where they are let in too early."""
    rng = np.random.default_rng(0)
    task, opt, depth = tp.Task(rng.normal(size=20), rng.normal(size=20)), tp.SGD(0.5), 4
    base = base_solution(tilted_network(task, opt, depth, 1 / depth, 1 / depth, False))
    assert_close(base.f[0], tp.train(tp.ResNet(), task, opt, HALVES, depth).outputs[:, 0], 1e-9)
    one, two = (series_in_tilt(base, row, 0, 2).f[1, other, 0] for row, other in ((2, 6), (6, 2)))
    assert_close(one, two, 1e-9)


class QuadraticSlope:
    """chi = f - y + c f^2, of one output."""

    def __init__(self, y: np.ndarray, c: float) -> None:
        self.y, self.c = y, c

    def coefficient(self, order: int, f: np.ndarray, chi: np.ndarray, slope: np.ndarray
                    ) -> tuple[np.ndarray, np.ndarray]:
        square = sum(f[k] * f[order - k] for k in range(order + 1))
        at_zero = float(order == 0)
        return f[order] - at_zero * self.y + self.c * square, (at_zero + 2 * self.c * f[order])[:, :, None]

    def curvature(self, chi: np.ndarray) -> np.ndarray:
        return np.full((*chi.shape, 1, 1), 2 * self.c)


def test_the_curvature_of_a_loss_enters_covariances_and_biases() -> None:
    """chi = f - y + c f^2, which brute force writes with one vector more, u = f V and f^2 V = (V . x / n) u."""
    c, depth, rate = 0.7, 2, 0.4
    xi, y = np.array([0.9, 0.7, -0.8]), np.array([0.8, -0.5, 0.3])
    task, opt = tp.Task(xi, y), tp.SGD(rate)
    rho, w = opt.memory(3)
    action, outputs = training(task.inputs, task.targets, depth, depth**-0.5, depth**-0.5, rho, w, loss_square=c)
    mean, covariance, bias = action.fluctuations(outputs)
    network = replace(tilted_network(task, opt, depth, 1 / depth, 1 / depth, False), loss=QuadraticSlope(y[:, None], c))
    base = base_solution(network)
    series = [series_in_tilt(base, row, 0, 2) for row in range(3)]
    gradient = LayersGradient(base)
    assert_close(base.f[0].ravel(), mean, TOLERANCE, 1.0)
    assert_close([s.f[1].ravel() for s in series], covariance, TOLERANCE)
    assert_close([gradient.along(s) for s in series], bias, TOLERANCE, covariance)


def test_other_losses_are_refused() -> None:
    class Cubic:
        def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
            return np.sum(np.abs(f - y) ** 3, axis=-1) / 3

        def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
            return (f - y) * np.abs(f - y)

    run = tp.train(tp.ResNet(), tp.Task([1.0, 0.5], [1.0, 0.2], loss=Cubic()), tp.SGD(0.1), HALVES, 2)
    with pytest.raises(ValueError, match="loss: .*Cubic.*'mse', 'logistic' and 'softmax'"):
        run.fluctuations.covariance
