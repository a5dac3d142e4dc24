"""Correlations of gradients between layers against gradients of particles, which know nothing of kernels."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp
from reference.particles import ParticleRun, run_particles
from tpcalc.interpreters.training import Training as Job
from tpcalc.programs.blocks import vector
from tpcalc.studies.between_layers import measured_correlation

TASK, DEPTHS = tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5]), (16, 32, 64)
GRADIENTS = {"post_nonlin": {"W": ("dh", "x")}, "pre_nonlin": {"W": ("dx", "z")},
             "mlp": {"W1": ("dh", "x"), "W2": ("dx", "z")}}


def trained(net: tp.ResNet, depth: int, samples: int, batches: int) -> ParticleRun:
    job = Job(net, TASK, tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), depth)
    return run_particles(job.program(), job.sizes(), job.data(), samples, batches=batches)


def derived(net: tp.ResNet, run: ParticleRun, depth: int, matrix: str, t: int) -> float:
    """The mean over layers, at the variances that the stream has there."""
    streams = [vector("x")[t, l] for l in range(0, depth, 4)]
    return float(np.mean([tp.theory.gradient_correlation(net, run.bracket(x, x))[matrix].value for x in streams]))


@pytest.mark.slow
@pytest.mark.parametrize("phi, block",
                         [("linear", "post_nonlin"), ("relu", "post_nonlin"), ("abs", "post_nonlin"),
                          ("tanh", "post_nonlin"),
                          ("relu", "pre_nonlin"), ("tanh", "mlp"), ("relu", "mlp")])
def test_derived_correlations_are_the_limit_of_measured_ones(phi: str, block: str) -> None:
    """Extrapolated in 1/L, before and after two updates."""
    net, batches = tp.ResNet(phi, block=block), 6
    runs = [trained(net, depth, 4096, batches) for depth in DEPTHS]
    of = {"W": ("dx", "x")} if phi == "linear" else GRADIENTS[block]
    for matrix, pair in of.items():
        for t in (0, 2):
            a, b, c = (measured_correlation(run, pair, depth, t) for run, depth in zip(runs, DEPTHS))
            limit = (8 * c - 6 * b + a) / 3
            error = np.std(limit, ddof=1) / np.sqrt(batches)
            off = np.mean(limit) - derived(net, runs[-1], DEPTHS[-1], matrix, t)
            assert error < 0.006 and abs(off) < 4 * error + 0.001, (matrix, t, off, error)


def test_abs_decorrelates_relu_halves_and_linear_does_not() -> None:
    """At one depth, to what 1/L leaves."""
    for phi, of in (("linear", ("dx", "x")), ("relu", ("dh", "x")), ("abs", ("dh", "x"))):
        net = tp.ResNet(phi)
        found = np.mean(measured_correlation(trained(net, 32, 1024, 2), of, 32, 2))
        assert abs(found - tp.theory.gradient_correlation(net)["W"].value) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["relu", "abs"])
def test_feature_differences_of_particles_approach_the_limit(phi: str) -> None:
    """d(eps)^2 at step 2, extrapolated in 1/L; every piece is some whole layers."""
    net, opt, scale, eps = tp.ResNet(phi), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), np.array([1 / 8, 1 / 2])
    limit = tp.train(net, TASK, opt, scale, tp.oo, keep_nodes="all").feature_difference(2, 0.25, eps)
    found = []
    for seed in range(4):
        a, b, c = (tp.train(net, TASK, opt, scale, depth, seed=seed, keep_nodes="all", batches=5)
                   .feature_difference(2, 0.25, eps)**2 for depth in DEPTHS)
        found.append((8 * c - 6 * b + a) / 3)
    error = np.std(found, axis=0, ddof=1) / 2
    off = np.abs(np.mean(found, axis=0) - limit**2)
    assert np.all(error < 0.04 * limit**2) and np.all(off < 4 * error), (off, error, limit**2)
