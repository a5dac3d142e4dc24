"""Kets as samples: linear programs to rounding, closed forms of nonlinear ones to the error that is said."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from math import asin, exp, pi, sqrt

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings

import tpcalc as tp
from support.closeness import assert_close
from reference.conditioned import run_conditioned
from reference.particles import ParticleRun, run_particles
from tpcalc.interpreters.program_coefficients import read_program_coefficients
from tpcalc.training.builders import L, T
from tpcalc.programs.language import Family, Matrix, MatVec, Mean, Scalar, Transpose, Vector
from tpcalc.programs.program import Assign, Program
from tpcalc.testing.programs import ProgramExample, linear_programs

A, B, X, Y, Z, H = (Family(Vector, name)() for name in "abxyzh")
W, V, F = Family(Matrix, "W"), Family(Matrix, "V"), Family(Scalar, "f")
DATA = dict(xi=np.array([1.0, 0.8, -0.6, 1.1]), y=np.array([1.0, -0.7, 0.5, 1.2]))


def statements(**values: sp.Expr) -> Program:
    named = dict(a=A, b=B, x=X, y=Y, z=Z, h=H)
    targets = {name: named.get(name, F[int(name[1:])] if name[1:] else None) for name in values}
    return Program("p", (A, B), (W[0], V[0]), (), tuple(Assign(targets[n], value) for n, value in values.items()), ())


@settings(max_examples=30)
@given(linear_programs())
def test_linear_programs_are_exact_with_orthonormal_draws(example: ProgramExample) -> None:
    """All scalars and brackets are those of the coefficients."""
    exact = read_program_coefficients(*example)
    found = run_particles(*example, samples=700, batches=2, balance="all")
    for member, value in exact.scalars.items():
        pieces = [exact.bracket(u, v) for u in exact.vectors for v in exact.vectors]
        assert_close(found.scalars[member], value, 1e-13, 1.0, pieces)
    for u in exact.vectors:
        for v in exact.vectors:
            size = float(exact.bracket(u, u) * exact.bracket(v, v)) ** 0.5
            assert_close(found.bracket(u, v), exact.bracket(u, v), 1e-13, 1.0, size)


@pytest.mark.parametrize("opt", [tp.SGD(0.2), tp.SGD(0.1, momentum=0.5, nesterov=True), tp.SGD(0.2, weight_decay=0.3)],
                         ids=repr)
@pytest.mark.parametrize("net", [tp.ResNet(), tp.ResNet(block="mlp"), tp.ResNet(train_embedding_readout=True)],
                         ids=repr)
def test_linear_training_is_exact_with_orthonormal_draws(net: tp.ResNet, opt: tp.SGD) -> None:
    program = tp.program(net, opt, tp.DepthScaling())
    exact = read_program_coefficients(program, {T: 4, L: 3}, DATA).series("f")
    found = run_particles(program, {T: 4, L: 3}, DATA, samples=1000, batches=2, balance="all")
    assert_close(found.series("f"), exact, 1e-13, 1.0)
    assert np.max(found.error_series("f")) < 1e-13


PHI = {"sin": (sp.sin, exp(-0.5), 0.5 * (1 - exp(-2))), "erf": (sp.erf, 2 / sqrt(3 * pi), 2 / pi * asin(2 / 3)),
       "relu": (lambda h: sp.Max(h, 0), 0.5, 0.5), "abs": (sp.Abs, 0.0, 1.0)}


@pytest.mark.parametrize("name", PHI)
def test_a_step_answers_its_own_product(name: str) -> None:
    """W^T phi(W a) = hat + |a> E phi'(h): the response within one step, E[h phi(h)], which is not zero."""
    phi, slope, square = PHI[name]
    program = statements(h=MatVec(W[0], A), x=MatVec(Transpose(W[0]), phi(H)), f0=Mean(A * X), f1=Mean(X * X),
                         f2=Mean(phi(H) ** 2))
    found = run_particles(program, {}, samples=4000, batches=16)
    wanted = [slope, square + slope**2, square]
    assert np.all(np.abs(found.series("f") - wanted) < 6 * found.error_series("f") + 3 / 4000)
    assert np.all(found.error_series("f") < 0.02)


