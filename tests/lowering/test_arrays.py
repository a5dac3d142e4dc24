"""Other namespaces of arrays and precisions: the same program, the same draws, the same numbers to rounding."""

from __future__ import annotations

import importlib
from itertools import product
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.closeness import assert_close
from support.nightly import few_of
from tpcalc.errors import MissingExtra
from tpcalc.interpreters import lowered, run_dense
from tpcalc.interpreters.conditioned_blocks import OrthonormalBlock
from tpcalc.lowering import Arrays, array_backends as arrays
from tpcalc.programs.language import Family, Matrix, MatVec, Mean, NonlinearOuter, Outer, Scalar, Vector
from tpcalc.programs.program import Assign, Loop, Program

NET = tp.ResNet("gelu", block="mlp", norm="rms", train_embedding_readout=True)
OPTIMIZERS = {"SGD": tp.SGD(0.3, momentum=0.9, weight_decay=0.1), "Adam": tp.Adam(0.1, 0.8, 0.9, eps=0.05),
              "SignSGD": tp.SignSGD(0.1)}


def run(opt: str, net: tp.ResNet = NET, **settings: Any) -> np.ndarray:
    program = tp.program(net, OPTIMIZERS[opt], tp.DepthScaling(), batch=True, d_in=3, d_out=2, probes=1)
    rng = np.random.default_rng(0)
    data = dict(xi=rng.normal(size=(3, 4, 3)), y=rng.dirichlet([1, 1], size=(3, 3)))
    return run_dense(program, {"T": 3, "L": 2, "B": 3}, data, 20, 1, "softmax", **settings).series("f")


@pytest.fixture
def generic(monkeypatch: pytest.MonkeyPatch) -> str:
    """NumPy through the standard's names alone, which takes the path of every other namespace."""
    pytest.importorskip("array_api_compat")
    monkeypatch.setitem(arrays.NAMESPACES, "generic", "array_api_compat.numpy")
    monkeypatch.setitem(arrays.SPECIAL, "generic", "scipy.special")
    return "generic"


SMALL = [tp.ResNet("relu"), tp.ResNet("tanh", block="glu"), tp.ResNet("abs")]


@pytest.mark.parametrize("net, opt", few_of(product([NET, *SMALL], OPTIMIZERS), (NET, "SGD"), (NET, "Adam"),
                                            *zip(SMALL, ("SignSGD", "Adam", "SGD"))), ids=repr)
def test_any_namespace(generic: str, net: tp.ResNet, opt: str) -> None:
    assert_close(run(opt, net, namespace=generic), run(opt, net), 1e-12, 1.0)


@pytest.mark.parametrize("opt", OPTIMIZERS)
def test_torch(opt: str) -> None:
    pytest.importorskip("array_api_compat")
    pytest.importorskip("torch")
    assert_close(run(opt, namespace="torch"), run(opt), 1e-11, 1.0)
    if opt != "SignSGD":  # signs of what is nothing but rounding differ
        assert_close(run(opt, namespace="torch", dtype="float32"), run(opt, dtype="float32"), 1e-4, 1.0)


@pytest.fixture
def strict() -> Any:
    """A namespace with nothing but what the standard says, whose arrays do not mix with NumPy's."""
    return pytest.importorskip("array_api_strict")


SAMPLED = {"conditioned": (tp.methods.Conditioned, {}, 24), "particles": (tp.methods.Particles, dict(
    samples=400, batches=2), tp.oo), "dense": (tp.methods.Dense, {}, 24)}


LARGE = tp.ResNet("tanh", block="mlp", norm="rms", train_embedding_readout=True)


@pytest.mark.parametrize("net, opt", few_of(product([LARGE, SMALL[0]], OPTIMIZERS), (LARGE, "Adam"), (SMALL[0], "SGD"),
                                            (SMALL[0], "SignSGD")), ids=repr)
