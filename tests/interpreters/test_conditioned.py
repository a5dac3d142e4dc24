"""Networks whose matrices are sampled through their products: the law of real ones, without the matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from scipy import stats

import tpcalc as tp
from support.closeness import assert_close
from reference.conditioned import ConditionedInterpreter, run_conditioned
from tpcalc.interpreters.program_coefficients import read_program_coefficients
from tpcalc.interpreters.vectors import ProgramRun, run_program
from tpcalc.training.builders import BATCH, L, T
from tpcalc.programs.language import Family, Matrix, MatVec, Mean, Scalar, Transpose, Vector
from tpcalc.programs.program import Assign, Program
from tpcalc.testing.programs import ProgramExample, linear_programs

A, B, X, Y, Z = (Family(Vector, name)() for name in "abxyz")
W, F = Family(Matrix, "W"), Family(Scalar, "f")
FALSE_ALARM = 1e-6  # of every comparison of laws here; seeds are fixed


def statements(*values: sp.Expr) -> Program:
    """x := first value, y := second, ... over a, b and W."""
    named = zip((X, Y, Z), values)
    return Program("p", (A, B), (W[0],), (), tuple(Assign(target, value) for target, value in named), ())


def outputs(run: Any, program: Program, seeds: int, width: int, steps: int = 3, depth: int = 2) -> np.ndarray:
    """f of every step, shape (seeds, steps)."""
    data = dict(xi=np.linspace(1, -0.5, steps), y=np.linspace(-1, 1, steps))
    return np.array([run(program, {T: steps, L: depth}, data, width=width, seed=seed).series("f")
                     for seed in range(seeds)])


def test_a_matrix_read_out_whole_after_products_is_gaussian() -> None:
    """Whatever was met first, chosen by what came before, the entries in the end are independent N(0, 1/n)."""
    n, entries, radii = 7, [], []
    for seed in range(300):
        run = ConditionedInterpreter(statements(A), {}, {}, "mse", n, seed)
        matrix, a = run.unmet(W[0]), run.normal(A, (n,))

        def product(turned: bool, vector: np.ndarray) -> np.ndarray:
            return matrix.product(turned, vector[None])[0]

        x = product(False, a)
        y = product(True, np.tanh(x) + 1)
        z = product(False, y * a)
        again = product(True, z)
        whole = matrix.product(False, np.eye(n)).T
        for ours, dense in ((x, whole @ a), (y, whole.T @ (np.tanh(x) + 1)), (z, whole @ (y * a)),
                            (again, whole.T @ z)):
            assert_close(ours, dense, 1e-12, 1.0)
        turned, _ = np.linalg.qr(np.stack([a, y, z], axis=1), mode="complete")
        entries.append(np.sqrt(n) * whole)
        radii.append(n * np.sum(whole**2))
        assert_close(np.linalg.svd(whole @ turned)[1], np.linalg.svd(whole)[1], 1e-12)
    assert stats.kstest(np.ravel(entries), "norm").pvalue > FALSE_ALARM
    assert stats.kstest(radii, stats.chi2(n**2).cdf).pvalue > FALSE_ALARM
    correlations = np.corrcoef(np.reshape(entries, (300, n * n)).T)[np.triu_indices(n * n, 1)]
    assert np.max(np.abs(correlations)) < stats.norm.isf(FALSE_ALARM / len(correlations)) / np.sqrt(300)


def nearly_dependent(generator: np.random.Generator, n: int, distance: float) -> np.ndarray:
    """Four vectors at distances from one another that fall from ``distance`` to its cube."""
    first = generator.standard_normal(n)
    return np.stack([first] + [first + distance**k * generator.standard_normal(n) for k in (1, 2, 3)])


@pytest.mark.parametrize("dtype, distance", [(np.float64, 1.0), (np.float64, 1e-2), (np.float64, 1e-4),
                                             (np.float64, 1e-5), (np.float32, 1e-1), (np.float32, 1e-2)])
def test_blocks_of_nearly_dependent_vectors_meet_one_matrix(dtype: type, distance: float) -> None:
    """Bases stay orthonormal, and what was met before and after fits <u|W v> = <W^T u|v>, to rounding."""
    n, rounds, generator = 100, 8, np.random.default_rng(5)
    matrix = ConditionedInterpreter(statements(A), {}, {}, "mse", n, 0, dtype).unmet(W[0])
    met: list[list[tuple[np.ndarray, np.ndarray]]] = [[], []]
    for _ in range(rounds):
        for turned in (False, True):
            rows = nearly_dependent(generator, n, distance).astype(dtype)
            met[turned].append((rows, matrix.product(turned, rows)))
    small = 100 * np.finfo(dtype).eps
    for side in matrix.sides:
        gram = side.basis.filled @ side.basis.filled.T / n
        assert_close(gram, np.eye(len(gram)), small, 1.0)
    (v, Wv), (u, Wu) = ([np.concatenate(parts) for parts in zip(*pairs)] for pairs in met)
    assert_close(u @ Wv.T / n, Wu @ v.T / n, small, 1.0, np.max(np.abs(u @ Wv.T)) / n)


@pytest.mark.parametrize("distance", [1e-1, 1e-3, 1e-9])
def test_nearly_equal_inputs_are_learned(distance: float) -> None:
    """Four inputs of one target, forty steps: outputs end there, up to what tells the inputs apart."""
    inputs = 1.0 + distance * np.random.default_rng(1).standard_normal((4, 2))
    task = tp.Task(np.broadcast_to(inputs, (40, 4, 2)), np.full((40, 4), 0.5))
    problem = tp.Problem(tp.ResNet("linear"), task, tp.SGD(0.1), tp.DepthScaling(), depth=6, width=200)
    for method in ("dense", "conditioned"):
        outputs = tp.train(problem, method=method).outputs
        assert_close(outputs[-1, :, 0], np.full(4, 0.5), 0.5 * distance + 1e-3, 1.0)


NETWORKS = {"linear": tp.ResNet(), "post_nonlin": tp.ResNet("tanh"),
            "pre_nonlin": tp.ResNet("relu", block="pre_nonlin"),
            "mlp, rms": tp.ResNet("erf", block="mlp", norm="rms"), "glu": tp.ResNet("tanh", block="glu")}


@pytest.mark.parametrize("name", [
    "pre_nonlin",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("linear", "post_nonlin", "mlp, rms", "glu"))])
def test_outputs_have_the_law_of_dense_networks(name: str) -> None:
    """Kolmogorov-Smirnov at n = 64, for the outputs of every step and for what memory of an optimizer makes of them."""
    opt = tp.SGD(0.3, momentum=0.5, weight_decay=0.1)
    program = tp.program(NETWORKS[name], opt, tp.DepthScaling())
    dense = outputs(run_program, program, 100, width=64)
    ours = outputs(run_conditioned, program, 100, width=64)
    for t in range(3):
        assert stats.ks_2samp(dense[:, t], ours[:, t]).pvalue > FALSE_ALARM / 15
    mixed = [values @ [1.0, 2.0, -1.0] for values in (dense, ours)]
    assert stats.ks_2samp(*mixed).pvalue > FALSE_ALARM / 15


def test_narrow_networks_have_the_law_of_dense_ones() -> None:
    """n = 3, where products exhaust the matrix and every finite-width effect is large."""
    value = MatVec(Transpose(W[0]), sp.tanh(MatVec(W[0], A)))
    program = Program("narrow", (A, B), (W[0],), (), (
        Assign(X, value), Assign(Y, MatVec(W[0], X * B)), Assign(Z, MatVec(Transpose(W[0]), Y + A)),
        Assign(F[0], Mean(X * A)), Assign(F[1], Mean(Y * A)), Assign(F[2], Mean(Z * B))), ())
    found = [np.array([run(program, {}, width=3, seed=seed).series("f") for seed in range(1000)])
             for run in (run_program, run_conditioned)]
    for t in range(3):
        assert stats.ks_2samp(found[0][:, t], found[1][:, t]).pvalue > FALSE_ALARM / 3


@settings(max_examples=40)
@given(linear_programs())
def test_adjoints_at_any_width(example: ProgramExample) -> None:
    """<u|W v> = <W^T u|v>, for updated matrices too, where products exhaust the width as well."""
    for width in (5, 40):
        run = run_conditioned(example.program, example.sizes, example.data, width=width)
        vectors = list(run.vectors) + list(example.program.vectors)
        u, v = vectors[-1], vectors[0]
        for matrix in [m for m in run.execution.assigned if isinstance(m, Matrix)] + [W[0]]:
            one, two = run.bracket(u, MatVec(matrix, v)), run.bracket(MatVec(Transpose(matrix), u), v)
            assert_close(one, two, 1e-12, 1.0, run.vector(MatVec(matrix, v)), run.vector(MatVec(Transpose(matrix), u)))


def test_products_are_linear_and_repeat() -> None:
    run = run_conditioned(statements(MatVec(W[0], A), MatVec(W[0], B), MatVec(W[0], 2 * A - 3 * B)), {}, width=30)
    assert_close(run.vectors[Z], 2 * run.vectors[X] - 3 * run.vectors[Y], 1e-14)
    assert_close(run.vector(MatVec(W[0], A)), run.vectors[X], 1e-14)
    zero = run_conditioned(statements(sp.Integer(0), MatVec(W[0], X)), {}, width=30)
    assert np.array_equal(zero.vectors[Y], np.zeros(30))


def test_wide_products_keep_lengths_and_angles() -> None:
    """<W a|W b> = <a|b> (1 + O(n^-1/2)), the transpose likewise."""
    run = run_conditioned(statements(MatVec(W[0], A), MatVec(W[0], A + B)), {}, width=2**16)
    error = 6 * np.sqrt(5 / 2**16)
    assert abs(run.bracket(X, X) - 1) < error and abs(run.bracket(X, Y) - 1) < error
    assert abs(run.bracket(Y, Y) - 2) < error


@settings(max_examples=15)
@given(linear_programs())
def test_the_mean_over_seeds_is_the_exact_limit(example: ProgramExample) -> None:
    exact = read_program_coefficients(*example)
    runs = [run_conditioned(*example, width=3000, seed=seed) for seed in range(8)]
    for pair in [(u, v) for u in exact.vectors[-4:] for v in exact.vectors]:
        found = [run.bracket(*pair) for run in runs]
        size = float(exact.bracket(pair[0], pair[0]) * exact.bracket(pair[1], pair[1])) ** 0.5
        error = np.std(found, ddof=1) / np.sqrt(8)
        assert abs(np.mean(found) - float(exact.bracket(*pair))) < 20 * error + 30 * size / 3000 + 1e-12


def test_initial_vectors_are_those_of_dense_runs_and_seeds_repeat() -> None:
    program = statements(MatVec(W[0], A))
    dense, one, two, other = (run(program, {}, width=9, seed=seed) for run, seed in (
        (run_program, 3), (run_conditioned, 3), (run_conditioned, 3), (run_conditioned, 4)))
    assert np.array_equal(dense.vector(A), one.vector(A))
    assert np.array_equal(one.vectors[X], two.vectors[X]) and not np.any(one.vectors[X] == other.vectors[X])


def test_float32_stays_float32() -> None:
    """Through constants, functions, data and updates; the adjoint property to its rounding."""
    program = tp.program(tp.ResNet("gelu", block="mlp", norm="rms", train_embedding_readout=True),
                         tp.SGD(0.3, momentum=0.5),
                         tp.DepthScaling())
    data = dict(xi=np.array([1.0, 0.5]), y=np.array([1.0, -1.0]))
    run = run_conditioned(program, {T: 2, L: 3}, data, width=500, dtype="float32")
    assert {v.dtype for v in run.vectors.values()} == {np.dtype(np.float32)}
    u, v = list(run.vectors)[-1], list(run.vectors)[3]
    M = Family(Matrix, "W1", "{W_1}", layered=True)[1, 1]
    assert_close(run.bracket(u, MatVec(M, v)), run.bracket(MatVec(Transpose(M), u), v), 1e-5, 1.0)
    with pytest.raises(ValueError, match="dtype: got 'float16'; expected 'float32', 'float64'"):
        run_conditioned(program, {T: 2, L: 3}, data, dtype="float16")
    assert run_conditioned(statements(A), {}, dtype=np.float32).vectors[X].dtype == np.float32


def test_what_is_not_kept_is_forgotten_and_changes_nothing() -> None:
    program = tp.program(tp.ResNet("tanh"), tp.SGD(0.3), tp.DepthScaling(), batch=True)
    sizes, data = {T: 3, L: 4, BATCH: 2}, dict(xi=np.arange(6.0).reshape(3, 2) / 6, y=np.arange(6.0).reshape(3, 2))
    every, some, none = (run_conditioned(program, sizes, data, width=50, keep=keep) for keep in ("all", ("x",), ()))
    assert every.scalars == some.scalars == none.scalars
    assert {v.name for v in every.vectors} == {"U", "nV", "x", "h", "z", "dx", "dz", "dh"}
    assert {v.name for v in some.vectors} == {"U", "nV", "x"} and {v.name for v in none.vectors} == {"U", "nV"}
    assert np.array_equal(every.vectors[Family(Vector, "x", layered=True)[1, 1, 2]],
                          some.vectors[Family(Vector, "x", layered=True)[1, 1, 2]])
    with pytest.raises(ValueError, match=r"W\[0, 1\]: its products were not kept"):
        some.vector(MatVec(Family(Matrix, "W", layered=True)[0, 1], Family(Vector, "x", layered=True)[1, 1, 2]))
    for keep in ("x", ("q",)):
        with pytest.raises(ValueError, match="expected 'all' or some of the names .'dh', 'dx'"):
            run_conditioned(program, sizes, data, width=50, keep=keep)


def test_memory_of_an_optimizer_is_one_term_a_step() -> None:
    """Updates of momentum repeat outer products; they are joined, with the factors w of the optimizer's memory."""
    opt = tp.SGD(0.3, momentum=0.9, weight_decay=0.2)
    program = tp.program(tp.ResNet(), opt, tp.DepthScaling())
    data = dict(xi=np.ones(6), y=np.ones(6))
    run = run_conditioned(program, {T: 6, L: 1}, data, width=10)
    last = run.execution.value(Family(Matrix, "W", layered=True)[5, 1])
    rho, w = opt.memory(6)
    assert_close([c for c, _, _ in last.outers], -w[5, :5], 1e-14)
    assert_close(list(last.initial.values()), [rho[5]], 1e-14)


def test_bad_calls_are_refused_before_the_work() -> None:
    with pytest.raises(ValueError, match="width: got 0"):
        run_conditioned(statements(A), {}, width=0)
    with pytest.raises(MemoryError, match="program p with 1 products of width 100000000000 needs .* GiB"):
        run_conditioned(statements(MatVec(W[0], A)), {}, width=10**11)
    with pytest.raises(tp.Divergence, match="program p diverges: x is not finite"):
        run_conditioned(statements(sp.exp(10**6 * A**2)), {}, width=8)


def test_runs_are_what_run_program_gives() -> None:
    run = run_conditioned(statements(MatVec(W[0], A), sp.tanh(X) * B), {}, width=20)
    assert isinstance(run, ProgramRun) and run.width == 20
    assert_close(run.bracket(Y, Y), np.mean((np.tanh(run.vectors[X]) * run.vector(B)) ** 2), 1e-14)
