"""SignSGD and Adam without n x n arrays: functions of outer products, product by product, and training by sampling."""

from __future__ import annotations

import pickle
import tracemalloc
from math import exp, sqrt
from typing import Any

import numpy as np
import pytest
import sympy as sp
from scipy import stats

import tpcalc as tp
from support.nightly import few
from support.closeness import assert_close
from reference import entry_functions
from reference.conditioned import run_conditioned
from tpcalc.lowering.rank_one import separated
from reference.particles import run_particles
from tpcalc.interpreters.vectors import run_program
from tpcalc.programs.language import Family, Matrix, MatVec, Mean, NonlinearOuter, Outer, Scalar, Transpose, Vector
from tpcalc.programs.program import Assign, Program

A, B, X, Y, Z = (Family(Vector, name)() for name in "abxyz")
W, F, C = Family(Matrix, "W"), Family(Scalar, "f"), sp.Symbol("c", real=True)
FALSE_ALARM = 1e-6
AB, BA, XY = Outer(A, B), Outer(B, 2 * A), Outer(sp.tanh(A), A - B)
BODIES = {
    "one function": sp.tanh(AB),
    "of a sum": sp.tanh(AB - C * BA + 2 * (AB + XY) / 3),
    "beside a sum": sp.sin(AB) + C * BA - XY / 2 + AB**2,
    "of several": AB * sp.exp(-BA**2) + sp.sign(AB + BA),
    "sign": sp.sign(-C * AB), "product": 3 * AB * BA * XY**2, "root": AB / sp.sqrt(C**2 * AB**2),
    "Adam": (AB + C * BA) / (sp.sqrt(AB**2 + (BA + XY)**2 / 3) + C),
    "averages": sp.tanh(AB * Mean(A**2)) * C + sp.Abs(BA),
}


def whole(body: sp.Expr, c: float, **vectors: np.ndarray) -> np.ndarray:
    """The n x n array of entries, times n."""
    a, b = vectors["a"], vectors["b"]
    arrays = {AB: np.outer(a, b), BA: np.outer(b, 2 * a), XY: np.outer(np.tanh(a), a - b)}
    names = {outer: sp.Symbol(f"o{i}", real=True) for i, outer in enumerate(arrays)}
    moment = {Mean(A**2): sp.Float(np.mean(a**2)), C: sp.Float(c)}
    function = sp.lambdify(list(names.values()), body.xreplace(names).xreplace(moment), "numpy")
    return np.asarray(function(*arrays.values()))


@pytest.mark.parametrize("block", [1, 100, 2**16], ids="blocks of {}".format)
@pytest.mark.parametrize("name", BODIES)
def test_products_are_those_of_the_whole_matrix(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_functions, "BLOCK", block)
    n, matrix = 30, NonlinearOuter(BODIES[name])
    program = Program("p", (A, B), (), (), (
        Assign(W[1], 2 * matrix), Assign(X, MatVec(W[1], B)), Assign(Y, MatVec(Transpose(W[1]), A))), ())
    run = run_conditioned(program, {}, {"c": 0.7} if BODIES[name].has(C) else {}, width=n, seed=3)
    a, b = run.vector(A), run.vector(B)
    dense = 2 * whole(BODIES[name], 0.7, a=a, b=b) / n
    assert_close(run.vectors[X], dense @ b, 1e-13)
    assert_close(run.vectors[Y], dense.T @ a, 1e-13)


def test_what_is_of_rank_one_is_an_outer_product() -> None:
    """As SignSGD's update for one sample is, and Adam's first step; a sum inside, or eps, is not."""
    ones = {"sign": True, "product": True, "root": True, "one function": False, "of a sum": False, "Adam": False}
    for name, rank_one in ones.items():
        assert separated(NonlinearOuter(BODIES[name])).has(NonlinearOuter) is not rank_one
    assert separated(NonlinearOuter(sp.sqrt(AB))).has(NonlinearOuter)  # of negative entries: nan in both, or in none
    assert separated(AB + X) == AB + X


def test_float32_stays_float32() -> None:
    program = Program("p", (A, B), (), (), (Assign(W[1], NonlinearOuter(BODIES["Adam"])),
                                            Assign(X, MatVec(W[1], B))), ())
    small, exact = (run_conditioned(program, {}, {"c": 0.7}, width=50, dtype=dtype) for dtype in ("float32", "float64"))
    assert small.vectors[X].dtype == np.float32
    assert_close(small.vectors[X], exact.vectors[X], 1e-5)


def test_particles_average_over_an_independent_copy() -> None:
    """E_b sin(a b) b = a exp(-a^2 / 2), so that <a| . > = 2^-3/2; E_ab sin(a b) a b the same from the transpose."""
    matrix = NonlinearOuter(sp.sin(AB))
    program = Program("p", (A, B), (W[0],), (), (
        Assign(W[1], W[0] + matrix), Assign(X, MatVec(W[1], B)), Assign(Y, MatVec(Transpose(W[1]), A)),
        Assign(F[0], Mean(X * A)), Assign(F[1], Mean(Y * B)), Assign(F[2], Mean(X**2)),
        Assign(F[3], Mean(X * A * sp.cos(A)))), ())
    found = run_particles(program, {}, batches=16)
    assert found.samples == 1024
    closed = exp(-1 / 4) / sqrt(8) * (1 - 1 / 2)  # E a^2 exp(-a^2 / 2) cos a, by differentiating exp(-t^2 / 4)
    wanted = [2**-1.5, 2**-1.5, 1 + 3**-1.5, closed]
    assert np.all(np.abs(found.series("f") - wanted) < 6 * found.error_series("f") + 5 / 1024)
    assert np.all(found.error_series("f") < 0.02)


