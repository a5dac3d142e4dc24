"""Sigma of nonlinear blocks at infinite depth: the action's coefficients, symmetry, real networks, refusals."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.closeness import assert_close
from support.plain.many_block_networks import drawn, outputs
from tpcalc.action.tilted_densities import KAPPA, SOURCES, THETA, derive_pair_action
from tpcalc.finite_width.tilted import series_in_tilt, tilted_network
from tpcalc.finite_width.tilted_block import BlockDensity
from tpcalc.finite_width.tilted_limit import LimitTask

H = sp.Symbol("h", real=True)
TASK, OPT = tp.Task((1, 0.8, -0.6), (1, -0.7, 0.5), probes=[[1.0], [0.4]]), tp.SGD(0.5)
SINE = tp.ResNet(sp.sin(H + sp.Rational(1, 2)), block="mlp")


def base_of(net: tp.ResNet, alpha: float = 0.5, train_embedding_readout: bool = False) -> tuple:
    """Order 0 and the matrices of the derivatives of f in tilts."""
    noise = float(alpha == 0.5)
    network = tilted_network(TASK, OPT, 1, noise, 1.0, train_embedding_readout)
    limit = LimitTask(TASK, OPT, noise, 1.0, train_embedding_readout, None, net)
    base = limit.on(limit.mesh(), network)
    return base, np.array([series_in_tilt(base, row, 0, 2).f[1, :, 0] for row in range(3)])


def test_linear_blocks_through_their_kernels_are_linear_blocks() -> None:
    """All that nonlinear blocks go through but curvatures, against the tilted reflection form."""
    for alpha in (0.5, 0.75):
        _, covariance = base_of(tp.ResNet(), alpha)
        run = tp.train(tp.ResNet(), TASK, OPT, tp.DepthScaling(alpha, 1 - alpha), tp.oo)
        assert_close(covariance, run.fluctuations.covariance.reshape(3, 3), 1e-12)


@pytest.mark.parametrize("name", ["mlp", "trained ends"])
def test_densities_are_those_of_the_solver_and_answers_are_symmetric(name: str) -> None:
    """What the action says at its saddle is what ``collocation`` solves; and f_t answers j_s as f_s answers j_t."""
    net = tp.ResNet(SINE.phi, block="mlp", train_embedding_readout=name == "trained ends")
    base, covariance = base_of(net, train_embedding_readout=net.train_embedding_readout)
    propagator, n = base.network.propagator, 3
    theta, omega = base.left.added[0], base.right.added[0]
    assert_close(np.tril(theta[:, :n, n:], -1), propagator.A, 1e-12)
    assert_close(np.tril(omega[:, n:, :n]), propagator.B, 1e-12)
    assert_close(theta[:, :n, :n], propagator.left.N, 1e-12)
    assert_close(omega[:, n:, n:], propagator.right.N, 1e-12)
    for zero in (theta[:, n:, n:], np.triu(theta[:, :n, n:]), omega[:, :n, :n], np.triu(omega[:, n:, :n], 1)):
        assert np.max(np.abs(zero)) < 1e-12
    assert_close(covariance, covariance.T, 1e-12)


def test_answers_of_densities_are_their_derivatives() -> None:
    """Theta and Omega at overlaps that are a little different, by central differences."""
    base, _ = base_of(SINE)
    propagator, n, step, nodes = base.network.propagator, 3, 1e-5, slice(4, 6)
    left, right = base.left.C[0, nodes], base.right.C[0, nodes]
    rng = np.random.default_rng(0)
    change, turn = np.zeros((2, 2, 2 * n, 2 * n))
    change[:, :n, :n] = rng.normal(size=(2, n, n))
    change[:, :n, n:] = np.tril(rng.normal(size=(2, n, n)), -1)  # of what a saddle has: x answers earlier steps
    turn += rng.normal(size=turn.shape)
    change, turn = change + change.transpose(0, 2, 1), turn + turn.transpose(0, 2, 1)

    def block(move: float, also: float) -> BlockDensity:
        return BlockDensity(SINE, propagator.noise, propagator.drift * propagator.w,
                            np.outer(propagator.rho, propagator.rho),
                            left + move * change, right + also * turn)

    answers = base.body.block.answer(True, change, right, nodes), base.body.block.answer(False, turn, change, nodes)
    more, less = block(step, step), block(-step, -step)
    assert_close(answers[0], (more.theta - less.theta) / (2 * step), 1e-7)
    assert_close(answers[1], (more.omega - less.omega) / (2 * step), 1e-7)
    only_turned = base.body.block.answer(False, turn, 0 * change, nodes)
    assert np.max(np.abs(answers[1] - only_turned)) > 0.1 * np.max(np.abs(answers[1]))  # curvatures are tested


def test_derivatives_of_the_pair_action_are_derivatives() -> None:
    """Slopes and curvatures at a saddle, against differences of the values for kernels that are numbers."""
    kernel = sp.exp(SOURCES[0] / 2) * sp.cos(SOURCES[1] - SOURCES[2] / 3)
    for part in (KAPPA, THETA):
        pair = derive_pair_action(part)

        def number(e: sp.Expr) -> sp.Expr:
            return e.replace(lambda k: k.func.__name__ == "Kernel", lambda k: kernel.diff(
                SOURCES[0], int(k.args[1])).diff(SOURCES[1], int(k.args[2])).diff(SOURCES[2], int(k.args[3])))

        at = dict(zip(SOURCES, (0.3, 0.7, 0.9, 0.4, 0.0, 0.0, 0.0, 0.0)))
        for value, slopes, curvatures in zip(pair.values, pair.slopes, pair.curvatures):
            for i in (0, 1, 2):  # derivatives in overlaps that do not vanish at the saddle can be taken there
                assert abs(number(slopes[i]).xreplace(at) - number(value).diff(SOURCES[i]).xreplace(at)) < 1e-12
                for j in range(8):
                    found = number(curvatures[j][i]).xreplace(at)
                    assert abs(found - number(slopes[j]).diff(SOURCES[i]).xreplace(at)) < 1e-12
                    assert abs(found - number(curvatures[i][j]).xreplace(at)) < 1e-12


def test_covariances_of_blocks_have_errors_and_probes() -> None:
    run = tp.train(tp.ResNet("tanh"), TASK, OPT, tp.DepthScaling(), tp.oo)
    found = run.fluctuations
    assert found.covariance.shape == (3, 1, 1, 3, 1, 1) and found.covariance_error < 1e-10
    assert_close(found.cumulant(2).ravel(), np.diagonal(found.covariance.reshape(3, 3)), 1e-14)
    assert_close(found.cumulant(1), run.outputs, 1e-12)
    probes = found.probe_covariance.reshape(3, 2, 3, 2)
    assert_close(probes[0, 0, 0, 0], found.covariance.ravel()[0], 1e-12)  # the first probe is the first input
    assert_close(probes, probes.transpose(2, 3, 0, 1), 1e-12)


def test_what_is_not_known_of_blocks_is_refused() -> None:
    run = tp.train(tp.ResNet("tanh"), TASK, OPT, tp.DepthScaling(), tp.oo)
    for ask, what in ((lambda: run.fluctuations.cumulant(3), "the cumulant of order 3"),
                      (lambda: run.fluctuations.probe_cumulant(4), "the cumulant of order 4")):
        with pytest.raises(ValueError, match=f"fluctuations: {what}.* of ResNet.*'tanh'.* expected linear networks"):
            ask()
    kinked = tp.train(tp.ResNet("relu"), TASK, OPT, tp.DepthScaling(), tp.oo)
    with pytest.raises(ValueError, match="fluctuations: .*'relu'.*kink"):
        kinked.fluctuations.covariance


def test_the_loop_over_many_networks_is_the_program() -> None:
    """One of the real networks below, on the weights of a dense one of the library."""
    scale = tp.DepthScaling()
    run = tp.train(SINE, TASK, OPT, scale, 3, width=6, seed=1, method="dense")
    start = run.initial_weights()
    names = sorted(set(start) - {"U", "nV"})
    weights = {"U": start["U"].reshape(1, -1), "V": start["nV"].reshape(1, -1), "first": start[names[0]][:, None],
               "second": start[names[1]][:, None]}
    found = outputs(TASK, OPT, scale, 3, lambda h: np.sin(h + 0.5), lambda h: np.cos(h + 0.5), weights)
    assert_close(found.ravel(), run.outputs.ravel(), 1e-12, 1.0)


@pytest.mark.slow
def test_real_networks_spread_as_computed() -> None:
    """Widths 32 and 64, depths 8, 16 and 32, fitted by a constant, 1/n, 1/L and 1/L^2; minutes."""
    upper = np.triu_indices(3)
    expected = tp.train(SINE, TASK, OPT, tp.DepthScaling(), tp.oo).fluctuations.covariance.reshape(3, 3)[upper]
    rows, values, errors = [], [], []
    for n in (32, 64):
        for depth in (8, 16, 32):
            rng = np.random.default_rng(n * depth)
            f = np.concatenate([outputs(TASK, OPT, tp.DepthScaling(), depth, lambda h: np.sin(h + 0.5),
                                        lambda h: np.cos(h + 0.5), drawn(depth, n, 200, rng)) for _ in range(60)])
            centered = f - f.mean(axis=0)
            each = n * (centered[:, :, None] * centered[:, None, :])[:, *upper]
            rows.append([1, 1 / n, 1 / depth, 1 / depth**2])
            values.append(each.mean(axis=0))
            errors.append(each.std(axis=0) / len(f) ** 0.5)
    design, scores = np.array(rows), []
    for entry, value in enumerate(expected):
        sigma = np.array(errors)[:, entry]
        fit = np.linalg.inv(design.T @ (design / sigma[:, None] ** 2))
        found = (fit @ (design / sigma[:, None] ** 2).T @ np.array(values)[:, entry])[0]
        scores.append((found - value) / fit[0, 0] ** 0.5)
        print(f"Sigma {upper[0][entry]}{upper[1][entry]}: {found:.4f} +- {fit[0, 0] ** 0.5:.4f}, computed {value:.4f}")
    assert np.max(np.abs(scores)) < 3.5
