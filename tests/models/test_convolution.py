"""Residual convolutional networks against plain arrays, kernels of the plane and exact limits."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st
from scipy.linalg import expm
from support.plain.convolutions import back_to, padded

import tpcalc as tp
from tpcalc.models.convolution import Convolution, is_read
from tpcalc.programs.indices import m, p

WIDTH = 8
HOW = tp.SGD(0.3), tp.DepthScaling(0.7, 0.4)


def plain_training(conv: Convolution, weights: dict, data: tp.Sequences, depth: int) -> np.ndarray:
    """Outputs at every step of descent on one sequence a step, with tanh, by hand."""
    eps, g, rate = depth**-0.7, depth**-0.4, 0.3
    count = len(conv.reads())
    w = np.array([weights[f"K{k}"] if f"K{k}" in weights else np.zeros((depth, WIDTH, WIDTH))
                  for k in range(1, count + 1)])  # (entries, L, n, n)
    U, nV, outputs = np.atleast_2d(weights["U"]), weights["nV"], []
    of = conv.grid, conv.kernel, conv.padding
    for xi, y in zip(data.inputs[:, 0], data.targets[:, 0, :, 0]):
        x, kept = xi @ U, []
        for layer in range(depth):
            z = np.tanh(x) if conv.order == "pre" else x
            seen = padded(z, *of)
            h = np.einsum("oij,opj->pi", w[:, layer], seen)
            kept.append((x, seen, h))
            after = np.tanh(h)
            x = x + eps * (h if conv.order == "pre" else after - after.mean(axis=1, keepdims=True))
        f = x @ nV / WIDTH
        outputs.append(f)
        d = np.outer(f - y, nV)
        for layer in reversed(range(depth)):
            before, seen, h = kept[layer]
            dh = d if conv.order == "pre" else (d - d.mean(axis=1, keepdims=True)) / np.cosh(h)**2
            dz = back_to(np.einsum("oij,pi->opj", w[:, layer], dh), *of)
            w[:, layer] -= rate * g * np.einsum("pi,opj->oij", dh, seen) / WIDTH
            d = d + eps * (dz / np.cosh(before)**2 if conv.order == "pre" else dz)
    return np.array(outputs)


def drawn(positions: int, steps: int = 3) -> tp.Sequences:
    rng = np.random.default_rng(positions)
    return tp.Sequences(rng.standard_normal((steps, 1, positions, 2)), rng.standard_normal((steps, 1, positions)))


def held_against_plain_arrays(conv: Convolution) -> None:
    net = tp.Transformer(positions=conv.positions, attention=conv, mlp=None, norm=None, phi="tanh")
    run = tp.train(net, drawn(conv.positions), *HOW, 2, width=WIDTH, method="dense", seed=3)
    found = plain_training(conv, run.initial_weights(), drawn(conv.positions), 2)
    assert np.abs(found - run.outputs[:, 0, :, 0]).max() < 1e-11 * np.abs(found).max()


@pytest.mark.parametrize("position", ["pre", "output", "sandwich", "post"])
def test_norms_stand_where_they_are_asked_for(position: str) -> None:
    """First outputs by hand."""
    conv, data = Convolution(4, 3, order="pre"), drawn(4, 1)
    net = tp.Transformer(positions=4, attention=conv, mlp=None, norm="rms", norm_position=position, phi="tanh")
    run = tp.train(net, data, *HOW, 2, width=WIDTH, method="dense", seed=3)
    weights = run.initial_weights()

    def normed(x: np.ndarray) -> np.ndarray:
        return x / np.sqrt(np.mean(x**2, axis=1, keepdims=True))

    x = data.inputs[0, 0] @ weights["U"]
    for layer in range(2):
        read = normed(x) if position in ("pre", "sandwich") else x
        w = np.array([weights[f"K{k}"][layer] for k in (1, 2, 3)])
        added = np.einsum("oij,opj->pi", w, padded(np.tanh(read), conv.grid, conv.kernel, conv.padding))
        x = x + 2**-0.7 * (normed(added) if position in ("output", "sandwich") else added)
        x = normed(x) if position == "post" else x
    assert np.abs(x @ weights["nV"] / WIDTH - run.outputs[0, 0, :, 0]).max() < 1e-12


@pytest.mark.parametrize("grid, kernel, padding, order", [
    (5, 3, "zero", "post"), (4, 3, "circular", "pre"), ((2, 3), (1, 3), "zero", "pre")])
def test_dense_training_is_that_of_plain_arrays(grid: object, kernel: object, padding: str, order: str) -> None:
    held_against_plain_arrays(Convolution(grid, kernel, padding, order))


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(axes=st.lists(st.integers(1, 4).flatmap(lambda size: st.tuples(
    st.just(size), st.sampled_from([k for k in (1, 3) if k <= size]))), min_size=1, max_size=2),
    padding=st.sampled_from(["zero", "circular"]), order=st.sampled_from(["pre", "post"]))
def test_any_grid_is_that_of_plain_arrays(axes: list, padding: str, order: str) -> None:
    grid, kernel = zip(*axes)
    held_against_plain_arrays(Convolution(grid, kernel, padding, order))


@settings(deadline=None, max_examples=12)
@given(axes=st.lists(st.integers(1, 4).flatmap(lambda size: st.tuples(
    st.just(size), st.sampled_from([k for k in (1, 3) if k <= size]))), min_size=1, max_size=3),
    padding=st.sampled_from(["zero", "circular"]))
def test_masks_are_the_positions_that_are_read(axes: list, padding: str) -> None:
    conv = Convolution(*zip(*axes), padding)  # type: ignore[arg-type]
    numbers = np.arange(conv.positions)
    seen = padded(np.eye(conv.positions), conv.grid, conv.kernel, padding)  # type: ignore[arg-type]
    for read, wanted in zip(conv.reads(), seen):
        assert np.array_equal(wanted, read[:, None] == numbers)
        mask = sp.lambdify((p, m), is_read(read), "numpy")
        found = [[float(mask(a, b)) for b in numbers] for a in numbers]
        assert np.array_equal(found, wanted)


def test_statement_by_statement_is_the_lowered_form() -> None:
    from reference.conditioned import run_conditioned
    from tpcalc.interpreters.lowered_conditioned import conditioned
    from tpcalc.lowering.nest import lowered_order
    net = tp.Transformer(positions=3, attention=Convolution(3, 3, "zero", "post"), mlp=None, phi="tanh")
    program, data = tp.program(net, tp.SGD(0.5), tp.DepthScaling(), False, 2), drawn(3, 2)
    what = {"T": 2, "L": 1, "P": 3}, {"xi": data.inputs[:, 0], "y": data.targets[:, 0, :, 0]}
    one = run_conditioned(lowered_order(program), *what, width=64)
    assert np.abs(one.series("f") - conditioned(program, *what, width=64).series("f")).max() < 1e-10


def lazy_kernel(conv: Convolution, inputs: np.ndarray) -> np.ndarray:
    """f_1 = -rate Theta chi of a linear network of infinite depth at (1/2, 1/2): Theta (P, P) of one sequence, from
    Gram matrices of streams and of gradients in them, which every layer moves along the filter, dC/dp = sum_o S_o C
    S_o^T and -dG/dp = sum_o S_o^T G S_o."""
    reads, P = conv.reads(), conv.positions
    S = np.array([[[there == q for q in range(P)] for there in read] for read in reads], dtype=float)
    ahead = sum(np.kron(s, s) for s in S)
    nodes, weights = np.polynomial.legendre.leggauss(20)
    start = (inputs @ inputs.T).ravel()
    theta = np.zeros((P, P))
    for time, weight in zip((nodes + 1) / 2, weights / 2):
        C = (expm(ahead * time) @ start).reshape(P, P)
        seen = sum(s @ C @ s.T for s in S)
        # gradients of outputs a and b at positions q, r: G[ab, qr], which start at q = a, r = b
        G = expm(ahead.T * (1 - time)) @ np.eye(P * P)
        theta += weight * np.einsum("qrab,qr->ab", G.reshape(P, P, P, P), seen)
    return theta


@pytest.mark.slow
@pytest.mark.parametrize("conv", [Convolution(3, 3, "zero"), Convolution(4, 3, "circular")])
def test_infinite_depth_has_the_lazy_kernel(conv: Convolution) -> None:
    """One small step: the second output of the same input is the tangent kernel of K.1's kernels, integrated over
    layer times."""
    rng = np.random.default_rng(5)
    inputs, targets = rng.standard_normal((conv.positions, 2)), rng.standard_normal(conv.positions)
    task = tp.Sequences(np.array([inputs, inputs])[:, None], np.array([targets, targets])[:, None])
    net = tp.Transformer(positions=conv.positions, attention=conv, mlp=None, norm=None, phi="linear")
    rate = 1e-3
    run = tp.train(net, task, tp.SGD(rate), tp.DepthScaling(), tp.oo,
                   method=tp.methods.CommonDraws(tolerance=1e-3, budget=3e6, samples=1024, coarsest=4))
    wanted = rate * lazy_kernel(conv, inputs) @ targets
    found, error = run.outputs[1, 0, :, 0], run.standard_error[1, 0, :, 0] + run.bias_bound[1, 0, :, 0]
    assert np.all(np.abs(found - wanted) < 4 * error + 0.02 * np.abs(wanted).max())
    assert np.max(error) < 0.05 * np.abs(wanted).max()


@pytest.mark.slow
@pytest.mark.parametrize("padding", ["zero", "circular"])
def test_without_noise_the_limit_is_exact(padding: str) -> None:
    """(1, 0), linear: streams of the first step are read-ins, gradients read-outs, so that the second output is one
    sum over the filter."""
    conv = Convolution(4, 3, padding)
    data = drawn(4, 2)
    net = tp.Transformer(positions=4, attention=conv, mlp=None, norm=None, phi="linear")
    run = tp.train(net, data, tp.SGD(0.4), tp.DepthScaling(1, 0), tp.oo,
                   method=tp.methods.CommonDraws(tolerance=0.02, budget=3e6, samples=1024))
    first, second = (padded(one, conv.grid, conv.kernel, padding) for one in data.inputs[:, 0])
    wanted = 0.4 * np.einsum("q,oqj,opj->p", data.targets[0, 0, :, 0], first, second)
    assert np.abs(run.outputs[0]).max() < 1e-9
    error = 4 * run.standard_error[1, 0, :, 0] + run.bias_bound[1, 0, :, 0]
    assert np.all(np.abs(run.outputs[1, 0, :, 0] - wanted) < error + 1e-6)
    assert np.max(error) < 0.05 < 0.5 < np.abs(wanted).max()


@pytest.mark.parametrize("options, word", [
    ({"grid": 0}, "grid"), ({"grid": ()}, "grid"), ({"kernel": 2}, "kernel"), ({"kernel": 7}, "kernel"),
    ({"kernel": (3, 3)}, "kernel"), ({"padding": "same"}, "padding"), ({"order": "both"}, "order")])
def test_what_is_no_convolution_is_refused(options: dict, word: str) -> None:
    with pytest.raises(ValueError, match=f"^{word}: .* expected"):
        Convolution(**{"grid": 4, **options})


def test_what_a_convolution_does_not_go_with_is_refused() -> None:
    with pytest.raises(ValueError, match="positions: got 3 .* expected"):
        tp.Transformer(positions=3, attention=Convolution(4))
    net = tp.Transformer(positions=4, attention=Convolution(4), mlp="mlp")
    with pytest.raises(ValueError, match="a convolution and mlp=None"):
        tp.train(net, drawn(4), *HOW, tp.oo, method="common_draws")


@pytest.mark.slow
@pytest.mark.parametrize("order", ["pre", "post"])
def test_nonlinear_networks_of_infinite_depth_are_those_of_deep_wide_ones(order: str) -> None:
    net = tp.Transformer(positions=3, attention=Convolution(3, 3, "zero", order), mlp=None, norm=None, phi="tanh")
    how = net, drawn(3), tp.SGD(0.3), tp.DepthScaling()
    run = tp.train(*how, tp.oo, method=tp.methods.CommonDraws(tolerance=0.05, budget=1e6, samples=1024, coarsest=4))
    outputs = {n: np.array([tp.train(*how, 32, n, method="dense", seed=seed).outputs for seed in range(24)])
               for n in (96, 192)}
    mean = 2 * outputs[192].mean(axis=0) - outputs[96].mean(axis=0)  # extrapolated in 1/n
    error = np.sqrt((4 * np.var(outputs[192], axis=0) + np.var(outputs[96], axis=0)) / 23)
    assert np.all(np.abs(mean - run.outputs) < 4 * np.hypot(error, run.standard_error) + run.bias_bound + 1e-9)
    assert 8 * np.max(run.standard_error) < np.max(np.abs(run.outputs))  # so that it says something
