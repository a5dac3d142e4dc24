"""Errors of finite width and depth: Depthwise Hyperparameter Transfer, appendices H and I, equations (103) to (117)."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp

NET, SCALE = tp.ResNet("linear"), tp.DepthScaling(0.5, 0.5)
TASK = tp.Task([1, 0.8], [1, -0.7])


def slope(sizes: list[int], errors: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


def test_the_decomposition_112_to_116() -> None:
    """Finite depth is L^-2 in square (115), the variance Sigma_L / N with Sigma_L at a distance of 1 / L (113), the
    mean 1 / N away (114); one network is then N^-1 in square, an ensemble L^-2 where N is more than L (116)."""
    depths = [16, 32, 64]
    limit = tp.train(NET, TASK, tp.SGD(0.3), SCALE, tp.oo)
    runs = [tp.train(NET, TASK, tp.SGD(0.3), SCALE, depth) for depth in depths]
    depth_errors = [float(np.sum((run.outputs - limit.outputs) ** 2)) for run in runs]
    assert slope(depths, depth_errors) == pytest.approx(-2, abs=0.1)
    sigma = limit.fluctuations.covariance
    assert slope(depths, [float(np.max(np.abs(run.fluctuations.covariance - sigma))) for run in runs]
                 ) == pytest.approx(-1, abs=0.1)
    deep, variance, bias = depth_errors[-1], np.sum(runs[-1].fluctuations.cumulant(2)), runs[-1].fluctuations.bias
    widths = [2**k for k in range(10, 21, 2)]
    change = runs[-1].outputs - limit.outputs
    ensembled = [float(np.sum((change + bias / width) ** 2)) for width in widths]
    single = [float(variance / width) + one for width, one in zip(widths, ensembled)]
    assert slope(widths[:2], single[:2]) == pytest.approx(-1, abs=0.15)
    assert ensembled[-1] == pytest.approx(deep, rel=1e-2)
    assert ensembled[0] < 0.1 * single[0]


@pytest.mark.slow
def test_the_decomposition_of_real_networks() -> None:
    """Variances and means over 200 networks are those of (113) and (114)."""
    depth, width, many = 4, 64, 200
    run = tp.train(NET, TASK, tp.SGD(0.3), SCALE, depth)
    outputs = np.array([tp.train(NET, TASK, tp.SGD(0.3), SCALE, depth, width=width, method="dense",
                                 seed=seed).outputs[:, 0, 0] for seed in range(many)])
    mean, std, _ = run.at_width(width)
    assert np.all(np.abs(outputs.mean(0) - mean[:, 0, 0]) < 4 * std[:, 0, 0] / np.sqrt(many))
    assert np.allclose(outputs.std(0), std[:, 0, 0], rtol=0.25)


def test_tangent_kernels_of_relu_converge_like_one_over_L_as_in_figure_6() -> None:
    net, angles, depths = tp.ResNet("relu", "pre_nonlin"), np.linspace(0, np.pi, 5), [32, 64, 128, 256]
    inputs = np.stack([np.cos(angles), np.sin(angles)], axis=1)

    def ntk(depth: object) -> np.ndarray:
        return np.asarray(tp.kernel_fn(net, depth=depth)(inputs[:1], inputs, get="ntk"))

    limit = ntk(tp.oo)
    assert slope(depths, [float(np.sum((ntk(depth) - limit) ** 2)) for depth in depths]) == pytest.approx(-2, abs=0.1)


def test_kernels_before_and_after_a_step_as_in_figure_7() -> None:
    """H_0 = e^tau and H_1 - H_0 = e^(1 + tau) (tau^2 + 2/3 tau^3), which depths of 5 to 500 reach like 1 / L."""
    task, locations = tp.Task([1, 1], [1, 1]), np.array([0, 0.2, 0.4, 0.6, 0.8, 1.0])

    def kernels(depth: object) -> tuple[np.ndarray, np.ndarray]:
        found = tp.train(NET, task, tp.SGD(1.0), SCALE, depth, keep_nodes=locations).forward_covariance
        return found[:, 0, 0], found[:, 1, 1] - found[:, 0, 0]

    before, change = kernels(tp.oo)
    assert np.allclose(before, np.exp(locations), atol=1e-10)
    assert np.allclose(change, np.exp(1 + locations) * (locations**2 + 2 / 3 * locations**3), atol=1e-9)
    depths = [5, 15, 50, 150, 500]
    for number, limit in enumerate((before, change)):
        errors = [float(np.max(np.abs(kernels(depth)[number] - limit))) for depth in depths]
        assert slope(depths[2:], errors[2:]) == pytest.approx(-1, abs=0.05)


@pytest.mark.parametrize("depth", [4, 16])
def test_equation_103_needs_its_factor_of_depth_in_both_terms(depth: int) -> None:
    """h = sum_k u_k / sqrt(L) with Var u_k = Phi_k: d<phi(h)^2> / d Phi_k is Price's term alone, of order 1 / L; a D of
    order one is L times it. The printed D, without L before it, vanishes."""
    variance, z = sp.Symbol("v", positive=True), sp.Symbol("z", real=True)
    phi = z + z**3 / 3

    def mean(body: sp.Expr) -> sp.Expr:
        density = sp.exp(-(z**2) / (2 * variance)) / sp.sqrt(2 * sp.pi * variance)
        return sp.simplify(sp.integrate(sp.expand(body) * density, (z, -sp.oo, sp.oo)))

    change = sp.diff(mean(phi**2), variance) / depth                       # d Phi_k moves Var h by 1 / L
    price = mean(sp.diff(phi**2, z, 2)) / 2 / depth                         # both u_k enter h by L^(-1/2)
    assert sp.simplify(change - price) == 0
    at_one = float((depth * price).subs(variance, 1))
    assert at_one == pytest.approx(1 + 4 + 5) and float(price.subs(variance, 1)) == pytest.approx(at_one / depth)


def test_equation_110_holds_with_the_transpose_at_the_second_layer_time() -> None:
    """(1 - D) Sigma (1 - D)^T = kappa, in sums over layers: the third term is Sigma(tau, r) D(tau', r)."""
    rng, layers = np.random.default_rng(0), 40
    d, root = np.tril(rng.standard_normal((layers, layers)), -1) / layers, rng.standard_normal((layers, layers))
    kappa, solve = root @ root.T / layers, np.linalg.inv(np.eye(layers) - d)
    sigma = solve @ kappa @ solve.T
    corrected = sigma - d @ sigma - sigma @ d.T + d @ sigma @ d.T
    assert np.allclose(corrected, kappa)
    printed = sigma - d @ sigma - np.sum(sigma * d, axis=1, keepdims=True) + d @ sigma @ d.T  # D(tau, r) Sigma(r, tau')
    assert np.max(np.abs(printed - kappa)) > 1e-2


def test_equation_117_telescopes_with_the_other_networks_own_feature_learning() -> None:
    """Sums of differences on the right are the difference on the left: mu0(N', L') goes with f_(N', L')."""
    f, here, there, near, far, oo = sp.Function("f"), *sp.symbols("mu nu near far limit")
    left = f(here, near) - f(there, far)

    def right(second: sp.Symbol) -> sp.Expr:
        return ((f(here, near) - f(here, oo)) - (f(second, far) - f(there, oo)) + (f(here, oo) - f(there, oo)))

    assert sp.expand(left - right(there)) == 0
    assert sp.expand(left - right(here)) != 0