TRAINED: dict[str, tuple[Any, bool]] = {
    "SignSGD": (tp.SignSGD(0.5), False), "SignSGD, batches": (tp.SignSGD(0.5), True),
    "Adam": (tp.Adam(0.5), False), "Lion": (tp.Lion(0.5, 0.6, 0.8, weight_decay=0.2), False),
    "AdamW, batches": (tp.Adam([0.5, 0.3, 0.2], 0.8, 0.9, 0.1, weight_decay=0.2), True)}


def training(name: str, depth: int = 2) -> tuple[Program, dict[str, int], dict[str, np.ndarray]]:
    opt, batch = TRAINED[name]
    xi, y = np.random.default_rng(1).normal(size=(2, 3, 2) if batch else (2, 3))
    program = tp.program(tp.ResNet("tanh"), opt, tp.DepthScaling(), batch=batch)
    rates = {"eta": opt.lr} if isinstance(opt.lr, tuple) else {}
    return program, {"T": 3, "L": depth, **({"B": 2} if batch else {})}, dict(xi=xi, y=y, **rates)


@pytest.mark.parametrize("name", few(TRAINED, "SignSGD", "AdamW, batches"))
def test_training_has_the_law_of_dense_networks(name: str) -> None:
    """Kolmogorov-Smirnov at n = 40, for the last outputs and all together."""
    program, sizes, data = training(name, depth=1)
    dense, ours = (np.array([run(program, sizes, data, width=40, seed=seed).series("f").ravel() for seed in range(80)])
                   for run in (run_program, run_conditioned))
    for mix in (np.eye(dense.shape[1])[-1], np.arange(1.0, dense.shape[1] + 1) * (-1) ** np.arange(dense.shape[1])):
        assert stats.ks_2samp(dense @ mix, ours @ mix).pvalue > FALSE_ALARM / 8


@pytest.mark.parametrize("name", few(TRAINED, "SignSGD, batches", "Adam"))
def test_real_networks_approach_particles_like_the_root_of_the_width(name: str) -> None:
    program, sizes, data = training(name)
    limit = run_particles(program, sizes, data, 1000, batches=8, keep=())
    widths, found = 2 ** np.array([5, 7, 9]), []
    for n in map(int, widths):
        runs = np.array([run_conditioned(program, sizes, data, n, seed, keep=()).series("f") for seed in range(16)])
        found.append(float(np.sqrt(np.mean((runs - limit.series("f")) ** 2))))
        mean, error = runs.mean(0) - limit.series("f"), runs.std(0, ddof=1) / sqrt(16)
        assert np.all(np.abs(mean) < 5 * error + 3 / n + 5 * limit.error_series("f"))
    assert abs(np.polyfit(np.log(widths), np.log(found), 1)[0] + 0.5) < 0.12


@pytest.mark.parametrize("name", few(TRAINED, "SignSGD, batches", "Adam", "Lion"))
def test_two_numbers_of_samples_agree(name: str) -> None:
    program, sizes, data = training(name)
    few, many = (run_particles(program, sizes, data, samples, seed, keep=()) for seed, samples in ((0, 300), (1, 1200)))
    error = np.hypot(few.error_series("f"), many.error_series("f"))
    assert np.all(np.abs(few.series("f") - many.series("f")) < 5 * error + 3 / 300)
    assert np.max(many.error_series("f")) < np.max(few.error_series("f")) < 0.02


def test_runs_can_be_sent_between_processes() -> None:
    """As executors of batches do, trained matrices with them."""
    run = run_particles(*training("AdamW, batches"), samples=150, batches=2).batches[0]
    last = MatVec(Family(Matrix, "W", layered=True)[3, 1], Family(Vector, "x", layered=True)[0, 0, 0])
    assert np.array_equal(pickle.loads(pickle.dumps(run)).vector(last), run.vector(last))


def test_memory_is_that_of_vectors() -> None:
    """At n = 3000 a matrix takes 72 MB, blocks of rows and vectors a few; what is refused is what vectors need."""
    xi, y = np.ones((2, 2))
    adam = tp.program(tp.ResNet("tanh"), tp.Adam(0.1, eps=0.1), tp.DepthScaling())
    tracemalloc.start()
    run_conditioned(adam, {"T": 2, "L": 1}, dict(xi=xi, y=y), width=3000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10**7
    program, sizes, data = training("AdamW, batches")
    with pytest.raises(MemoryError, match="products of width 10000000000 needs"):
        run_conditioned(program, sizes, data, 10**10)
    run_conditioned(*training("SignSGD"), width=10**5, keep=())


def test_a_gradient_that_was_always_zero_has_no_direction_without_eps() -> None:
    data = dict(xi=[1.0, 1.0], y=[1.0, 1.0])
    for opt, good in ((tp.Adam(), False), (tp.Adam(eps=1e-8), True)):
        program = tp.program(tp.ResNet("relu"), opt, tp.DepthScaling())
        for run in (run_conditioned, run_particles):
            if good:
                assert np.all(np.isfinite(run(program, {"T": 2, "L": 1}, data, 200).series("f")))
            else:
                with pytest.raises(tp.Divergence, match=r"h\[1, 1\] is not finite"):
                    run(program, {"T": 2, "L": 1}, data, 200)