@pytest.mark.parametrize("name", SAMPLED)
def test_every_sampled_method_in_the_strict_namespace(strict: Any, name: str, opt: str, net: tp.ResNet) -> None:
    """Draws are the same as NumPy's, with draws that depths share too, and so are outputs and kept vectors."""
    kind, options, width = SAMPLED[name]
    rng = np.random.default_rng(0)
    task = tp.Task(rng.normal(size=(3, 2, 2)), rng.normal(size=(3, 2, 2)), probes=rng.normal(size=(1, 2)))
    problem = tp.Problem(net, task, OPTIMIZERS[opt], tp.DepthScaling(), 4, width)
    for common in ({}, {"coarsest": 2}) if name != "dense" else ({},):
        ours, theirs = (tp.train(problem, method=kind(namespace=space, **options, **common), keep_nodes="all")
                        for space in (strict, "numpy"))
        assert_close(ours.outputs, theirs.outputs, 1e-12, 1.0)
        assert_close(ours.probe_outputs, theirs.probe_outputs, 1e-12, 1.0)
        assert_close(ours.forward_covariance, theirs.forward_covariance, 1e-12, 1.0)
        assert np.max(np.abs(theirs.outputs)) > 0.01


@pytest.mark.parametrize("name", ["conditioned", "particles"])
def test_float32_in_the_strict_namespace(strict: Any, name: str) -> None:
    """Rounding of float32 and no more: nothing becomes float64 on the way, nor NumPy's."""
    kind, options, width = SAMPLED[name]
    task = tp.Task([1, 0.5, -1], [1, -1, 0.5])
    problem = tp.Problem(tp.ResNet("tanh"), task, tp.SGD(0.3), tp.DepthScaling(), 3, width)
    rough, exact = (tp.train(problem, method=kind(namespace=strict, dtype=dtype, **options)).outputs
                    for dtype in ("float32", "float64"))
    assert 1e-9 < np.max(np.abs(rough - exact)) < (1e-4 if name == "particles" else 10)


def test_dependent_rows_add_nothing_in_the_strict_namespace(strict: Any) -> None:
    rng, space = np.random.default_rng(0), Arrays(strict)
    first, more = rng.normal(size=(3, 50)), rng.normal(size=(2, 50))
    rows = np.array([more[0], first[1] - more[0], 1e-9 * more[1], first[2], 2 * more[1] + first[0], np.zeros(50)])
    ours, theirs = OrthonormalBlock(50, space), OrthonormalBlock(50, np.float64)
    for block in (first, rows, rows[:1]):
        found = [held.extended(as_array(block)) for held, as_array in ((ours, space.asarray), (theirs, np.asarray))]
        for one, other in zip(*found):
            assert_close(space.numpy(one), other, 1e-12, 1.0)
    assert ours.count == theirs.count == 5 and ours.filled.dtype == strict.float64


def test_functions_of_entries_are_those_of_the_table(strict: Any) -> None:
    a, b = sp.symbols("a b", real=True)
    values = np.linspace(0.1, 2, 7), np.linspace(-1, 1, 7)
    space = Arrays(strict)
    for phi in (sp.sqrt(a) * b / (sp.sqrt(2) * sp.sqrt(a + b**2) + sp.Rational(1, 3)), sp.sign(b) * sp.pi,
                1 / sp.sqrt(a) - 1 / a, a ** sp.Rational(1, 3), sp.Max(a, b), abs(b) * sp.exp(-a) ** 3):
        found = space.compiled(phi, (a, b))(*map(space.asarray, values))
        assert_close(space.numpy(found), sp.lambdify((a, b), phi, ["scipy", "numpy"])(*values), 1e-14, 1.0)
    assert abs(space.compiled(a + 2 * b, (a, b))(0.5, space.asarray(1.0)) - 2.5) < 1e-15
    for bad in (sp.erf(a), sp.Piecewise((a, a > b), (b, True))):
        with pytest.raises(tp.NotCovered, match=f"^{type(bad).__name__}: a function that the table"):
            space.compiled(bad, (a, b))


