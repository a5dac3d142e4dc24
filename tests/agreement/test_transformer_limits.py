"""Transformers of infinite width, heads and depth against the integral equations of attention, solved elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp

X = np.array([(1, 0), (.5, .8), (-.6, .7), (1.1, -.4), (.3, -.9), (.8, .5), (-.2, 1), (.9, .1), (-.7, -.6)])
Y = np.array([1, -.7, .5, 1.2, -.4, .8, -.5, .6, .9])
# by quasi-Monte Carlo of one head's kernels and collocation in layer time: rate 1 on q, k, v, o, ends frozen, no MLP
REFERENCES = {"two positions, no mask": (2, 1, False, 6, [[0, 0], [.08582, .35964], [.71487, .69714]]),
              "three positions, causal": (3, 2, True, 9, [[0, 0, 0], [1.32192, 1.05400, 1.06474],
                                                          [.79873, .10910, -.02683]])}


@pytest.mark.slow
@pytest.mark.parametrize("name, shared", [*((name, 1) for name in REFERENCES), ("two positions, no mask", 2)])
def test_common_draws_meet_the_references(name: str, shared: int) -> None:
    """Kernels are means over heads, so that keys which heads share change nothing here, where kernels are all."""
    positions, head_dim, causal, rows, wanted = REFERENCES[name]
    task = tp.Sequences(X[:rows].reshape(3, 1, positions, 2), Y[:rows].reshape(3, 1, positions))
    net = tp.Transformer(head_dim=head_dim, positions=positions, mlp=None, causal=causal, queries_per_key=shared)
    run = tp.train(net, task, tp.SGD(1.0), tp.DepthScaling(), tp.oo,
                   method=tp.methods.CommonDraws(tolerance=0.02, budget=2e7))
    error = np.abs(run.outputs[..., 0].squeeze() - wanted)
    assert run.error_estimate < 0.02
    assert np.all(error < 4 * run.standard_error.squeeze() + run.bias_bound.squeeze() + 1e-4)
    assert np.all(run.standard_error < 0.01)  # so that it says something


@pytest.mark.slow
@pytest.mark.parametrize("mlp", [None, "mlp"])
def test_kernels_and_common_draws_are_two_readings_of_one_limit(mlp: str | None) -> None:
    """One sequence of two positions a step, heads of two coordinates, with perceptrons after attention or without."""
    inputs, targets = X[:6].reshape(3, 1, 2, 2), Y[:6].reshape(3, 1, 2)
    net = tp.Transformer(head_dim=2, positions=2, mlp=mlp, phi="tanh")
    behind = None if mlp is None else tp.ResNet("tanh", mlp, "rms")
    layer = tp.theory.AttentionLayer(2, 2, causal=True, points=1024, mlp=behind)
    sampled = tp.train(net, tp.Sequences(inputs, targets), tp.SGD(0.7), tp.DepthScaling(), tp.oo,
                       method=tp.methods.CommonDraws(tolerance=0.02, budget=2e7))
    solved = tp.theory.attention_limit(layer, inputs, targets[..., None], tp.SGD(0.7))
    apart = np.abs(sampled.outputs - solved.outputs)
    assert np.all(apart < 4 * np.hypot(sampled.standard_error, solved.standard_error) + sampled.bias_bound
                  + solved.discretization + 1e-9)
    assert np.abs(solved.outputs).max() > 0.3 > 10 * np.max(sampled.standard_error)


@pytest.mark.slow
def test_real_networks_approach_particles() -> None:
    positions, head_dim, causal, rows, _ = REFERENCES["three positions, causal"]
    task = tp.Sequences(X[:rows].reshape(3, 1, positions, 2), Y[:rows].reshape(3, 1, positions))
    net = tp.Transformer(head_dim=head_dim, positions=positions, causal=causal)
    wide = tp.train(net, task, tp.SGD(0.5), tp.DepthScaling(), 8)
    outputs = [tp.train(net, task, tp.SGD(0.5), tp.DepthScaling(), 8, 512, method="dense", seed=seed).outputs
               for seed in range(24)]
    error = np.std(outputs, axis=0, ddof=1) / np.sqrt(len(outputs))
    z = (np.mean(outputs, axis=0) - wide.outputs) / np.hypot(error, wide.error_estimate / 3)
    assert wide.method == "particles" and np.abs(z).max() < 4


@pytest.mark.slow
def test_shared_keys_have_a_limit_of_their_own_where_updates_are_signs() -> None:
    """Particles in groups of heads against real networks; heads with keys of their own go elsewhere."""
    task = tp.Sequences(X[:6].reshape(3, 1, 2, 2), Y[:6].reshape(3, 1, 2))
    own, shared = (tp.Transformer(head_dim=2, positions=2, mlp=None, causal=False, queries_per_key=count)
                   for count in (1, 4))
    how = task, tp.SignSGD(0.4), tp.DepthScaling(), 2
    wide, other = (tp.train(net, *how, method=tp.methods.Particles(samples=2048)) for net in (shared, own))
    outputs = [tp.train(shared, *how, 512, method="dense", seed=seed).outputs for seed in range(32)]
    error = np.hypot(np.std(outputs, axis=0, ddof=1) / np.sqrt(len(outputs)), wide.error_estimate / 3)
    assert np.all(np.abs(np.mean(outputs, axis=0) - wide.outputs)[1:] < 4 * error[1:])
    assert np.max(np.abs(other.outputs - wide.outputs) / error) > 5


@pytest.mark.slow
def test_real_networks_extrapolate_to_the_limit_in_width_and_depth() -> None:
    """Trained at widths 64 to 512 and depths 8 to 64, all matrices whole; 1/n, 1/L and 1/L^2 fitted at once."""
    data = tp.Sequences(X[:6].reshape(3, 1, 2, 2), Y[:6].reshape(3, 1, 2))
    opt, scale, seeds = tp.SGD(0.5), tp.DepthScaling(), 72
    net = tp.Transformer(head_dim=2, positions=2, mlp="swiglu")
    layer = tp.theory.AttentionLayer(2, 2, causal=True, points=512, mlp=tp.ResNet(block="swiglu", norm="rms"))
    limit = tp.theory.attention_limit(layer, data.inputs, data.targets, opt)
    cells = [(n, L) for n in (64, 128, 256, 512) for L in (8, 16, 32, 64)]
    drawn = np.array([[tp.train(net, data, opt, scale, L, n, method="dense", seed=1000 * number + seed).outputs.ravel()
                       for seed in range(seeds)] for number, (n, L) in enumerate(cells)])
    means, errors = drawn.mean(axis=1), drawn.std(axis=1, ddof=1) / np.sqrt(seeds)
    terms = np.array([(1, 1 / n, 1 / L, 1 / L**2) for n, L in cells])
    found, known, misfit = np.transpose([_fitted(terms, mean, error) for mean, error in zip(means.T, errors.T)])
    wanted, doubt = limit.outputs.ravel(), limit.standard_error.ravel() + limit.discretization
    z = (found - wanted) / np.hypot(known, doubt)
    print("\noutput: limit, real networks extrapolated, standard error, z; at n = 512, L = 64")
    for location, *line in zip(np.ndindex(limit.outputs.shape), wanted, found, known, z, means[-1], errors[-1]):
        print("step {0}, position {2}:".format(*location),
              "{:8.4f} {:8.4f} {:7.4f} {:6.2f}; {:8.4f} +- {:.4f}".format(*line))
    print(f"chi^2 of the fits over {len(cells) - terms.shape[1]} degrees of freedom: {np.round(misfit, 1)}")
    assert np.abs(z).max() < 4 and np.abs(z[np.abs(wanted) > 0.1]).size >= 4
    assert np.max(known) < 0.03 < 0.25 < np.max(np.abs(wanted))  # so that it says something
    assert np.max(misfit) < 40  # of 12; the terms are those that there are


def _fitted(terms: np.ndarray, mean: np.ndarray, error: np.ndarray) -> tuple[float, float, float]:
    """The first coefficient by weighted least squares, its standard error, and chi^2."""
    weighed = terms / error[:, None]
    coefficients, (misfit,), *_ = np.linalg.lstsq(weighed, mean / error, rcond=None)
    return coefficients[0], float(np.sqrt(np.linalg.inv(weighed.T @ weighed)[0, 0])), misfit
