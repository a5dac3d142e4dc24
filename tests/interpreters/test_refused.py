"""What cannot be run or trained is refused before the work, with what was given and what is allowed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings

import tpcalc as tp
from reference.conditioned import run_conditioned
from reference.particles import run_particles
from tpcalc.interpreters import run_program
from tpcalc.interpreters.registry import UnhandledNode
from tpcalc.training.builders import L, T
from tpcalc.programs.indices import l, t
from tpcalc.programs.language import Family, Matrix, MatVec, Outer, Vector
from tpcalc.programs.program import Assign, Loop, Program
from tpcalc.testing.programs import ProgramExample, linear_programs

h = sp.Symbol("h", real=True)
A, X, W = Family(Vector, "a")(), Family(Vector, "x"), Family(Matrix, "W")
TASK, OPT, SCALE = tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5]), tp.SGD(0.5), tp.DepthScaling()
READINGS = (run_program, run_conditioned, run_particles)


def begun(*done: Any) -> None:
    pytest.fail(f"work was begun: {done}")


def program(*body: Any) -> Program:
    return Program("p", (A,), (W[0],), (), body, (T,))


@pytest.mark.parametrize("body, reads", [
    ((Loop(t, sp.Integer(0), T - 1, (Assign(X[t], MatVec(W[0], X[t + 1])),)),), "x[1]"),
    ((Loop(t, sp.Integer(0), T - 1, (Assign(X[t], MatVec(W[t + 1], A)), Assign(W[t + 1], W[t] - Outer(X[t], A)))),),
     "W[1]")])
def test_a_program_that_reads_the_future_cannot_be_written(body: Any, reads: str) -> None:
    with pytest.raises(ValueError, match=rf"reads {re.escape(reads)}, which is neither given nor assigned before"):
        program(*body)


@pytest.mark.parametrize("run", READINGS)
def test_a_program_that_reads_the_future_at_large_sizes_only_is_not_run(run: Any) -> None:
    """x_t reads x_(t(t-1)/2), which is earlier for t = 1, 2 and not for 3."""
    few = dict(samples=100) if run is run_particles else dict(width=100)
    body = Assign(X[0], A), Loop(t, sp.Integer(1), T, (Assign(X[t], MatVec(W[0], X[t * (t - 1) / 2])),))
    assert len(run(program(*body), {T: 2}, **few).scalars) == 0
    with pytest.raises(ValueError, match=r"x\[3\] := W\[0\] @ x\[3\] reads x\[3\], which is neither given nor"):
        run(program(*body), {T: 3}, progress=begun)


def test_a_block_that_reads_the_future_is_refused() -> None:
    for shift in ({t: t + 1}, {l: l + 1}):
        net = tp.ResNet("tanh", lambda branch: MatVec(branch.weights(), branch.let("z", branch.x.xreplace(shift) ** 2)))
        with pytest.raises(ValueError, match="(reads x.*, which is|is) neither (x|given).* nor assigned"):
            tp.train(net, TASK, OPT, SCALE, depth=3, progress=begun)
        with pytest.raises(ValueError, match="does not close on kernels|neither given nor assigned"):
            tp.train(net, TASK, OPT, SCALE, depth=tp.oo, progress=begun)


def test_a_block_of_one_expression_is_what_it_says() -> None:
    """W phi(x) in one line is not the linear network, and has no gradient until phi(x) has a name; W x is linear."""
    net = tp.ResNet("tanh", lambda branch: MatVec(branch.weights(), branch.phi(branch.x)))
    assert not net.is_linear
    for call in (lambda: tp.train(net, TASK, OPT, SCALE, depth=3, progress=begun), lambda: tp.program(net, OPT, SCALE)):
        with pytest.raises(ValueError, match=r"tanh\(x\[t, l - 1\]\) must be named before a matrix acts on it"):
            call()
    named = tp.ResNet("tanh", lambda branch: MatVec(branch.weights(), branch.let("z", branch.phi(branch.x))))
    one, two = (tp.train(net, TASK, OPT, SCALE, depth=3, samples=200, batches=2).outputs
                for net in (named, tp.ResNet("tanh", "pre_nonlin")))
    np.testing.assert_array_equal(one, two)
    plain = tp.ResNet("tanh", lambda branch: MatVec(branch.weights(), branch.x))
    assert plain.is_linear and tp.train(plain, TASK, OPT, SCALE, depth=3).method == "reflection"


@pytest.mark.parametrize("phi, where", [
    (1 / h, "it .* at h in {0}"), (1 / (h - 1), "it .* at h in {1}"), (h**-2, "it "), (sp.log(h), "it "),
    (sp.log(sp.Abs(h)), "it "), (sp.sqrt(sp.Abs(h)), "its derivative .* at h in {0}"), (sp.tan(h), "it "),
    (sp.sign(h), "its derivative"), (sp.Heaviside(h), "its derivative"), (sp.floor(h), "its derivative")])
def test_an_activation_without_gaussian_means_is_not_sampled(phi: sp.Expr, where: str) -> None:
    for width in (tp.oo, 100):
        with pytest.raises(ValueError, match=rf"phi: got {re.escape(str(phi))}; {where}"):
            tp.train(tp.ResNet(phi), TASK, OPT, SCALE, depth=3, width=width, progress=begun)


def test_activations_that_are_not_real_are_refused_as_they_are_given() -> None:
    for phi in (sp.I * h, sp.zoo * h, sp.oo * h):
        with pytest.raises(ValueError, match="phi: got .*; expected functions with real values"):
            tp.ResNet(phi)


@pytest.mark.parametrize("run", READINGS)
def test_a_derivative_that_does_not_exist_is_named_before_the_work(run: Any) -> None:
    written = tp.program(tp.ResNet(sp.sign(h)), OPT, SCALE)
    data = dict(xi=TASK.inputs.ravel(), y=TASK.targets.ravel())
    with pytest.raises(UnhandledNode, match="does not read DiracDelta nodes"):
        run(written, {T: 3, L: 2}, data, progress=begun)


@given(linear_programs())
@settings(max_examples=30)
def test_statements_are_counted_without_being_written(example: ProgramExample) -> None:
    sizes = {size: example.sizes[size] for size in example.program.sizes}
    assert example.program.count(sizes) == len(list(example.program.unroll(sizes)))


def test_triangles_of_statements_are_counted() -> None:
    inner = Loop(l, t, sp.Integer(1), (Assign(X[t, l], A),), descending=True)
    every = program(Loop(t, sp.Integer(0), T - 1, (inner, Assign(X[t], A))))
    for steps in (1, 2, 5):
        assert every.count({T: steps}) == len(list(every.unroll({T: sp.Integer(steps)}))) == steps * (steps + 1) // 2


def test_memory_is_refused_before_the_work() -> None:
    for size, what in ((dict(depth=10**9), r"program .* of 2\d{10} statements"),
                       (dict(depth=3, samples=10**9), "program .* products of 1000000000 particles"),
                       (dict(depth=3, width=10**9), "program .* products of width 1000000000")):
        with pytest.raises(MemoryError, match=rf"{what} needs .* GiB, this machine has"):
            tp.train(tp.ResNet("tanh"), TASK, OPT, SCALE, progress=begun, **size)
    large = tp.Task(np.ones((2000, 200, 1)), np.ones((2000, 200, 1)))
    with pytest.raises(MemoryError, match="one element of layer time needs .* fewer steps, a smaller batch"):
        tp.train(tp.ResNet("tanh"), large, OPT, SCALE, depth=tp.oo, progress=begun)


def test_too_few_particles_for_the_steps_are_refused_before_the_work() -> None:
    """8 directions for each: 1, U, nV, and 2 products of a step with a matrix."""
    for steps in (3, 30):
        task, least = tp.Task(np.ones(steps), np.ones(steps)), 8 * (3 + 2 * steps)
        with pytest.raises(ValueError, match=f"samples: got {least - 1}; .* at least {least} are needed"):
            tp.train(tp.ResNet("tanh"), task, OPT, SCALE, depth=2, samples=least - 1, progress=begun)
