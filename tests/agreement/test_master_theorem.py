"""The master theorem as a test: real networks, networks sampled through their products, particles and exact limits are
one program's readings, and agree as far as each says it does."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from scipy import stats

import tpcalc as tp
from support.nonlinear import nonlinear_programs
from tpcalc.errors import Divergence
from reference.conditioned import run_conditioned
from reference.particles import run_particles
from tpcalc.interpreters.program_coefficients import read_program_coefficients
from tpcalc.interpreters.vectors import run_program
from tpcalc.programs.blocks import vector
from tpcalc.training.builders import L, T
from tpcalc.programs.program import Program
from tpcalc.testing.programs import ProgramExample

FALSE_ALARM = 1e-6  # of a whole test; seeds and examples are fixed
DATA = dict(xi=np.array([1.0, 0.8, -0.6]), y=np.array([1.0, -0.7, 0.5]))
SIN = sp.sin(sp.Symbol("x", real=True) + sp.Rational(1, 2))
FIVE = ("tanh", "relu", "abs", "erf", SIN)  # the last is a user's


def brackets(reading: Any, vectors: Any) -> np.ndarray:
    """All brackets of the last vectors that a program assigns."""
    return np.array([float(reading.bracket(u, v)) for u, v in combinations_with_replacement(vectors, 2)])


def last_vectors(example: ProgramExample) -> list[Any]:
    return list(run_program(*example, width=4).vectors)[-3:]


def sample(run: Callable[..., Any], example: ProgramExample, seeds: int, width: int) -> np.ndarray:
    vectors = last_vectors(example)
    return np.array([brackets(run(*example, width=width, seed=seed), vectors) for seed in range(seeds)])


def assert_same_law(example: ProgramExample, seeds: int, examples: int) -> None:
    """Every bracket, by Kolmogorov and Smirnov, at a width where fluctuations are large."""
    dense, ours = (sample(run, example, seeds, 5) for run in (run_program, run_conditioned))
    for one, two in zip(dense.T, ours.T):
        assert stats.ks_2samp(one, two).pvalue > FALSE_ALARM / (examples * dense.shape[1])


@settings(max_examples=3, derandomize=True)
@given(nonlinear_programs(max_statements=6, max_matrices=1, max_steps=2))
def test_sampled_products_have_the_law_of_real_networks(example: ProgramExample) -> None:
    assert_same_law(example, 80, 3)


@pytest.mark.slow
@settings(max_examples=40, derandomize=True)
@given(nonlinear_programs(max_statements=8, max_matrices=1, max_steps=3))
def test_sampled_products_have_the_law_of_real_networks_more_closely(example: ProgramExample) -> None:
    assert_same_law(example, 250, 40)


@pytest.mark.slow
@pytest.mark.parametrize("phi", FIVE, ids=str)
def test_trainings_of_narrow_networks_have_one_law(phi: Any) -> None:
    """f, features and gradients of a whole training at n = 6, where every effect of the width is large."""
    program = tp.program(tp.ResNet(phi), tp.SGD(0.7, momentum=0.5), tp.DepthScaling())
    ends = [vector(name)[t, l] for t in range(3) for name, l in (("x", 4), ("dx", 0))]

    def sample(run: Callable[..., Any]) -> np.ndarray:
        runs = [run(program, {T: 3, L: 4}, DATA, width=6, seed=seed) for seed in range(150)]
        return np.array([[*one.series("f"), *(one.bracket(v, v) for v in ends)] for one in runs])

    dense, ours = (sample(run) for run in (run_program, run_conditioned))
    for one, two in zip(dense.T, ours.T):
        assert stats.ks_2samp(one, two).pvalue > FALSE_ALARM / (5 * dense.shape[1])


@settings(max_examples=12, derandomize=True)
@given(nonlinear_programs(max_statements=7, max_steps=3))
def test_wide_networks_tend_to_particles(example: ProgramExample) -> None:
    """Means over seeds, to the errors of both and a bias of order 1/n."""
    vectors = last_vectors(example)
    wide = sample(run_conditioned, example, 8, 4000)
    particles = run_particles(*example, samples=4000, batches=8)
    found = brackets(particles, vectors)
    error = np.array([particles.bracket_error(u, v) for u, v in combinations_with_replacement(vectors, 2)])
    both = np.sqrt(np.var(wide, axis=0, ddof=1) / 8 + error**2)
    size = np.max(np.abs(found), initial=1.0)
    allowed = stats.t(7).isf(FALSE_ALARM / (50 * len(found))) * both + 40 * size / 4000
    assert np.all(np.abs(wide.mean(axis=0) - found) < allowed)


def outputs(program: Program, run: Callable[..., Any], seeds: int, size: int) -> np.ndarray:
    """f of steps 1 and 2, shape (seeds, 2)."""
    return np.array([run(program, {T: 3, L: 4}, DATA, width=size, seed=seed).series("f")[1:] for seed in range(seeds)])


@pytest.mark.slow
@pytest.mark.parametrize("phi", FIVE, ids=str)
def test_the_distance_to_particles_falls_like_one_over_the_root_of_the_width(phi: Any) -> None:
    program = tp.program(tp.ResNet(phi), tp.SGD(0.7), tp.DepthScaling())
    limit = run_particles(program, {T: 3, L: 4}, DATA, samples=2**16, batches=16, keep=()).series("f")[1:]
    widths = 2 ** np.arange(7, 14, 2)
    distances = [np.sqrt(np.mean((outputs(program, run_conditioned, 60, int(n)) - limit) ** 2)) for n in widths]
    assert abs(np.polyfit(np.log(widths), np.log(distances), 1)[0] + 0.5) < 0.08


def test_particles_tend_to_the_exact_limit_and_real_networks_to_particles() -> None:
    """A linear program, where there is one: errors of particles, of real and of sampled networks."""
    program = tp.program(tp.ResNet(block="mlp"), tp.SGD(0.7), tp.DepthScaling())
    exact = read_program_coefficients(program, {T: 3, L: 4}, DATA).series("f")[1:]
    particles = run_particles(program, {T: 3, L: 4}, DATA, samples=8000, batches=8)
    z = (particles.series("f")[1:] - exact) / particles.error_series("f")[1:]
    assert np.max(np.abs(z)) < stats.t(7).isf(FALSE_ALARM)
    for run in (run_program, run_conditioned):
        found = outputs(program, run, 30, 500)
        error = found.std(axis=0, ddof=1) / np.sqrt(30)
        assert np.all(np.abs(found.mean(axis=0) - exact) < stats.t(29).isf(FALSE_ALARM) * error + 5 / 500)


# f_1, f_2, f_3 at infinite depth on four steps, from kernels of the Gaussian residual stream, without sampling
INFINITE_DEPTH = {("post_nonlin", "tanh"): (0.53060, -0.01838, -0.10760),
                  ("post_nonlin", "sin"): (0.59861, 0.00160, 0.01138),
                  ("post_nonlin", "abs"): (0.813409, 0.111616, -0.048224),
                  ("mlp", "tanh"): (0.894931, 0.033056, -0.142587),
                  ("mlp", "relu"): (1.170172, -0.001622, -0.184617)}


@pytest.mark.slow
@pytest.mark.parametrize("block, name", INFINITE_DEPTH)
def test_deep_particles_tend_to_the_infinite_depth_solution(block: str, name: str) -> None:
    """Outputs at L = 16, 32, 64, extrapolated by polynomials in 1/L, in standard errors."""
    data = dict(xi=[1, 0.8, -0.6, 1.1], y=[1, -0.7, 0.5, 1.2])
    net = tp.ResNet(SIN if name == "sin" else name, block=block)
    weights = np.array([1 / 3, -2.0, 8 / 3])  # exact for a + b/L + c/L^2
    program = tp.program(net, tp.SGD(1.0), tp.DepthScaling())
    values = np.array([[run.series("f")[1:] for run in run_particles(program, {T: 4, L: depth}, data, 2**13, depth, 24,
                                                                     keep=()).batches] for depth in (16, 32, 64)])
    mean, error = values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(24)
    found, uncertain = weights @ mean, np.sqrt(weights**2 @ error**2)
    z = (found - INFINITE_DEPTH[block, name]) / uncertain
    assert np.max(np.abs(z)) < 4 and np.sqrt(np.mean(z**2)) < 2.5 and np.max(uncertain) < 0.01


def test_drawn_nonlinear_programs_are_nonlinear() -> None:
    seen = []

    @settings(max_examples=60, derandomize=True, database=None)
    @given(nonlinear_programs())
    def collect(example: ProgramExample) -> None:
        try:
            read_program_coefficients(*example)
        except (tp.NotCovered, Divergence):
            seen.append(example)

    collect()
    assert len(seen) > 20
