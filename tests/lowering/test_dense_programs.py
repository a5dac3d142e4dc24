"""Lowered programs against the same programs run statement by statement, from the same weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings

import tpcalc as tp
from support.closeness import assert_close
from support.unrolled import unrolled
from tpcalc.interpreters import run_dense
from tpcalc.lowering import NotLowered
from tpcalc.programs.language import (
    Family, LossDerivative, Matrix, MatVec, Mean, NonlinearOuter, Outer, Scalar, Transpose, Vector)
from tpcalc.programs.program import Assign, Loop, Program
from tpcalc.testing.programs import ProgramExample, linear_programs

A, B, X, Y, Z = (Family(Vector, name)() for name in "abxyz")
W, F, G = Family(Matrix, "W"), Family(Scalar, "f"), Family(Scalar, "g")
t, k, i, j, l = sp.symbols("t k i j l", integer=True, nonnegative=True)
T, L, N = sp.symbols("T L N", integer=True, positive=True)
WIDTH = 9


def assert_same(program: Program, sizes: dict, data: dict, loss: Any = "mse", first: dict[str, int] = {},
                tolerance: float = 1e-12) -> dict:
    """All scalars and vectors of both executions are equal."""
    names = sorted({p.statement.target.name for p in program.locations() if isinstance(p.statement.target, Vector)})
    run = run_dense(program, sizes, data, WIDTH, 3, loss, keep=tuple(names))
    found = unrolled(program, sizes, data, WIDTH, run.initial_weights(), loss, first)
    values = {**run.scalars, **run.vectors}
    expected = {m: v for m, v in found.items() if not isinstance(m, Matrix)}
    assert {m for m in expected if m in values} >= {m for m in expected if m.name in names or isinstance(m, Scalar)}
    for member, value in expected.items():
        if member in values:
            assert_close(values[member], value, tolerance, 1.0)
    return values


@settings(max_examples=40)
@given(linear_programs())
def test_random_programs(example: ProgramExample) -> None:
    assert_same(example.program, dict(example.sizes), dict(example.data))


def test_a_sum_over_an_axis_counts_ones() -> None:
    """1 is a product of no factors, which had no code."""
    each = Loop(i, sp.Integer(0), N - 1, (Assign(F[i], Mean(A * sp.tanh((i + 1) * A))),))
    total = Assign(G(), sp.sign(sp.Sum(1 - 2 * F[i], (i, 0, N - 1))) + sp.Sum(1 + F[i], (i, 0, N - 1)))
    values = assert_same(Program("ones", (A,), (), (), (each, total), (N,)), {"N": 4}, {})
    assert float(values[G()]) > 3


NETS = {"post_nonlin": tp.ResNet("tanh"), "mlp": tp.ResNet("relu", block="mlp", train_embedding_readout=True),
        "glu, rms": tp.ResNet("gelu", block="glu", norm="rms"), "three": tp.ResNet("erf", block="mlp", matrices=3),
        "linear": tp.ResNet("linear", train_embedding_readout=True)}
OPTIMIZERS = {"SGD": tp.SGD([0.3, 0.2, 0.1], momentum=0.9, nesterov=True, weight_decay=0.1),
              "Adam": tp.Adam(0.1, 0.8, 0.9, eps=0.01, weight_decay=0.2), "SignSGD": tp.SignSGD([0.1, 0.2, 0.05])}


SHAPES = [(1, 1, 1, 0), (3, 1, 1, 1), (2, 3, 2, 2)]
CASES = [pytest.param(block, name, shape, id=f"{block}-{name}-{shape}",
                      marks=[pytest.mark.nightly] * ((i + j + k) % 3 > 0))
         for i, block in enumerate(NETS) for j, name in enumerate(OPTIMIZERS) for k, shape in enumerate(SHAPES)]


@pytest.mark.parametrize("block, name, shape", CASES)  # every run has all pairs
def test_networks(block: str, name: str, shape: tuple[int, int, int, int]) -> None:
    """Batches, several inputs and outputs, probes: every x and dx of every step, sample and layer."""
    batch, d_in, d_out, probes = shape
    rng, opt, batched = np.random.default_rng(1), OPTIMIZERS[name], batch > 1 or probes > 0
    program = tp.program(NETS[block], opt, tp.DepthScaling(), batched, d_in, d_out, probes)
    xi, y = rng.normal(size=(3, batch + probes, d_in)), rng.normal(size=(3, batch, d_out))
    y = np.exp(y) / np.exp(y).sum(-1, keepdims=True) if d_out > 1 else y
    xi, y = (v[..., 0] if v.shape[-1] == 1 else v for v in (xi, y))
    data = {"xi": xi if batched else xi[:, 0], "y": y if batched else y[:, 0]}
    data |= {"eta": np.array(opt.lr)} if isinstance(opt.lr, tuple) else {}
    sizes = {"T": 3, "L": 2, **({"B": batch} if batched else {})}
    layers = {m.name: 1 for m in program.matrices}
    assert_same(program, sizes, data, "softmax" if d_out > 1 else "mse", layers, 1e-11)


def test_entrywise_functions_pieces_and_parameters() -> None:
    c = sp.Symbol("c", real=True)
    program = Program("nonlinear", (A, B), (W[0],), (G[k],), (
        Assign(F[0], Mean(A**2 * B + sp.exp(A)) / c), Assign(F[1], sp.cos(F[0]) * sp.Max(F[0], 0) ** c),
        Assign(X, sp.tanh(MatVec(W[0], A) + F[0]) * B / 2 + 1),
        Assign(Y, sp.Piecewise((X, (X > A) & (B < 1)), (G[1] * A, A >= 0), (3, True)) + sp.Max(X, B, 0) ** 2
               + sp.sqrt(sp.Abs(B)) + sp.asinh(A) + sp.sinc(B) / (2 + X**2) + A**3 - B**4 / 3),
        Assign(W[1], W[0] / 2 - G[0] * Outer(sp.sign(X), Y) + 3 * Transpose(W[0])),
        Assign(W[2], Transpose(W[1] + W[0]) + NonlinearOuter(sp.tanh(Outer(X, B) + c * Outer(A, Y)))),
        Assign(Z, MatVec(Transpose(W[2]) + 2 * Outer(A, X), Y) + sp.Sum(G[k] * X * A, (k, 0, 1)) - Mean(Y)),
        Assign(F[2], Mean(X * Y * Z) * Mean(Z)), Assign(Family(Vector, "zero")(), sp.Integer(0))), ())
    values = assert_same(program, {}, {"g": [2.0, -1.0], "c": 0.7})
    assert np.array_equal(values[Family(Vector, "zero")()], np.zeros(WIDTH))


def test_a_number_over_zero_is_no_number() -> None:
    """Named as what it is, whether the zero is one number or a coordinate's."""
    for value in (1 / G[0], G[0] ** -2, 1 / sp.sqrt(G[0])):
        program = Program("over", (A, B), (W[0],), (G[k],), (Assign(F[0], value), Assign(X, F[0] * A)), ())
        with pytest.raises(tp.Divergence, match=r"f\[0\] is not finite"):
            run_dense(program, {}, {"g": [0.0]}, WIDTH)
        assert_same(program, {}, {"g": [2.0]})


