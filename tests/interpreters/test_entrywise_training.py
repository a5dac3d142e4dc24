"""Real networks trained by SignSGD and Adam: the program against plain loops over dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.nightly import few
from support.closeness import assert_close
from support.plain.training import PlainTraining, drawn
from tpcalc.interpreters import run_program
from tpcalc.programs.language import Family, Matrix, MatVec, NonlinearOuter, Outer, Transpose, Vector
from tpcalc.programs.program import Assign, Program

SCALE = tp.DepthScaling(sp.Rational(3, 4), sp.Rational(1, 4))
N, DEPTH, STEPS, BATCH, SEED = 12, 2, 4, 3, 5
RNG = np.random.default_rng(0)
XI, Y = RNG.normal(size=(2, STEPS, BATCH))


RATES = [0.3, 0.1, 0.2, 0.5]
KEPT = [tp.SignSGD(RATES), tp.Adam(RATES, 0.8, 0.9, 0.01, weight_decay=0.2),
        tp.Lion(RATES, 0.6, 0.9, weight_decay=0.2), tp.Lion(0.3, 0.9, 1e-17)]


@pytest.mark.parametrize("opt", few([*KEPT, tp.SignSGD(0.3), tp.Adam(0.3), tp.Lion(0.3, 0.6, 0)], *KEPT), ids=str)
def test_training_is_what_a_plain_loop_does(opt: Any) -> None:
    net = tp.ResNet("tanh", block="mlp", train_embedding_readout=True)
    rates = np.broadcast_to(opt.lr, STEPS)
    data = dict(xi=XI, y=Y, **({"eta": rates} if isinstance(opt.lr, tuple) else {}))
    run = run_program(tp.program(net, opt, SCALE, batch=True), {"T": STEPS, "L": DEPTH, "B": BATCH}, data, N, SEED)
    plain = PlainTraining(tp.Task(XI[:, :, None], Y[:, :, None]), opt, N, DEPTH, DEPTH**-0.75, DEPTH**-0.25, SEED)
    assert_close(run.series("f"), plain.outputs()[0][:, :, 0], 1e-12, 1.0)


def test_parameters_may_be_symbols() -> None:
    names = sp.symbols("eta beta_1 beta_2 epsilon lambda", real=True)
    numbers = dict(zip(("eta", "beta_1", "beta_2", "epsilon", "lambda"), (0.3, 0.8, 0.9, 0.01, 0.2)))
    net, sizes = tp.ResNet("tanh"), {"T": STEPS, "L": DEPTH}
    data = dict(xi=XI[:, 0], y=Y[:, 0])
    ours = run_program(tp.program(net, tp.Adam(*names), SCALE), sizes, data | numbers, N).series("f")
    assert_close(ours, run_program(tp.program(net, tp.Adam(*numbers.values()), SCALE), sizes, data, N).series("f"),
                 1e-12, 1.0)


def test_a_nonlinear_outer_product_is_the_function_of_the_entries_over_n() -> None:
    a, b, y, z = (Family(Vector, name)() for name in "abyz")
    W, c = Family(Matrix, "W"), sp.Symbol("c", real=True)
    matrix = NonlinearOuter(sp.tanh(Outer(a, b) - c * Outer(b, 2 * a)) + c * Outer(a, b) ** 2)
    program = Program("p", (a, b), (W[0],), (), (
        Assign(W[1], W[0] / 2 - c * matrix), Assign(y, MatVec(W[1], a)), Assign(z, MatVec(Transpose(W[1]), b))), ())
    run = run_program(program, {}, {"c": 0.7}, N, SEED)
    u, v = drawn(SEED, "a", N), drawn(SEED, "b", N)
    entries = np.tanh(np.outer(u, v) - 0.7 * np.outer(v, 2 * u)) + 0.7 * np.outer(u, v) ** 2
    dense = drawn(SEED, "W[0]", N, N) / np.sqrt(N) / 2 - 0.7 * entries / N
    assert_close(run.vectors[y], dense @ u, 1e-13, 1.0)
    assert_close(run.vectors[z], dense.T @ v, 1e-13, 1.0)


def test_a_gradient_that_was_always_zero_has_no_direction_without_eps() -> None:
    """relu: PyTorch's Adam moves by NaN there; here the update is named."""
    data = dict(xi=[1.0, 1.0], y=[1.0, 1.0])
    with pytest.raises(tp.Divergence, match=r"W\[1, 1\] is not finite"):
        run_program(tp.program(tp.ResNet("relu"), tp.Adam(), SCALE), {"T": 2, "L": 1}, data, N)
    run_program(tp.program(tp.ResNet("relu"), tp.Adam(eps=1e-8), SCALE), {"T": 2, "L": 1}, data, N)


def test_memory_counts_full_updates() -> None:
    program = tp.program(tp.ResNet(), tp.Adam(), SCALE)
    with pytest.raises(MemoryError, match="with 8 matrices of width 10000000 "):  # 2 given, 4 updates, 2 in the making
        run_program(program, {"T": 2, "L": 2}, dict(xi=[1.0, 1.0], y=[1.0, 1.0]), 10**7)