@pytest.mark.parametrize("opt", ["Adam", "SignSGD"])
def test_entries_in_parts_are_those_of_whole_matrices(monkeypatch: pytest.MonkeyPatch, opt: str) -> None:
    """Three rows at a time, the last part of two; moving averages are carried part by part."""
    whole = run(opt)
    monkeypatch.setattr(lowered, "PART", 64)
    assert_close(run(opt), whole, 1e-13, 1.0)


def test_a_function_of_entries_met_as_a_matrix_inside_of_an_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that multiplies a vector is whole while another is computed in parts."""
    U, W, x, y, z = (Family(kind, name) for kind,
                     name in ((Vector, "U"), (Matrix, "W"), (Vector, "x"), (Vector, "y"), (Vector, "z")))
    t, T = sp.Symbol("t", integer=True, nonnegative=True), sp.Symbol("T", integer=True, positive=True)
    f = Family(Scalar, "f")
    entries = NonlinearOuter(sp.tanh(Outer(x[t], y[t])))
    program = Program("two functions", (U(),), (W[0],), (), (Loop(t, sp.Integer(0), T - 1, (
        Assign(x[t], MatVec(W[t], U())), Assign(y[t], x[t] ** 2 + U()), Assign(z[t], MatVec(entries, x[t])),
        Assign(f[t], Mean(x[t] * z[t])),
        Assign(W[t + 1], W[t] - NonlinearOuter(sp.tanh(Outer(MatVec(entries, y[t]) + U(), x[t])))))),), (T,))
    values = [run_dense(program, {"T": 4}, {}, 20, 1).series("f")]
    monkeypatch.setattr(lowered, "PART", 64)
    values += [run_dense(program, {"T": 4}, {}, 20, 1).series("f")]
    assert_close(values[1], values[0], 1e-13, 1.0)
    assert np.ptp(values[0]) > 1e-6


def test_float32_is_float32_throughout() -> None:
    rough, exact = run("Adam", dtype="float32"), run("Adam")
    difference = np.max(np.abs(rough - exact))
    assert 1e-9 < difference < 1e-4


def test_what_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="namespace: got 'tensorflow'; expected 'numpy', 'torch', 'cupy', 'jax'"):
        Arrays("tensorflow")
    with pytest.raises(ValueError, match="dtype: got 'float16'; expected 'float32', 'float64'"):
        Arrays("numpy", "float16")
    real = importlib.import_module

    def missing(name: str) -> Any:
        if name == "jax.numpy":
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtra, match=r"namespace='jax' needs jax; install it with: pip install 'tpcalc\[back"):
        Arrays("jax")


@pytest.mark.parametrize("axes", [(), (2,), (2, 3)])
def test_overlaps_are_along_coordinates_whatever_axes_stand_before(strict: Any, axes: tuple[int, ...]) -> None:
    u, v = (np.random.default_rng(seed).normal(size=(*axes, 5)) for seed in (0, 1))
    space = Arrays(strict)
    found = space.inner(space.asarray(u), space.asarray(v))
    assert_close(space.numpy(found), np.sum(u * v, axis=-1), 1e-14, 1.0)


def test_numbers_whose_sum_is_too_large_are_finite(strict: Any) -> None:
    with np.errstate(over="ignore"):
        for space in (Arrays(), Arrays(strict)):
            assert space.finite(space.asarray([1e308, 1e308])) and space.finite(space.asarray([1.0, 2.0]))
            assert not any(space.finite(space.asarray([1.0, bad])) for bad in (np.inf, np.nan))


def test_an_arc_tangent_has_the_name_that_the_namespace_gives_it(strict: Any) -> None:
    """The standard's is atan, and older namespaces have arctan alone."""
    h, values = sp.Symbol("h", real=True), np.linspace(-2, 2, 5)
    assert not hasattr(strict, "arctan")
    space = Arrays(strict)
    assert_close(space.numpy(space.compiled(sp.atan(h), (h,))(space.asarray(values))), np.arctan(values), 1e-14, 1.0)
