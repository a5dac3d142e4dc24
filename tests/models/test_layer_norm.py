"""LayerNorm without gains: centered, then divided by the root mean square, and what infinite width makes of the
mean."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.programs.blocks import Branch
from tpcalc.programs.language import MatVec

TASK, OPT, SCALE = tp.Task([1.0, 0.8, -0.6], [1.0, -0.7, 0.5]), tp.SGD(0.5), tp.DepthScaling()


def layer_norm(x: np.ndarray) -> np.ndarray:
    """As PyTorch's functional.layer_norm has it, without its eps."""
    return (x - x.mean()) / np.sqrt(x.var())


def test_the_derived_backward_pass_is_that_of_finite_differences() -> None:
    """One step of x + eps W2 tanh(W1 layer_norm(x)), the update of every matrix by central differences of the loss."""
    n, depth, rate = 6, 2, 0.8
    net, task = tp.ResNet("tanh", "mlp", norm="layer"), tp.Task([1.0, -0.5], [1.0, 0.3])
    run = tp.train(net, task, tp.SGD(rate), SCALE, depth, width=n, method="dense", seed=3)
    given = run.initial_weights()
    U, nV = given["U"].reshape(n), given["nV"].reshape(n)
    weights = np.stack([given["W1"], given["W2"]])

    def output(w: np.ndarray, xi: float) -> float:
        x = xi * U
        for layer in range(depth):
            x = x + depth**-0.5 * w[1, layer] @ np.tanh(w[0, layer] @ layer_norm(x))
        return float(nV @ x / n)

    gradient = np.zeros_like(weights)
    for location in np.ndindex(*weights.shape):
        ends = []
        for step in (1e-5, -1e-5):
            moved = weights.copy()
            moved[location] += step
            ends.append((output(moved, 1.0) - 1.0)**2 / 2)
        gradient[location] = (ends[0] - ends[1]) / 2e-5
    assert abs(run.outputs.ravel()[0] - output(weights, 1.0)) < 1e-12
    after = weights - rate * gradient  # alpha = gamma: one factor L^(alpha - gamma) = 1, in units of tp.SGD
    assert abs(run.outputs.ravel()[1] - output(after, -0.5)) < 1e-8


@pytest.mark.parametrize("phi, block", [("linear", "post_nonlin"), ("tanh", "mlp"), pytest.param(
    "gelu", "glu", marks=pytest.mark.slow)])
def test_at_infinite_width_and_depth_a_centered_stream_is_a_stream(phi: str, block: str) -> None:
    """Streams of blocks that meet them with fresh matrices are linear in symmetric variables: their means vanish."""
    centered, plain = (tp.train(tp.ResNet(phi, block, norm=norm), TASK, OPT, SCALE, tp.oo) for norm in ("layer", "rms"))
    assert centered.method == plain.method == "collocation"
    assert np.array_equal(centered.outputs, plain.outputs)


@pytest.mark.slow
def test_collocation_meets_common_draws_whose_means_are_their_own() -> None:
    net = tp.ResNet("relu", "mlp", norm="layer")
    solved = tp.train(net, TASK, OPT, SCALE, tp.oo)
    sampled = tp.train(net, TASK, OPT, SCALE, tp.oo, method=tp.methods.CommonDraws(tolerance=0.004, budget=8e7))
    apart = np.abs(solved.outputs - sampled.outputs)
    assert np.all(apart < 4 * sampled.standard_error + sampled.bias_bound + 1e-9)
    assert np.max(sampled.standard_error) < 0.004


def rectified(b: Branch) -> sp.Expr:
    """relu(W x), whose mean over coordinates is left in the stream."""
    return b.let("z", b.phi(b.let("h", MatVec(b.weights(), b.x))))


def test_a_mean_that_stays_is_a_number_of_its_own() -> None:
    """In kets, in particles as real networks have it, and no matter of overlaps at infinite depth."""
    net = tp.ResNet("relu", rectified, norm="layer")
    assert "|cn[t, l]> = |x[t, l - 1]> - E[|x[t, l - 1]>]" in str(tp.kets(tp.program(net, OPT, SCALE)))
    opt, scale, particles = tp.SGD(0.2), tp.DepthScaling(branch=3), tp.methods.Particles(samples=1 << 15)
    wide, by_square = (tp.train(tp.ResNet("relu", rectified, norm=norm), TASK, opt, scale, 4, method=particles)
                       for norm in ("layer", "rms"))
    assert np.abs(wide.outputs - by_square.outputs).max() > 5 * (wide.error_estimate + by_square.error_estimate)
    found = np.array([tp.train(net, TASK, opt, scale, 4, 512, seed=seed).outputs for seed in range(24)])
    error = np.hypot(found.std(axis=0, ddof=1) / np.sqrt(len(found)), wide.error_estimate / 2)
    assert np.abs((found.mean(axis=0) - wide.outputs) / error).max() < 4
    with pytest.raises(ValueError, match="its output has a mean that is not zero"):
        tp.train(net, TASK, OPT, SCALE, tp.oo, method="collocation")


@pytest.mark.parametrize("opt", [tp.SGD(0.5, momentum=0.5), pytest.param(
    tp.Adam(0.1, eps=1e-3), marks=pytest.mark.slow)], ids=("momentum", "adam"))
def test_real_networks_agree_with_particles(opt: tp.SGD | tp.Adam) -> None:
    """relu before the matrix."""
    net = tp.ResNet("relu", "pre_nonlin", norm="layer")
    wide = tp.train(net, TASK, opt, SCALE, 4, method=tp.methods.Particles(samples=1 << 13))
    found = np.array([tp.train(net, TASK, opt, SCALE, 4, 256, seed=seed).outputs for seed in range(24)])
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    z = (found.mean(axis=0) - wide.outputs) / np.hypot(error, wide.error_estimate / 2)
    assert np.abs(z).max() < 4


def test_all_real_networks_are_one() -> None:
    """Products by the matrices themselves, and by what is known of them."""
    net = tp.ResNet("tanh", "mlp", norm="layer")
    dense, conditioned = (np.array([tp.train(net, TASK, OPT, SCALE, 3, 24, method=method, seed=seed).outputs.ravel()
                                    for seed in range(200)]) for method in ("dense", "conditioned"))
    error = np.hypot(*(one.std(axis=0, ddof=1) / np.sqrt(len(one)) for one in (dense, conditioned)))
    assert np.abs((dense.mean(axis=0) - conditioned.mean(axis=0)) / error).max() < 4


def test_verdicts_are_those_of_rms_norm() -> None:
    for point in ((0.5, 0.5), (0.5, 0.25)):
        centered, plain = (tp.classify(*point,
                                       tp.ResNet("linear", "post_nonlin", norm=norm)) for norm in ("layer", "rms"))
        assert (centered.name, centered.exponents) == (plain.name, plain.exponents)


@pytest.mark.parametrize("ask, said", [
    (lambda: tp.kernel_fn(tp.ResNet("relu", "pre_nonlin", norm="layer")), "does not close on kernels"),
    (lambda: tp.train(tp.ResNet(norm="layer"), TASK, OPT, SCALE, 2, 1), "width: got 1 with norm='layer'"),
    (lambda: tp.train(tp.ResNet(norm="layer"), tp.Task([0.0], [1.0]), OPT, SCALE, 2, 8), "norm 0, .*norm='layer'"),
    (lambda: tp.train(tp.ResNet(norm="layer"), TASK, tp.Muon(0.1), SCALE, tp.oo, method="collocation"), "norm")])
def test_what_is_not_taken_is_refused_by_name(ask: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ask()  # type: ignore[operator]