def looped(*body: Any, vectors: tuple = (A, B), matrices: tuple = (W[0],), data: tuple = (), sizes: tuple = (T,)
           ) -> Program:
    return Program("looped", vectors, matrices, data, body, sizes)


x, y, u = (Family(Vector, name) for name in "xyu")


def test_lags_backwards_loops_and_sums_over_the_past() -> None:
    """x reads two steps back; sums over the past of every kind: carried, growing weights, not of that form."""
    beta = sp.Symbol("beta", positive=True)
    program = looped(
        Assign(x[-1], A), Assign(x[-2], B),
        Loop(t, sp.Integer(0), T - 1, (
            Assign(x[t], sp.tanh(MatVec(W[t], x[t - 1])) + x[t - 2] / (t + 2)),
            Assign(F[t], Mean(x[t] * x[t - 2])),
            Assign(y[t], sp.Sum(beta ** (t - k) * x[k] * F[k], (k, 0, t))),
            Assign(u[t], sp.Sum(x[k] / (1 + t - k), (k, 0, t)) + sp.Sum(beta ** (t - k) * y[k], (k, 0, t - 1))
                   + sp.Sum(x[k], (k, 0, t))),
            Assign(G[t], sp.Sum(beta ** (t - k) * F[k] ** 2, (k, 0, t))),
            Assign(W[t + 1], W[t] + NonlinearOuter(sp.sqrt(sp.Sum(beta ** (2 * (t - k)) * Outer(x[k], y[k]) ** 2,
                                                                  (k, 0, t)))) - G[t] * Outer(u[t], x[t])))),
        Loop(t, T - 1, sp.Integer(0), (Assign(Family(Vector, "v")[t], MatVec(Transpose(W[t]), u[t])),),
             descending=True))
    assert_same(program, {"T": 4}, {"beta": 0.6})


def test_sums_over_samples_have_numbers_of_each_or_of_all() -> None:
    """A sum of vectors with numbers of the samples is a product; one with the same number is that of the vectors."""
    samples = (i, 0, N - 1)
    program = looped(
        Assign(G[0], Mean(A * B)),
        Loop(i, sp.Integer(0), N - 1, (Assign(x[i], sp.tanh(A * (i + 1)) + B), Assign(F[i], Mean(x[i] * A)))),
        Assign(y[0], sp.Sum(F[i] * x[i], samples)), Assign(y[1], sp.Sum(G[0] * x[i], samples)),
        Assign(y[2], sp.Sum(x[i] / 3, samples)), sizes=(N,))
    values = assert_same(program, {"N": 3}, {})
    np.testing.assert_allclose(values[y[1]], 3 * values[G[0]] * values[y[2]], rtol=1e-12)


