"""Residual blocks: the built-in ones and a user's own come through the same door."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.closeness import assert_close
from tpcalc.interpreters import run_program
from tpcalc.programs.blocks import Branch
from tpcalc.programs.indices import L, l, t
from tpcalc.programs.language import Family, Matrix, MatVec, Mean, Scalar, Transpose, Vector

SCALE = tp.DepthScaling(sp.Rational(3, 4), sp.Rational(1, 4))
SMOOTH = sp.tanh(sp.Symbol("u") + 1)


def gated(b: Branch) -> sp.Expr:
    """The built-in "glu", written by a user."""
    h, v = b.let("h", MatVec(b.weights("W1"), b.x)), b.let("v", MatVec(b.weights("W2"), b.x))
    return MatVec(b.weights("W3"), b.let("z", b.phi(h) * v))


def centered(b: Branch) -> sp.Expr:
    z = b.let("z", b.phi(b.let("h", MatVec(b.weights(), b.x))))
    return z - Mean(z)


def tied(b: Branch) -> sp.Expr:
    """W^T phi(W x): one matrix, two products."""
    return MatVec(Transpose(b.weights()), b.let("z", b.phi(b.let("h", MatVec(b.weights(), b.x)))))


def skip(b: Branch) -> sp.Expr:
    """W2 (phi(W1 x) + x) + phi(W1 x) / 2: skips inside the block, and a part that no matrix multiplies."""
    z = b.let("z", b.phi(b.let("h", MatVec(b.weights("W1"), b.x))))
    return MatVec(b.weights("W2"), b.let("y", z + b.x)) + z / 2


def measured(b: Branch, named: bool = True) -> sp.Expr:
    """phi(h / (1 + <h h>)) + <x h> h / 3 + <phi(r h) h> h / 2, its averages as scalars with names."""
    name: Callable[[str, sp.Expr], sp.Expr] = b.let_scalar if named else lambda _, value: value
    h = b.let("h", MatVec(b.weights(), b.x))
    r = name("r", 1 / (1 + name("q", Mean(h**2))))
    z = b.let("z", b.phi(r * h))
    return z + name("p", Mean(b.x * h)) * h / 3 + Mean(sp.tanh(r * h) * h) * h / 2


def signed(b: Branch) -> sp.Expr:
    """|<h>| h: the derivative of a mean's absolute value has the mean's sign."""
    h = b.let("h", MatVec(b.weights(), b.x))
    return b.let_scalar("a", 3 * sp.Abs(Mean(h))) * h


def summed(b: Branch) -> sp.Expr:
    """sum_k phi(k h) / k for k = 1, 2, 3, and a sum of numbers up to the depth."""
    h, k = b.let("h", MatVec(b.weights(), b.x)), sp.Symbol("k", integer=True, positive=True)
    return sp.Sum(b.phi(k * h) / k, (k, 1, 3)) + sp.Sum(h / k**2, (k, 1, L))


def body(net: tp.ResNet) -> Any:
    return tp.program(net, tp.SGD(0.5, momentum=0.9), SCALE).body


@pytest.mark.parametrize("norm", [None, "rms", "layer"])
@pytest.mark.parametrize("name, block", [("glu", gated), ("post_nonlin", centered)])
def test_a_block_of_ones_own_is_as_good_as_a_built_in_one(name: str, block: Callable, norm: str | None) -> None:
    assert body(tp.ResNet("tanh", block, norm)) == body(tp.ResNet("tanh", name, norm))


def test_blocks_of_few_matrices_are_the_known_ones() -> None:
    assert body(tp.ResNet(block="mlp", matrices=1)) == body(tp.ResNet()) == body(tp.ResNet(block="pre_nonlin"))
    assert body(tp.ResNet("tanh", "mlp", matrices=2)) == body(tp.ResNet("tanh", "mlp"))
    program = tp.program(tp.ResNet("tanh", "mlp", matrices=4), tp.SGD(), SCALE)
    assert [m.name for m in program.matrices] == ["W1", "W2", "W3", "W4"]
    assert program.name == "tanh residual network with mlp blocks of 4 matrices, SGD"


def jacobian(value: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
    """Central differences: shape of the value, then of the point."""
    step, columns = 1e-5, []
    for i in np.ndindex(*at.shape):
        nudge = np.zeros_like(at)
        nudge[i] = step
        columns.append((value(at + nudge) - value(at - nudge)) / (2 * step))
    return np.stack(columns, axis=-1).reshape(*columns[0].shape, *at.shape)


FORMULAS: dict[Callable, Callable[..., np.ndarray]] = {
    gated: lambda x, W1, W2, W3: W3 @ (np.tanh(W1 @ x + 1) * (W2 @ x)),
    tied: lambda x, W: W.T @ np.tanh(W @ x + 1),
    skip: lambda x, W1, W2: W2 @ (np.tanh(W1 @ x + 1) + x) + np.tanh(W1 @ x + 1) / 2,
    measured: lambda x, W: measured_of(x, W @ x),
    signed: lambda x, W: 3 * abs(np.mean(W @ x)) * (W @ x),
    summed: lambda x, W: sum(np.tanh(k * (W @ x) + 1) / k for k in (1, 2, 3)) + (1 + 1 / 4) * (W @ x)}


def measured_of(x: np.ndarray, h: np.ndarray) -> np.ndarray:
    r = 1 / (1 + np.mean(h**2))
    return np.tanh(r * h + 1) + np.mean(x * h) * h / 3 + np.mean(np.tanh(r * h) * h) * h / 2


@pytest.mark.parametrize("block", FORMULAS, ids=lambda b: b.__name__)
def test_the_derived_gradient_is_that_of_the_block(block: Callable) -> None:
    """Two steps at n = 6, L = 2 against the block as a formula, differentiated numerically."""
    n, depth, lr, seed, xi, y = 6, 2, 0.8, 3, [1.0, -0.5], [1.0, 0.3]
    program = tp.program(tp.ResNet(SMOOTH, block), tp.SGD(lr), SCALE)
    ours = run_program(program, {"T": 2, "L": depth}, dict(xi=xi, y=y), n, seed).series("f")

    def drawn(name: str, *shape: int) -> np.ndarray:
        return np.random.default_rng([seed, *name.encode()]).standard_normal(shape)

    names = [matrix.name for matrix in program.matrices]
    weights = np.array([[drawn(f"{name}[0, {l}]", n, n) / np.sqrt(n) for name in names] for l in (1, 2)])
    U, nV = drawn("U", n), drawn("nV", n)

    def output(all_weights: np.ndarray, t: int) -> np.ndarray:
        x = xi[t] * U
        for layer in all_weights:
            x = x + depth**-0.75 * FORMULAS[block](x, *layer)
        return np.array(nV @ x / n)

    expected = [output(weights, 0)]
    gradient = (expected[0] - y[0]) * jacobian(lambda w: output(w, 0), weights)
    weights = weights - lr * depth ** (0.75 - 0.25) * gradient  # g = L^-gamma times the gradient without L^-alpha
    expected.append(output(weights, 1))
    assert abs(expected[1] - xi[1] * expected[0]) > 1e-2
    assert_close(ours, expected, 1e-7)


def test_naming_a_scalar_changes_nothing() -> None:
    """At any width, and at infinite depth, where kernels are read off the same statements."""
    given = {"T": 3, "L": 4}, {"xi": [1.0, 0.8, -0.6], "y": [1.0, -0.7, 0.5]}
    for seed in (0, 1):
        named, inlined = (run_program(tp.program(tp.ResNet("tanh", block), tp.SGD(0.1), SCALE), *given, 32, seed)
                          for block in (measured, lambda b: measured(b, named=False)))
        assert_close(named.series("f"), inlined.series("f"), 1e-12)

    def shrunk(b: Branch, named: bool = True) -> sp.Expr:
        h = b.let("h", MatVec(b.weights(), b.x))
        q = b.let_scalar("q", Mean(h**2)) if named else Mean(h**2)
        return b.let("z", h / (1 + q))

    task, half = tp.Task([1, 0.8, -0.6], [1, -0.7, 0.5]), tp.DepthScaling(0.5, 0.5)
    ours, theirs = (tp.train(tp.ResNet(block=block), task, tp.SGD(0.5), half, depth=tp.oo).outputs
                    for block in (shrunk, lambda b: shrunk(b, named=False)))
    assert_close(ours, theirs, 1e-12)
    assert abs(ours[1, 0, 0]) > 0.1


X_BEFORE = Family(Vector, "x", layered=True)


def earlier_scalar(b: Branch) -> sp.Expr:
    h = b.let("h", MatVec(b.weights(), b.x))
    return b.let_scalar("q", Mean(h**2)).at(t, l - 1) * h


def dense_skips(b: Branch) -> sp.Expr:
    k = sp.Symbol("k", integer=True)
    return b.let("h", MatVec(b.weights(), b.x)) + sp.Sum(X_BEFORE[t, k], (k, 0, l - 2))


@pytest.mark.parametrize("block, said", [
    (lambda b: b.let_scalar("q", Mean(b.x**2)) * MatVec(b.weights(), b.x),
     r"W\[t, l\] @ x\[t, l - 1\] must be named before eps\*q\[t, l\] multiplies it"),
    (lambda b: Mean(b.x**2) * MatVec(b.weights(), b.x), "must be named before .* multiplies it"),
    (lambda b: MatVec(b.weights(), b.x) + X_BEFORE[t, 0], r"x\[t, 0\] is neither x\[t, l - 1\] nor assigned"),
    (earlier_scalar, r"q\[t, l - 1\] is neither x\[t, l - 1\] nor assigned .* its gradient cannot be followed"),
    (dense_skips, r"a sum over x\[t, k\] for symbolic ends; expected sums between numbers")])
def test_gradients_that_would_be_lost_are_refused(block: Callable, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.program(tp.ResNet(block=block), tp.SGD(), SCALE)


@pytest.mark.parametrize("index", [l, t])
def test_blocks_that_differ_between_layers_have_no_kernels(index: sp.Symbol) -> None:
    net = tp.ResNet(block=lambda b: MatVec(b.weights(), b.x) / (index + 1))
    with pytest.raises(ValueError, match=f"does not close on kernels: it depends on {index}; expected blocks"):
        tp.train(net, tp.Task([1.0], [1.0]), tp.SGD(0.5), tp.DepthScaling(0.5, 0.5), depth=tp.oo, method="collocation")


def test_is_linear_reads_what_the_block_wrote() -> None:
    linear = [tp.ResNet(), tp.ResNet(block="mlp", matrices=3), tp.ResNet(block=tied), tp.ResNet(block=skip)]
    others = [tp.ResNet("tanh"), tp.ResNet(block="glu"), tp.ResNet(norm="rms"), tp.ResNet("tanh", tied),
              tp.ResNet(block=gated)]
    assert all(net.is_linear for net in linear) and not any(net.is_linear for net in others)
    tp.ResNet(block="mlp", matrices=1).require_plain("this")
    for net in (*linear[1:], *others):
        with pytest.raises(ValueError, match="this takes phi='linear', one matrix a block"):
            net.require_plain("this")


@pytest.mark.parametrize("block, said", [
    (lambda b: None, "block: <lambda> wrote None; expected a vector of the language"),
    (lambda b: b.weights(), r"block: <lambda> wrote W\[t, l\]; expected a vector"),
    (lambda b: 2 * b.x, r"block: <lambda> wrote 2\*x\[t, l - 1\]; .* with a trained matrix in it"),
    (lambda b: b.let("x", 2 * b.x), "name: got 'x'; expected identifiers but x, U, nV"),
    (lambda b: b.weights("W 1"), "name: got 'W 1'; expected identifiers"),
    (lambda b: b.let("delta", 2 * b.x), "name: got 'delta'; .* does not start with d, which marks gradients"),
    (lambda b: b.let("z", 2 * b.x) + b.let("z", 3 * b.x), "name: got 'z'; expected one that the block has not"),
    (lambda b: b.let_scalar("f", Mean(b.x)) * b.x, "name: got 'f'; .* nor is one of xi, f, chi, eta, y"),
    (lambda b: b.let_scalar("dq", Mean(b.x)) * b.x, "name: got 'dq'; .* does not start with d"),
    (lambda b: b.let_scalar("q", b.x) * b.x, r"value: got x\[t, l - 1\] for 'q'; expected a scalar")])
def test_what_is_no_block_is_refused_at_once(block: Callable, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tp.ResNet("tanh", block)


def test_numbers_of_matrices_are_checked() -> None:
    for matrices in (0, 1.5, True):
        with pytest.raises(ValueError, match="matrices: got .*; expected a whole number of at least 1"):
            tp.ResNet(block="mlp", matrices=matrices)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="matrices: got 3 with block='post_nonlin'; it belongs to block='mlp'"):
        tp.ResNet(matrices=3)


def test_a_matrix_has_one_update_however_often_it_is_used() -> None:
    program = tp.program(tp.ResNet("tanh", tied), tp.SGD(), SCALE)
    assert len(program.matrices) == 1
    assert sum(isinstance(location.statement.target, Matrix) for location in program.locations()) == 1


def test_a_network_writes_its_block_when_it_is_built_and_once_for_each_question() -> None:
    """Training asks whether blocks are plain many times; the block's statements are not written for every one."""
    calls = []

    def counted(branch: Branch) -> sp.Expr:
        calls.append(branch)
        return MatVec(branch.weights(), branch.x)

    net = tp.ResNet("linear", block=counted)
    assert len(calls) == 1
    assert [net.is_plain for _ in range(5)] == [True] * 5 and [net.is_linear for _ in range(5)] == [True] * 5
    assert len(calls) == 2


@pytest.mark.parametrize("method", ["dense", "conditioned", "particles"])
def test_what_is_kept_and_never_moved_stays_0(method: str) -> None:
    def kept(b: tp.Branch) -> sp.Expr:
        return MatVec(b.weights(), b.let("z", b.phi(b.x) + b.kept("bar", Scalar)))

    task, width = tp.Task([1, 0.5, 1], [1, -1, 0.3]), None if method == "particles" else 16
    found, usual = (tp.train(tp.ResNet("tanh", block), task, tp.SGD(0.3), tp.DepthScaling(), 3, width or tp.oo,
                             method=method).outputs for block in (kept, "pre_nonlin"))
    np.testing.assert_array_equal(found, usual)


def test_a_matrix_whose_product_nothing_reads_is_refused_by_name() -> None:
    def block(b: tp.Branch) -> sp.Expr:
        b.let("v", MatVec(b.weights("Wv"), b.x))
        return MatVec(b.weights("Wo"), b.let("z", b.phi(b.x)))

    with pytest.raises(ValueError, match="block: got Wv, whose gradient is 0: what is added to the stream"):
        tp.program(tp.ResNet("tanh", block), tp.SGD(), SCALE)
