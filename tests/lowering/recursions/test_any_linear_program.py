"""One derivation for every linear program: optimizers, batches, several matrices, tied weights, trained ends."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.nightly import few, few_of
from support.layered import G, W, compiled_outputs, exact_outputs, layers, trained
from tpcalc.lowering.recursions import CompiledRecursion
from tpcalc.interpreters.program_coefficients import read_program_coefficients
from tpcalc.programs.language import Family, LossDerivative, Matrix, MatVec, Mean, Outer, Scalar, Transpose, Vector
from tpcalc.programs.program import Assign, Loop, Program

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)
SCALE = tp.DepthScaling(ALPHA, GAMMA)
T, L = sp.symbols("T L", integer=True, positive=True)
t, l = sp.symbols("t l", integer=True, nonnegative=True)
OPTIMIZERS = {
    "plain": tp.SGD(0.7),
    "schedule": tp.SGD([0.5, 0.3, 1.0]),
    "heavy ball": tp.SGD(0.5, momentum=0.9),
    "dampening": tp.SGD(0.5, momentum=0.9, dampening=0.3),
    "nesterov": tp.SGD(0.3, momentum=0.8, nesterov=True),
    "coupled decay": tp.SGD(0.5, weight_decay=0.2),
    "decoupled decay": tp.SGD(0.5, weight_decay=0.2, decoupled=True),
    "all": tp.SGD([0.5, 0.3, 0.4], momentum=0.5, nesterov=True, weight_decay=0.2),
}
XI, Y = np.array([1.0, 0.8, -0.6]), np.array([1.0, -0.7, 0.5])


def derive(program: Program) -> tp.theory.Recursion:
    recursion = tp.recursion(tp.kets(program))
    assert all(step.check() for step in recursion.derivation.steps)
    return recursion


def as_python(compiled: CompiledRecursion) -> CompiledRecursion:
    """The same source without compiling it, which at these sizes is faster."""
    return replace(compiled, kernel=compiled.kernel.py_func)  # type: ignore[attr-defined]


def agree(program: Program, depth: int = 4, **more: object) -> np.ndarray:
    """Derived, compiled, and read by the interpreter of unrolled programs: equal to 1e-12."""
    point = {"alpha": 0.6, "gamma": 0.5, **more}
    compiled = as_python(derive(program).compile())
    ours = compiled(depth, XI, Y, **point).outputs
    theirs = read_program_coefficients(program, {"T": len(XI), "L": depth}, {"xi": XI, "y": Y, **point}).series("f")
    assert np.abs(ours - theirs).max() < 1e-12 * np.abs(theirs).max()
    assert np.abs(theirs[1:]).min() > 1e-6
    return ours


NETS = [tp.ResNet(), tp.ResNet(train_embedding_readout=True), tp.ResNet(block="mlp")]


@pytest.mark.parametrize("net, name", few_of(product(NETS, OPTIMIZERS), *((NETS[0], name) for name in OPTIMIZERS), *(
    (net, name) for net in NETS[1:] for name in ("plain", "all"))), ids=str)
def test_optimizers(net: tp.ResNet, name: str) -> None:
    opt = OPTIMIZERS[name]
    schedule = {"eta": opt.lr} if isinstance(opt.lr, tuple) else {}
    ours = agree(tp.program(net, opt, SCALE), **schedule)
    if net == tp.ResNet():
        for method in ("reflection", "coefficients"):
            run = tp.train(net, tp.Task(XI, Y), opt, tp.DepthScaling(0.6, 0.5), 4, method=method)
            assert np.abs(run.outputs.ravel() - ours).max() < 1e-12 * np.abs(ours).max()


@pytest.mark.parametrize("name", ["plain", "all"])
def test_batches(name: str) -> None:
    opt, rng = OPTIMIZERS[name], np.random.default_rng(0)
    xi, y = rng.normal(size=(2, 3, 2))
    schedule = {"eta": opt.lr} if isinstance(opt.lr, tuple) else {}
    compiled = as_python(derive(tp.program(tp.ResNet(), opt, SCALE, batch=True)).compile())
    ours = compiled(5, xi, y, alpha=0.6, gamma=0.5, **schedule).outputs
    run = tp.train(tp.ResNet(), tp.Task(xi[..., None], y[..., None]), opt, tp.DepthScaling(0.6, 0.5), 5)
    assert np.abs(run.outputs[..., 0] - ours).max() < 1e-12


def tied(loops_share: bool) -> Program:
    """Every matrix used twice in its layer, or (``loops_share``) one matrix for all layers."""
    x, z, dx, dz = (Family(Vector, name, layered=True) for name in ("x", "z", "dx", "dz"))
    W = Family(Matrix, "W", layered=not loops_share)
    at = (t,) if loops_share else (t, l)
    U, nV = Family(Vector, "U")(), Family(Vector, "nV")()
    xi, f, chi = (Family(Scalar, name) for name in ("xi", "f", "chi"))
    eps, g, w = L**-ALPHA / 2, L**-GAMMA / 2, W[at]
    new = W[(t + 1, *at[1:])]
    if loops_share:
        forward = (Assign(x[t, l], x[t, l - 1] + eps * MatVec(w, x[t, l - 1])),)
        backward = (Assign(dx[t, l - 1], dx[t, l] + eps * MatVec(Transpose(w), dx[t, l])),)
        update = Assign(new, w - g * sp.Sum(Outer(dx[t, l], x[t, l - 1]), (l, 1, L)))
    else:
        forward = (Assign(z[t, l], x[t, l - 1] + eps * MatVec(w, x[t, l - 1])),
                   Assign(x[t, l], z[t, l] + eps * MatVec(w, z[t, l])))
        backward = (Assign(dz[t, l], dx[t, l] + eps * MatVec(Transpose(w), dx[t, l])),
                    Assign(dx[t, l - 1], dz[t, l] + eps * MatVec(Transpose(w), dz[t, l])))
        update = Loop(l, sp.Integer(1), L, (
            Assign(new, w - g * (Outer(dx[t, l], z[t, l]) + Outer(dz[t, l], x[t, l - 1]))),))
    body = (Assign(x[t, 0], xi[t] * U), Loop(l, sp.Integer(1), L, forward), Assign(f[t], Mean(nV * x[t, L])),
            Assign(chi[t], LossDerivative(f[t], t)), Assign(dx[t, L], chi[t] * nV),
            Loop(l, L, sp.Integer(1), backward, descending=True), update)
    return Program("tied", (U, nV), (W[(0, *at[1:])],), (xi[t],), (Loop(t, sp.Integer(0), T - 1, body),), (T, L))


@pytest.mark.parametrize("loops_share", [False, True])
def test_tied_weights(loops_share: bool) -> None:
    agree(tied(loops_share))


def test_a_product_that_every_step_repeats_is_one_product() -> None:
    """W_0 u does not depend on the step: one hat-ket, not one a step."""
    u, x, y, z = Family(Vector, "u")(), Family(Vector, "x"), Family(Vector, "y"), Family(Vector, "z")
    W, f = Family(Matrix, "W"), Family(Scalar, "f")
    program = Program("repeat", (u,), (W[0],), (), (Loop(t, sp.Integer(0), T - 1, (
        Assign(x[t], MatVec(W[t], u)), Assign(y[t], MatVec(Transpose(W[t]), x[t])),
        Assign(z[t], MatVec(W[t], y[t]) + u), Assign(f[t], Mean(y[t] * u) + Mean(z[t] * x[t])),
        Assign(W[t + 1], W[t] - Outer(z[t], u) / 2))),), (T,))
    compiled = as_python(derive(program).compile())
    theirs = read_program_coefficients(program, {"T": 4}, {}).series("f")
    assert np.abs(compiled.evaluate(T=4, y=np.zeros(4))["f"] - theirs).max() < 1e-12 * np.abs(theirs).max()


def test_hats_of_one_matrix_correlate_across_its_uses() -> None:
    """Without the covariance between the two uses of a matrix the answer is another."""
    recursion = derive(tied(False))
    pairs = {(e.products[0].number, e.products[1].number) for e in recursion.equations if e.kind == "C"}
    assert (0, 1) in pairs or (1, 0) in pairs


def test_the_backward_pass_is_derived() -> None:
    """Of the two-matrix block: dz = W_2^T dx, and the updates' outer products pair each gradient with its input."""
    text = str(tp.program(tp.ResNet(block="mlp"), tp.SGD(1.0), SCALE))
    assert "dz[t, l] := W2[t, l].T @ dx[t, l]" in text
    assert "dx[t, l - 1] := dx[t, l] + (W1[t, l].T @ dz[t, l])/L**alpha" in text
    assert "W2[t, l] - outer(dx[t, l], z[t, l])/n/L**gamma" in text
    assert "W1[t, l] - outer(dz[t, l], x[t, l - 1])/n/L**gamma" in text


@pytest.mark.parametrize("rate", few([sp.Integer(2)**-t, (t + 1)**-2, 1 / (t + 1)], sp.Integer(2)**-t), ids=str)
def test_rates_of_the_step_are_no_powers_of_integers(rate: sp.Expr) -> None:
    """Compiled: 2^-1 of integers is 0 to numba."""
    program = trained([layers(Assign(W[t + 1, l], W[t, l] - rate * G))])
    exact = exact_outputs(program, 3)
    assert np.abs(compiled_outputs(derive(program), 3, numba=True) - exact).max() < 1e-12 * np.abs(exact).max()
