"""A parallel block, attention and an MLP behind one norm, written outside of the package: against finite differences
in plain NumPy, particles, infinite depth, verdicts."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.theory import MatVec, ParallelBlock, softmax_attention

HEAD, POSITIONS, LAYERS, WIDTH = 2, 3, 2, 8
HALF = sp.Rational(1, 2)


def parallel(b: tp.Branch) -> sp.Expr:
    """Both read the normalized stream, and are added to it together."""
    hidden = b.let("z", b.phi(b.let("h", MatVec(b.weights("W1"), b.x))))
    return softmax_attention(HEAD, HALF, causal=True)(b) + MatVec(b.weights("W2"), hidden)


NET = tp.Transformer(head_dim=HEAD, positions=POSITIONS, attention=parallel, mlp=None, phi="tanh")
TASK = tp.Sequences(np.random.default_rng(0).normal(size=(2, 2, POSITIONS, 2)), np.ones((2, 2, POSITIONS, 1)))


def outputs(w: dict[str, np.ndarray], inputs: np.ndarray) -> np.ndarray:
    """f of one batch (batch, P, d_in): (batch, P, d_out)."""
    x = inputs @ w["U"].reshape(-1, WIDTH)
    heads = WIDTH // HEAD
    for layer in range(LAYERS):
        normed = x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True))
        q, k, v = ((normed @ w[name][layer].T).reshape(*x.shape[:-1], heads, HEAD) for name in ("Wq", "Wk", "Wv"))
        scores = np.exp(np.einsum("bphd,bmhd->bhpm", q, k) / np.sqrt(HEAD)) * np.tri(POSITIONS)
        mixed = np.einsum("bhpm,bmhd->bphd", scores / scores.sum(axis=-1, keepdims=True), v).reshape(x.shape)
        hidden = np.tanh(normed @ w["W1"][layer].T)
        x = x + LAYERS**-0.5 * (mixed @ w["Wo"][layer].T + hidden @ w["W2"][layer].T)
    return x @ w["nV"].reshape(-1, WIDTH).T / WIDTH


def test_a_step_is_that_of_finite_differences() -> None:
    run = tp.train(NET, TASK, tp.SGD(0.5), tp.DepthScaling(), LAYERS, WIDTH, method="dense")
    w = {name: np.array(value) for name, value in run.initial_weights().items()}
    np.testing.assert_allclose(run.outputs[0], outputs(w, TASK.inputs[0]), rtol=0, atol=1e-12)

    def loss() -> float:
        """The sum over positions of the mean over the batch, of half squares, as gradients have it."""
        return float(np.sum((outputs(w, TASK.inputs[0]) - TASK.targets[0]) ** 2)) / 2 / TASK.batch

    moved, step = {}, 1e-5
    for name in NET.matrices_of_block:
        gradient = np.zeros_like(w[name])
        for at in np.ndindex(*gradient.shape):
            before = w[name][at]
            w[name][at] = before + step
            up = loss()
            w[name][at] = before - step
            gradient[at] = (up - loss()) / (2 * step)
            w[name][at] = before
        moved[name] = w[name] - 0.5 * gradient  # g = eps: the multiplier that gradients leave out
    np.testing.assert_allclose(run.outputs[1], outputs({**w, **moved}, TASK.inputs[1]), rtol=0, atol=1e-7)


def test_the_block_of_the_package_is_the_same() -> None:
    own = tp.Transformer(head_dim=HEAD, positions=POSITIONS, mlp=None, phi="tanh",
                         attention=ParallelBlock(softmax_attention(HEAD, HALF, causal=True)))
    one = tp.train(NET, TASK, tp.SGD(0.5), tp.DepthScaling(), LAYERS, WIDTH, method="dense")
    other = tp.train(own, TASK, tp.SGD(0.5), tp.DepthScaling(), LAYERS, WIDTH,
                     method=tp.methods.Dense(weights=one.initial_weights()))
    np.testing.assert_allclose(one.outputs, other.outputs, rtol=0, atol=1e-12)
    for bad, said in ((dict(attention=3), "attention"), (dict(mlp="swiglu"), "mlp"), (dict(mlp_ratio=0), "mlp_ratio")):
        with pytest.raises(ValueError, match=f"^{said}: got "):
            ParallelBlock(**{"attention": softmax_attention(HEAD, HALF), **bad})


def test_particles_are_wide_networks() -> None:
    limit = tp.train(NET, TASK, tp.SGD(0.5), tp.DepthScaling(), LAYERS,
                     method=tp.methods.Particles(samples=4096, batches=4))
    found = np.array([tp.train(NET, TASK, tp.SGD(0.5), tp.DepthScaling(), LAYERS, 512,
                               method=tp.methods.Conditioned(seed=seed)).outputs for seed in range(8)])
    error = found.std(axis=0, ddof=1) / 8**0.5 + limit.error_estimate + 4 / 512
    assert np.all(np.abs(found.mean(axis=0) - limit.outputs) < 4 * error)


def test_verdicts_are_those_of_both_branches() -> None:
    found = tp.classify(1, 0, NET)
    assert found.name == tp.classify(1, 0, tp.Transformer(phi="tanh")).name == "ODE limit"
    assert {name for name, one in found.matrices.items() if one.name == "learns"} == set(NET.matrices_of_block)
    assert tp.classify(HALF, HALF, NET).name == "Depth-muP"
    assert "row" not in found.sizes.rows[0].values() and {"score", "h", "mixed"} <= set(found.sizes)
    with pytest.raises(tp.NotCovered, match=r"exp\(h\) grows faster"):
        tp.classify(1, 0, tp.Transformer(positions=2, attention=lambda b: MatVec(
            b.weights("Wo"), b.let("z", sp.exp(b.let("h", MatVec(b.weights("Wv"), b.x))))), mlp=None))


def test_infinite_depth_takes_it() -> None:
    problem = tp.Problem(NET, TASK, tp.SGD(0.5), tp.DepthScaling(), depth=tp.oo)
    assert tp.methods.table(problem).chosen == "common_draws"
