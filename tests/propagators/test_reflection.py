"""The reflection solver: closed forms, its round-off, its size."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp
from support.closeness import assert_close
from support.propagators import reflect
from tpcalc.propagators.reflection import PackedReflectionPropagator, ReflectionPropagator

NET, SCALE = tp.ResNet("linear"), tp.DepthScaling()


@pytest.mark.parametrize("depth", [1, 2, 7, 100, 4096])
def test_one_step_on_one_input_has_a_closed_form(depth: int) -> None:
    """With xi = 1, f_0 = 0, c = lr y and q = 1 + 1/L: f_1 = c q^(L-1), and the stream's variance grows by
    (c/L)^2 q^(L+l-2) [l^2 + (1 - q^-2) (l-1) l (2l-1) / 6], Depthwise Hyperparameter Transfer, appendix G.2,
    corrected."""
    y, rate = 1.3, 0.7
    run = tp.train(NET, tp.Task((1, 1), (y, y)), tp.SGD(rate), SCALE, depth, keep_nodes="all")
    q, l, c = 1 + 1 / depth, np.arange(depth + 1), rate * y
    assert_close(run.outputs[1, 0, 0], c * q ** (depth - 1), 1e-12)
    growth = (c / depth) ** 2 * q ** (depth + l - 2) * (l**2 + (1 - q**-2) * (l - 1) * l * (2 * l - 1) / 6)
    variances = np.diagonal(run.forward_covariance, axis1=1, axis2=2)
    assert_close(variances[:, 0], q**l, 1e-12)
    assert_close(variances[:, 1] - variances[:, 0], growth, 1e-11, variances)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("depth", [16, 1024])
def test_the_mismatch_of_the_two_sweeps_is_round_off(packed: bool, depth: int) -> None:
    """<x^0|delta^0> = <x^L|delta^L>: the first from the backward sweep, the second from the forward one."""
    rng = np.random.default_rng(depth)
    task = tp.Task(rng.normal(size=6) * 0.7, rng.normal(size=6))
    trace, propagator = reflect(task, tp.SGD(0.5), SCALE, depth, "plain", packed)
    assert isinstance(propagator, PackedReflectionPropagator if packed else ReflectionPropagator)
    assert 0 < trace.mismatch < 1e-12


def test_the_error_estimate_bounds_the_difference_of_two_indexings() -> None:
    """Plain and effective samples share no intermediate result; their difference is of the size of the estimate."""
    rng = np.random.default_rng(1)
    task = tp.Task(rng.normal(size=(4, 5, 3)) / 2, rng.normal(size=(4, 5, 2)))
    run = tp.train(NET, task, tp.SGD(0.5), SCALE, 512)
    plain, _ = reflect(task, tp.SGD(0.5), SCALE, 512, "plain")
    assert 0 < run.error_estimate < 1e-12
    assert np.max(np.abs(run.outputs - plain.outputs)) < 20 * run.error_estimate


def test_one_scalar_a_step_takes_the_packed_kernel() -> None:
    """The two kernels give the same to round-off, not bit for bit: this tells which one ran."""
    task = tp.Task((1, 0.8, -0.6, 1.1), (1, -0.7, 0.5, 1.2))
    packed, _ = reflect(task, tp.SGD(1.0), SCALE, 64, "plain", packed=True)
    for kept in (None, "all"):
        assert np.array_equal(tp.train(NET, task, tp.SGD(1.0), SCALE, 64, keep_nodes=kept).outputs, packed.outputs)


@pytest.mark.parametrize("opt", [tp.SGD(0.7, momentum=0.4), tp.SGD(0.5, weight_decay=2.0, decoupled=True)], ids=str)
def test_packed_solutions_unpack_to_the_blocked_ones(opt: tp.SGD) -> None:
    """The second optimizer forgets its initial weights altogether, rho = 0."""
    task = tp.Task((1, 0.8, -0.6, 1.1), (1, -0.7, 0.5, 1.2))
    _, packed = reflect(task, opt, SCALE, 12, "plain", packed=True)
    _, block = reflect(task, opt, SCALE, 12, "plain")
    assert isinstance(packed, PackedReflectionPropagator)
    solution = packed.solution()
    for name in ("P", "Q", "S", "R", "A", "B", "C0", "C1"):
        one, two = getattr(solution, name), getattr(block, name)
        assert_close(one[:], two, 1e-13)
        assert_close(one[-1], two[-1], 1e-13, two)
        assert_close(one[3:9:2], two[3:9:2], 1e-13, two)


def test_depth_one_is_one_matrix() -> None:
    """f_t = <nV|x_t^0> + eps <nV|W_t|x_t^0>: the updates alone, W_t = W_0 - eta g eps^-0 sum chi |nV><x^0|: a recursion
    of scalars, because x^0 and delta^1 never move."""
    xi, y, rate = np.array([1, 0.8, -0.6, 1.1]), np.array([1, -0.7, 0.5, 1.2]), 0.4
    scale = tp.DepthScaling(0.5, 0.5, branch=0.6)
    weight, expected = 0.0, []
    for x, target in zip(xi, y):
        expected.append(0.6 * weight * x)
        weight -= rate * (expected[-1] - target) * x
    assert_close(tp.train(NET, tp.Task(xi, y), tp.SGD(rate), scale, 1).outputs.ravel(), expected, 1e-14)