def test_loops_over_samples_that_read_each_other_stay_loops() -> None:
    """x of a sample reads the sample before; y does not; z goes through both in a triangle."""
    z = Family(Vector, "z")
    program = looped(
        Assign(x[-1], A),
        Loop(i, sp.Integer(0), N - 1, (Assign(x[i], sp.tanh(MatVec(W[0], x[i - 1])) + B * (i + 1)),
                                       Assign(y[i], x[i] ** 2 - Mean(x[i]) * A))),
        Loop(i, sp.Integer(0), N - 1, (Loop(j, sp.Integer(0), i, (
            Assign(z[i, j], sp.tanh(y[i] * y[j]) + sp.KroneckerDelta(i, j) * A),)),)),
        Loop(i, sp.Integer(0), N - 1, (Loop(j, sp.Integer(0), N - 1, (
            Assign(G[i, j], Mean(y[i] * y[j]) + sp.Sum(Mean(y[k] * y[i]) * j, (k, 0, N - 1))),)),)),
        Loop(i, sp.Integer(0), N - 1, (Assign(F[i], G[i, 1] + G[1, i]),)), sizes=(N,))
    assert_same(program, {"N": 3}, {})


def test_losses_of_ones_own() -> None:
    program = Program("p", (A, B), (), (), (Loop(i, sp.Integer(0), N - 1, (
        Assign(F[i], Mean(A * B) + i), Assign(G[i], LossDerivative(F[i], i)))),), (N,))
    assert_same(program, {"N": 3}, {"y": [1.0, 2.0, 0.5]}, loss=lambda f, target: f**3 - target)


def test_what_is_not_there_is_named_before_the_work() -> None:
    program = looped(Loop(t, sp.Integer(0), T - 1, (Assign(x[t], G[t] * A + MatVec(W[0], B)),)), data=(G[t],))
    with pytest.raises(ValueError, match=r"g: got data of shape \(2,\); expected g\[2\]"):
        run_dense(program, {"T": 3}, {"g": [1.0, 2.0]}, WIDTH)
    one_by_one = looped(Loop(t, sp.Integer(0), T - 1, (Assign(x[t], G[t - 1] * A),)), data=(G[t],))
    at_once = looped(Assign(F[0], sp.Sum(G[k - 1] * Mean(A), (k, 0, T - 1))), data=(G[t],))
    for program, steps in ((one, steps) for one in (one_by_one, at_once) for steps in (1, 2, 3)):
        with pytest.raises(ValueError, match=rf"g: got data of shape \({steps},\); expected g\[-1\]"):
            run_dense(program, {"T": steps}, {"g": [1.0] * steps}, WIDTH)
    late = looped(Assign(x[0], A), Assign(x[1], A), Loop(t, sp.Integer(2), T, (Assign(x[t], x[2 * t - 3]),)))
    with pytest.raises(ValueError, match=r"x\[3\] := x\[3\] reads x\[3\], which is neither given nor assigned"):
        run_dense(late, {"T": 4}, {}, WIDTH)


class Unknown(sp.Expr):
    is_commutative = True


@pytest.mark.parametrize("value", [A + Unknown(sp.Integer(1)) * B, sp.DiracDelta(A), sp.Function("q")(A) + sp.I * B])
def test_what_cannot_be_lowered_is_refused_by_name(value: sp.Expr) -> None:
    with pytest.raises(NotLowered, match="does not read (Unknown|DiracDelta|Imag).* in x := |q: a"):
        run_dense(Program("p", (A, B), (), (), (Assign(X, value),), ()), {}, {}, WIDTH)


def test_weights_go_in_and_come_out() -> None:
    program = tp.program(tp.ResNet("tanh", train_embedding_readout=True), tp.SGD(0.3), tp.DepthScaling())
    sizes, data = {"T": 2, "L": 2}, dict(xi=[1.0, -0.5], y=[1.0, 0.5])
    one = run_dense(program, sizes, data, WIDTH, seed=5)
    weights = one.initial_weights()
    rng = np.random.default_rng(5)
    for name, shape, scale in (("U", (WIDTH,), 1), ("nV", (WIDTH,), 1), ("W", (2, WIDTH, WIDTH), 3)):
        assert np.array_equal(weights[name], rng.standard_normal(shape) / scale)
    before = {name: value.copy() for name, value in weights.items()}
    two = run_dense(program, sizes, data, WIDTH, seed=6, weights=weights)
    assert np.array_equal(one.series("f"), two.series("f"))
    assert all(np.array_equal(weights[name], value) for name, value in before.items())
    assert not np.array_equal(one.series("f"), run_dense(program, sizes, data, WIDTH, seed=6).series("f"))
    with pytest.raises(ValueError, match=r"weights: got \['U', 'W'\]; expected \['U', 'W', 'nV'\], all of them"):
        run_dense(program, sizes, data, WIDTH, weights={name: weights[name] for name in "UW"})
    with pytest.raises(ValueError, match=r"weights\['U'\]: got shape \(3,\); expected \(9,\)"):
        run_dense(program, sizes, data, WIDTH, weights={**weights, "U": np.ones(3)})


