"""Kernels that map Gram matrices of groups: one row a group gives what pairs give, and positions that mix are seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings, strategies as st

import tpcalc as tp
from tpcalc.propagators.laws.pair_laws import kernels_of
from tpcalc.propagators.blocks import Grams
from tpcalc.propagators.collocation import CollocationPropagator, solve_limit
from tpcalc.propagators.laws.group_laws import GroupForwardLaw, grouped, ungrouped, within_groups
from tpcalc.propagators.laws.group_sums import LiftedKernels
from tpcalc.propagators.mesh import Mesh

h = sp.Symbol("h", real=True)
SINE = sp.sin(h + sp.Rational(1, 2))


class Mixing:
    """x_i + eps W sum_j T_ij x_j: one matrix for all positions, which T mixes within a group."""

    has_diagonal, is_linear, resolution = True, False, 0.0

    def __init__(self, T: Any) -> None:
        self.T = np.array(T)
        self.size = len(self.T)

    def at(self, grams: Grams) -> "Mixed":
        return Mixed(self.T, grams)


class Mixed:
    """kappa = rho_a rho_b T C T^t and theta = T C T^t, which are linear in C."""

    def __init__(self, T: np.ndarray, grams: Grams) -> None:
        self.T, self.grams = T, grams

    def push(self, kernel: str, moved: np.ndarray) -> np.ndarray:
        return (self.grams.decay[..., None, None] if kernel == "kappa" else 1.0) * (self.T @ moved @ self.T.T)

    def value(self, kernel: str) -> np.ndarray:
        return self.push(kernel, self.grams.between)

    def pull(self, kernel: str, weights: np.ndarray, moved: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        scale = self.grams.decay[..., None, None] if kernel == "kappa" else 1.0
        between = scale * (self.T.T @ weights @ self.T)
        return between if moved is None else 0 * between, np.zeros_like(self.grams.left)


def batches(steps: int, batch: int, seed: int = 0) -> tp.Task:
    rng = np.random.default_rng(seed)
    return tp.Task(rng.normal(size=(steps, batch, 3)) / np.sqrt(3), rng.normal(size=(steps, batch, 1)) / 2)


def outputs(block: Any, task: tp.Task, noise: float = 1.0, drift: float = 1.0, opt: tp.SGD = tp.SGD(0.7)) -> np.ndarray:
    return solve_limit(task, opt, noise, drift, "plain", block=block).trace.outputs


@pytest.mark.parametrize("net", [tp.ResNet(SINE, "mlp"), tp.ResNet("tanh"), tp.ResNet("erf", norm="rms")])
def test_groups_of_rows_that_do_not_meet_are_pairs(net: tp.ResNet) -> None:
    """Two groups of two rows a step, with decay: all of the action's terms, B_aa among them."""
    block, task, opt = kernels_of(net), batches(3, 4), tp.SGD(0.7, weight_decay=0.2)
    f, g = outputs(block, task, opt=opt), outputs(LiftedKernels(block, 2), task, opt=opt)
    assert np.max(np.abs(f[2])) > 0.01
    np.testing.assert_allclose(g, f, rtol=0, atol=1e-10)


@pytest.mark.parametrize("sign", [1, -1])
def test_positions_that_are_alike_see_a_branch_multiplier(sign: int) -> None:
    """Of (x, x) T = [[a, b], [b, a]] makes (a + b)(x, x), of (x, -x) it makes (a - b)(x, -x); kappa and theta carry
    its square."""
    a, b, one = 0.9, 0.5, batches(3, 1, 2)
    task = tp.Task(np.concatenate([one.inputs, sign * one.inputs], 1),
                   np.concatenate([one.targets, sign * one.targets], 1))
    multiplier = (a + sign * b)**2
    expected = solve_limit(task, tp.SGD(0.7), multiplier, multiplier, "plain").trace.outputs
    assert np.max(np.abs(expected[1:] - outputs(Mixing(np.eye(2)), task)[1:])) > 0.02
    np.testing.assert_allclose(outputs(Mixing([[a, b], [b, a]]), task), expected, rtol=0, atol=1e-11)


def test_rows_in_another_order_of_positions() -> None:
    """A relabelling of positions relabels outputs, whatever mixes them."""
    T, order, task = np.array([[.8, .5, -.2], [.1, -.6, .4], [.3, .2, .7]]), [2, 0, 1], batches(3, 3, 5)
    moved = tp.Task(task.inputs[:, order], task.targets[:, order])
    f, g = outputs(Mixing(T), task), outputs(Mixing(T[np.ix_(order, order)]), moved)
    np.testing.assert_allclose(f[:, order], g, rtol=0, atol=1e-11)
    assert np.max(np.abs(f - outputs(Mixing(T.T), task))) > 1e-3


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 99))
def test_grouped_rows_can_be_joined(groups: int, others: int, size: int, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(2, groups * size, others * size))
    pieces = grouped(x, size)
    assert pieces.shape == (2, groups, others, size, size)
    np.testing.assert_array_equal(ungrouped(pieces), x)
    np.testing.assert_array_equal(pieces[:, -1, 0], x[:, (groups - 1) * size:, :size])
    if groups == others:
        np.testing.assert_array_equal(within_groups(pieces)[1, -1], x[1, -size:, -size:])


def test_refused() -> None:
    block, task = Mixing(np.eye(2)), batches(2, 4)
    with pytest.raises(ValueError, match="rows: got 3 a step with .*; expected whole groups of 2"):
        CollocationPropagator(Mesh.uniform(1, 4), 3, 1.0, 1.0, np.ones(6), np.zeros((6, 6)), block)
    with pytest.raises(ValueError, match="probes: got some with .* groups of 2"):
        outputs(block, tp.Task(task.inputs, task.targets, probes=[[1, 0, 0]]))
    with pytest.raises(ValueError, match=r"drift: got matrices of shape \(2, 1, 1\)"):
        GroupForwardLaw(block, 1.0, np.ones((2, 1, 1)), np.ones(1), np.ones(1), 1.0)