def test_hats_are_gaussian_with_the_covariance_of_what_was_multiplied() -> None:
    """Four moments of W tanh(a) and W b, which are independent of a and b."""
    second = float(np.mean(np.tanh(np.random.default_rng(0).normal(size=10**6)) ** 2))
    program = statements(x=MatVec(W[0], sp.tanh(A)), y=MatVec(W[0], A + B), f0=Mean(X**2), f1=Mean(X**4),
                         f2=Mean(X * Y), f3=Mean(X**2 * Y**2), f4=Mean(X**2 * A**2), f5=Mean(sp.cos(Y)))
    cross = float(np.mean((lambda g: g * np.tanh(g))(np.random.default_rng(1).normal(size=10**6))))
    found = run_particles(program, {}, samples=5000, batches=16)
    wanted = [second, 3 * second**2, cross, 2 * second + 2 * cross**2, second, exp(-1)]
    assert np.all(np.abs(found.series("f") - wanted) < 6 * found.error_series("f") + 4e-3)


def test_adjoints_and_means_hold_over_the_samples() -> None:
    """<u|W v> = <W^T u|v> for nonlinear u and v, hats have mean 0, and are orthogonal to initial vectors."""
    program = statements(h=MatVec(W[0], sp.tanh(A)), x=MatVec(Transpose(W[0]), sp.cos(H) * B),
                         y=MatVec(W[0], sp.Abs(X) + A * B), z=MatVec(Transpose(W[0]), Y**2), f0=Mean(H),
                         f1=Mean(H * A), f2=Mean(H * B))
    for run in run_particles(program, {}, samples=300, batches=2).batches:
        assert_close(run.bracket(sp.cos(H) * B, Y), run.bracket(X, sp.Abs(X) + A * B), 1e-13, 1.0)
        assert_close(run.bracket(Y**2, Y), run.bracket(Z, sp.Abs(X) + A * B), 1e-13, 1.0)
        assert_close(run.bracket(Y**2, H), run.bracket(Z, sp.tanh(A)), 1e-13, 1.0)
        assert_close(run.series("f"), np.zeros(3), 1e-14, 1.0)


def test_repeated_and_nearly_equal_vectors() -> None:
    """A covariance of rank one is no trouble, and a difference of 1e-9 keeps its digits."""
    close = A + B / 10**9
    program = statements(x=MatVec(W[0], sp.tanh(A)), y=MatVec(W[0], sp.tanh(A)), z=MatVec(W[0], 2 * sp.tanh(A)),
                         h=MatVec(W[0], close) - MatVec(W[0], A), f0=Mean(H**2) * 10**18, f1=Mean(X * H) * 10**9,
                         f2=Mean(sp.tanh(A) * B))
    found = run_particles(program, {}, samples=500, batches=4, balance="all")
    for run in found.batches:
        assert_close(run.vectors[X], run.vectors[Y], 1e-14)
        assert_close(run.vectors[Z], 2 * run.vectors[X], 1e-14)
    assert abs(found.scalars[F[0]] - 1) < 1e-6  # rounding of a difference of 1e-9
    assert abs(found.scalars[F[1]]) < 6 * found.errors[F[1]] + 0.02


def test_identical_inputs_of_a_batch_are_one_input() -> None:
    program = tp.program(tp.ResNet("relu"), tp.SGD(0.5), tp.DepthScaling())
    twice = tp.program(tp.ResNet("relu"), tp.SGD(0.5), tp.DepthScaling(), batch=True)
    one = run_particles(program, {T: 4, L: 3}, DATA, samples=400, batches=2)
    doubled = {name: np.stack([value, value], axis=1) for name, value in DATA.items()}
    two = run_particles(twice, {T: 4, L: 3, "B": 2}, doubled, samples=400, batches=2)
    assert_close(two.series("f"), np.stack([one.series("f")] * 2, axis=1), 1e-12, 1.0)