def test_divergence_names_the_sample() -> None:
    program = looped(Loop(i, sp.Integer(1), N, (Assign(x[i], A * G[i]), Assign(y[i], sp.exp(x[i] ** 2)))), data=(G[i],),
                     sizes=(N,))
    with pytest.raises(tp.Divergence, match=r"program looped diverges: y\[2\] is not finite"):
        run_dense(program, {"N": 3}, {"g": [0.0, 0.1, 1e3, 1e4]}, WIDTH)


V, N0 = Family(Matrix, "V"), sp.Integer(0)


def test_indices_and_ends_of_loops_may_be_halves_that_are_whole() -> None:
    """A triangle in one row, of which the diagonal is read, and the first half of the steps."""
    program = looped(Loop(i, N0, T * (T + 1) / 2 - 1, (Assign(x[i], A / (i + 1)),)),
                     Loop(t, N0, T - 1, (Assign(F[t], Mean(x[t * (t + 3) / 2] * B)),)),
                     Loop(t, N0, sp.floor(T / 2), (Assign(G[t], F[t] + t),)))
    values = assert_same(program, {"T": 5}, {})
    assert {m.indices[0] for m in values if m.name == "g"} == {0, 1, 2}


def test_a_diagonal_is_no_row() -> None:
    """What stands in two indices of a member is one entry of it for every sample, not all pairs of them."""
    program = looped(
        Loop(i, N0, N - 1, (Assign(x[i], sp.tanh(A + i * B)),)),
        Loop(i, N0, N - 1, (Loop(j, N0, N - 1, (Assign(G[i, j], Mean(x[i] * x[j]) + j),)),)),
        Loop(i, N0, N - 1, (Assign(F[i], G[i, i]),)), Loop(i, N0, N - 1, (Assign(y[i, i], F[i] * x[i]),)), sizes=(N,))
    assert_same(program, {"N": 3}, {})


def test_matrices_that_a_loop_makes_of_vectors_alone_are_one_by_one() -> None:
    program = looped(
        Loop(i, N0, N - 1, (Assign(x[i], sp.tanh(A + i * B)),)),
        Loop(i, N0, N - 1, (Assign(V[i], Outer(A, B) + 2 * Outer(x[0], B)),)),
        Loop(i, N0, N - 1, (Assign(u[i], MatVec(V[i], x[i])),)), sizes=(N,))
    assert_same(program, {"N": 3}, {})


def test_sums_over_triangles() -> None:
    """Of what is read there, and of what is known from before it; as one sum, and as a sum inside of another."""
    overlap, of_x = Mean(A * B), Mean(x[k] * x[j])
    program = looped(
        Loop(t, N0, T - 1, (Assign(x[t], sp.tanh(A + t * B)),)),
        Assign(F[0], overlap + sp.Sum(overlap * j * k, (k, 0, j), (j, 0, T - 1))),
        Assign(F[1], sp.Sum(of_x, (k, 0, j), (j, 0, T - 1))),
        Assign(F[2], sp.Sum(j * sp.Sum(of_x, (k, 0, j)), (j, 0, 1))),
        Assign(Z, sp.Sum(j * x[k], (k, 0, j), (j, 0, T - 1))), Assign(G[0], overlap))
    values = assert_same(program, {"T": 3}, {})
    assert_close(values[F[0]], (1 + 1 + 2 * (1 + 2)) * values[G[0]], 1e-14)
    first, second, third = (values[x[at]] for at in (0, 1, 2))
    assert_close(values[Z], first + second + 2 * (first + second + third), 1e-14, 1.0)
    assert_close(values[F[2]], np.mean(first * second + second**2), 1e-14)


def test_what_larger_sizes_assign_twice_is_refused_before_the_work() -> None:
    program = looped(Assign(x[3], A), Loop(t, N0, T - 1, (Assign(x[t], B),)))
    run_dense(program, {"T": 3}, {}, WIDTH)
    with pytest.raises(ValueError, match=r"x\[3\].* is assigned a second time"):
        run_dense(program, {"T": 4}, {}, WIDTH)
