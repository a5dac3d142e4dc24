"""Orthogonal factors from Gram matrices are those of n x n matrices, whatever their rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc.interpreters.dense import run_dense
from tpcalc.interpreters.spectral import Outers, spectral_part
from tpcalc.interpreters.vectors import run_program
from tpcalc.optimizers.polar import QUINTIC, polar
from tpcalc.lowering.array_backends import Arrays
from tpcalc.programs.indices import l, t
from tpcalc.programs.language import Family, Matrix, MatVec, Outer
from tpcalc.programs.blocks import vector


def orthogonal_factor(arrays: Arrays, outers: Outers, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    node = polar(Outer(vector("u")[t, l], vector("v")[t, l]), steps)
    return spectral_part(arrays, node, [outers], [])


def svd_factor(matrix: np.ndarray, steps: int = 0) -> np.ndarray:
    if not steps:
        u, s, v = np.linalg.svd(matrix)
        kept = s > 1e-7 * s[0]
        return u[:, kept] @ v[kept]
    a, b, c = QUINTIC
    found = matrix / np.linalg.norm(matrix)
    for _ in range(steps):
        square = found @ found.T
        found = a * found + (b * square + c * square @ square) @ found
    return found


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 5), rank=st.integers(1, 5), other=st.integers(1, 5),
       steps=st.sampled_from([0, 0, 1, 5]), scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_factors_are_those_of_the_matrix(seed: int, rows: int, rank: int, other: int, steps: int, scale: float) -> None:
    """Rows that depend on each other, on either side, coefficients of both signs, blocks of any size."""
    rng, n = np.random.default_rng(seed), 12

    def drawn(r: int) -> np.ndarray:
        return rng.normal(size=(rows, min(r, rows))) @ rng.normal(size=(min(r, rows), n))
    u, v = scale * drawn(rank), drawn(other)
    c = rng.choice([-1.0, .5, 3.0], size=rows)
    cut = rng.integers(0, rows)
    outers = [(1.0, c[:cut, None] * u[:cut], v[:cut])] + [(c[k], u[k], v[k]) for k in range(cut, rows)]
    left, right, values = orthogonal_factor(Arrays(), outers, steps)
    gradient = (c[:, None] * u).T @ v / n
    np.testing.assert_allclose(left.T @ right / n, svd_factor(gradient, steps), atol=1e-6)
    np.testing.assert_allclose(values, np.linalg.svd(gradient, compute_uv=False)[:len(values)], rtol=1e-6)
    assert len(values) == np.linalg.matrix_rank(gradient, 1e-9 * values[0])


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 10**6), apart=st.sampled_from([1e-4, 1e-6, 1e-8]), side=st.booleans())
def test_small_singular_values_are_as_well_known_as_of_the_matrix(seed: int, apart: float, side: bool) -> None:
    """Two rows that differ by little: of overlaps, which know squares, 1e-8 is within rounding."""
    rng, n = np.random.default_rng(seed), 12
    u, v, moved = rng.normal(size=(3, 2, n))
    near = np.array([u[0], u[0] + apart * moved[0]])
    rows = (v, near) if side else (near, v)
    left, right, _ = orthogonal_factor(Arrays(), [(1.0, *rows)], 0)
    gradient = rows[0].T @ rows[1]
    one, sizes, other = np.linalg.svd(gradient)
    spread = sizes[1] / sizes[0]
    assert spread > 1e-10
    np.testing.assert_allclose(left.T @ right / n, one[:, :2] @ other[:2], atol=1e-13 / spread)


@pytest.mark.parametrize("opt", [tp.Muon(.3, weight_decay=.4), tp.Muon(.3, momentum=.8), tp.Muon(.3, .8, nesterov=True),
                                 tp.Muon(.3, .8, newton_schulz_steps=3)])
def test_a_network_moves_by_the_factor_of_its_gradient(opt: tp.Muon) -> None:
    """Both readings with vectors, against numpy's SVD of buffers that are n x n arrays."""
    program = tp.program(tp.ResNet("tanh"), opt, tp.DepthScaling(), batch=True, d_in=3)
    rng, n, steps, depth = np.random.default_rng(2), 24, 4, 2
    sizes, data = {"T": steps, "L": depth, "B": 2}, dict(xi=rng.normal(size=(4, 2, 3)), y=rng.normal(size=(4, 2)))
    run = run_program(program, sizes, data, width=n)
    dense = run_dense(program, sizes, data, width=n, keep=("x", "h", "dh"))
    weights = dense.initial_weights()["W"]
    for layer in range(depth):
        W, buffer = weights[layer], np.zeros((n, n))
        for step in range(steps):
            x, dh = (dense.stack(name, step, at) for name, at in (("x", layer), ("dh", layer + 1)))
            np.testing.assert_allclose(dense.stack("h", step, layer + 1), x @ W.T, atol=1e-9)
            gradient = dh.T @ x / n
            buffer = opt.momentum * buffer + gradient
            moved = svd_factor(gradient + opt.momentum * buffer if opt.nesterov else buffer,
                               opt.newton_schulz_steps or 0)
            W = (1 - .3 * opt.weight_decay) * W - .3 * depth**-.5 * moved
    for step in range(1, steps):  # and statement by statement, with draws of its own
        x, h, before = (run.vectors[vector(name)[s, 0, node]] for name, s, node in
                        (("x", step, 0), ("h", step, 1), ("h", step, 1)))
        assert np.all(np.isfinite(x)) and np.all(np.isfinite(h - before))


def test_only_sums_of_outer_products_have_one() -> None:
    u, v = vector("u")[t, l], vector("v")[t, l]
    assert str(polar(2 * Outer(u, v), 3)) == "polar(2*outer(u[t, l], v[t, l])/n, 3 steps)"
    assert polar(Outer(u, v)).transposed() == polar(Outer(v, u))
    with pytest.raises(TypeError, match="Polar is a function of sums of outer products"):
        polar(u)


def test_single_precision_is_that_of_double() -> None:
    rng = np.random.default_rng(3)
    u, v = rng.normal(size=(2, 3, 50))
    one, two = (orthogonal_factor(Arrays("numpy", dtype), [(1.0, u.astype(dtype), v.astype(dtype))], 0)[0]
                for dtype in ("float32", "float64"))
    np.testing.assert_allclose(one, two, atol=1e-5)


def test_statement_by_statement_a_matrix_moves_by_the_factor_of_its_gradient_too() -> None:
    program = tp.program(tp.ResNet("tanh"), tp.Muon(.3), tp.DepthScaling(), batch=True, d_in=3)
    rng, n = np.random.default_rng(2), 24
    run = run_program(program, {"T": 2, "L": 2, "B": 2}, dict(xi=rng.normal(size=(2, 2, 3)), y=rng.normal(size=(2, 2))),
                      width=n)
    x, dh = (np.array([run.vectors[vector(name)[0, i, layer]] for i in range(2)]) for name, layer in
             (("x", 0), ("dh", 1)))
    W, read = Family(Matrix, "W", layered=True), vector("x")[1, 0, 0]
    moved = run.vector(MatVec(W[1, 1], read)) - run.vector(MatVec(W[0, 1], read))
    np.testing.assert_allclose(moved, -.3 * 2**-.5 * svd_factor(dh.T @ x / n) @ run.vectors[read], atol=1e-9)