def errors(program: Program, exact: np.ndarray, samples: int, seeds: int) -> float:
    """Root mean square over the outputs after the first, and over seeds."""
    found = [run.series("f") for seed in range(seeds // 8) for run in
             run_particles(program, {T: 3, L: 2}, {k: v[:3] for k, v in DATA.items()}, samples, seed, 8).batches]
    return float(np.sqrt(np.mean((np.array(found) - exact)[:, 1:] ** 2)))


def test_the_error_falls_like_one_over_the_root_of_the_samples() -> None:
    program = tp.program(tp.ResNet(block="mlp"), tp.SGD(0.7), tp.DepthScaling())
    exact = read_program_coefficients(program, {T: 3, L: 2}, {k: v[:3] for k, v in DATA.items()}).series("f")
    samples = 2 ** np.arange(8, 15, 2)
    found = [errors(program, exact, int(M), 48) for M in samples]
    slope = np.polyfit(np.log(samples), np.log(found), 1)[0]
    assert abs(slope + 0.5) < 0.08


def test_the_error_that_is_said_is_the_error_that_is_made() -> None:
    """z-scores over independent seeds have variance near 1 (exactly 7/5 with 8 batches)."""
    program = tp.program(tp.ResNet(block="mlp"), tp.SGD(0.7), tp.DepthScaling())
    data = {k: v[:3] for k, v in DATA.items()}
    exact = read_program_coefficients(program, {T: 3, L: 2}, data).series("f")
    runs = [run_particles(program, {T: 3, L: 2}, data, 2000, seed, 8) for seed in range(16)]
    z = np.array([(run.series("f") - exact)[1:] / run.error_series("f")[1:] for run in runs])
    assert 0.8 < np.mean(z**2) < 2.2


def test_draws_orthogonal_to_what_they_are_independent_of_have_smaller_errors() -> None:
    """A third of the error of real networks of that width, or less, on the first outputs."""
    program = tp.program(tp.ResNet(), tp.SGD(0.7), tp.DepthScaling())
    data = {k: v[:3] for k, v in DATA.items()}
    exact = read_program_coefficients(program, {T: 3, L: 2}, data).series("f")
    real = np.array([run_conditioned(program, {T: 3, L: 2}, data, 500, seed).series("f") for seed in range(48)])
    assert errors(program, exact, 500, 48) < np.sqrt(np.mean((real - exact)[:, 1:] ** 2)) / 3


def test_seeds_executors_and_progress() -> None:
    program = statements(x=MatVec(W[0], A), f0=Mean(sp.tanh(X) * B))
    seen: list[tuple[int, int]] = []
    one = run_particles(program, {}, samples=300, seed=1, batches=3, progress=lambda *done: seen.append(done))
    with ThreadPoolExecutor(2) as executor:
        two = run_particles(program, {}, samples=300, seed=1, batches=3, executor=executor)
    other = run_particles(program, {}, samples=300, seed=2, batches=3)
    assert one.scalars == two.scalars and one.errors == two.errors and one.scalars != other.scalars
    assert seen == [(1, 3), (2, 3), (3, 3)]
    values = [run.scalars[F[0]] for run in one.batches]
    assert len(set(values)) == 3
    assert_close(one.scalars[F[0]], np.mean(values), 1e-15)
    assert_close(one.error_series("f"), [np.std(values, ddof=1) / sqrt(3)], 1e-15)
    assert one.bracket_error(X, X) < 1e-15 and abs(one.bracket(X, X) - 1) < 1e-14


def test_bad_calls_are_refused_before_the_work() -> None:
    program = statements(x=MatVec(W[0], A), y=MatVec(Transpose(W[0]), X), z=MatVec(V[0], B))
    # a, b and 1, two products with W; three with any, both ways
    for balance, least, what in (("initial", 40, "one matrix"), ("all", 72, "all matrices")):
        said = f"samples: got {least - 1}; program p .* products with {what} and .* at least {least} are needed"
        with pytest.raises(ValueError, match=said):
            run_particles(program, {}, samples=least - 1, balance=balance)
        assert isinstance(run_particles(program, {}, samples=least, balance=balance), ParticleRun)
    with pytest.raises(ValueError, match="batches: got 1; expected a whole number of at least 2"):
        run_particles(program, {}, batches=1)
    with pytest.raises(ValueError, match="balance: got 'none'; expected 'initial', 'all'"):
        run_particles(program, {}, balance="none")
    for samples, what in ((10**11, "program p"), (10**8, "1000 batches of program p")):
        with pytest.raises(MemoryError, match=f"^{what} with 3 products of {samples} particles needs .* GiB"):
            run_particles(program, {}, samples=samples, batches=1000)
    with pytest.raises(tp.Divergence, match="program p diverges: x is not finite"):
        run_particles(statements(x=sp.exp(10**6 * A**2)), {}, samples=100)
