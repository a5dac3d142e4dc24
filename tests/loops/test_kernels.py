"""Kernels of networks whose layers are visited several times."""

from __future__ import annotations

from typing import Callable

import numpy as np
import pytest
import sympy as sp
from scipy.special import iv

import tpcalc as tp

ONE = np.array([[1.0]])
POINTS = np.array([[1.0, 0.5], [-0.3, 1.0], [0.2, -0.7]])


@pytest.mark.parametrize("visits, nngp", [(1, np.e), (2, 2.3709855676), (4, 2.3014968560), (8, 2.2850071539),
                                          (16, 2.2809373021), (tp.oo, 2.2795853023)])
def test_linear_streams_at_infinite_depth(visits: int, nngp: float) -> None:
    assert abs(tp.kernel_fn(tp.ResNet(visits=visits))(ONE, get="nngp")[0, 0] - nngp) < 1e-10


@pytest.mark.parametrize("c", [0.7, 1.0, 1.6])
def test_linear_streams_in_loop_time(c: float) -> None:
    """I_0(2 c) at any depth; the first step of gradient descent is that of the tangent kernel, I_1(2 c)."""
    kernels = tp.kernel_fn(tp.ResNet(visits=tp.oo), 3, tp.DepthScaling(branch=c))(ONE)
    assert abs(kernels.nngp[0, 0] - iv(0, 2 * c)) < 1e-11 * iv(0, 2 * c)
    assert abs(kernels.ntk[0, 0] - iv(1, 2 * c)) < 1e-11 * iv(1, 2 * c)


@pytest.mark.parametrize("phi, nngp, ntk", [("relu", 1.56446124, .58400860 + .62684723),
                                            ("tanh", 1.401817386, .525962462 + .444021212)])
def test_references(phi: str, nngp: float, ntk: float) -> None:
    kernels = tp.kernel_fn(tp.ResNet(phi, "mlp", visits=8), 4)(ONE)
    assert abs(kernels.nngp[0, 0] - nngp) < 1e-8 and abs(kernels.ntk[0, 0] - ntk) < 1e-8


def slow(visits: int, layers: int, order: str, start: float, kappa: Callable[[float, float, float], float]
         ) -> np.ndarray:
    """<x_v|x_w> of all visits of one input, by the sum as it is written."""
    count = visits * layers
    layer = [v % layers if order == "cycle" else v // visits for v in range(count)]
    found = np.full((count + 1, count + 1), start)
    for v in range(count + 1):
        for w in range(v + 1):
            total = sum(kappa(found[u, k], found[u, u], found[k, k]) for u in range(v) for k in range(w)
                        if layer[u] == layer[k])
            found[v, w] = found[w, v] = start + total / (visits**2 * layers)
    return found


@pytest.mark.parametrize("order", ["cycle", "block"])
@pytest.mark.parametrize("visits, layers", [(2, 3), (4, 1), (3, 2)])
def test_sums_over_pairs_of_visits(order: str, visits: int, layers: int) -> None:
    """W sin x: E sin u sin v = exp(-(p + q)/2) sinh c."""
    z = sp.Symbol("z", real=True)
    net = tp.ResNet(sp.sin(z), "pre_nonlin", visits=visits, order=order)
    expected = slow(visits, layers, order, 0.8, lambda c, p, q: np.exp(-(p + q) / 2) * np.sinh(c))
    assert abs(tp.kernel_fn(net, layers)(np.array([[0.8**0.5]]), get="nngp")[0, 0] - expected[-1, -1]) < 1e-12


@pytest.mark.parametrize("how", [dict(phi="tanh", block="mlp"), dict(phi="tanh", block="mlp", norm="rms"),
                                 dict(phi="relu", block="post_nonlin"), dict(phi="linear", block="post_nonlin")],
                         ids=lambda how: "-".join(map(str, how.values())))
def test_once_is_what_it_was_and_many_layers_have_a_limit(how: dict) -> None:
    """Finite depths approach infinite depth like 1/L, and so do visits loop time."""
    for visits in (2, 5):
        net = tp.ResNet(**how, visits=visits, train_embedding_readout=True)
        limit = tp.kernel_fn(net)(POINTS).ntk
        far = [np.max(np.abs(tp.kernel_fn(net, depth)(POINTS).ntk - limit)) for depth in (16, 32, 64)]
        assert all(1.8 < a / b < 2.2 for a, b in zip(far, far[1:])) and far[0] > 1e-4
    limit = tp.kernel_fn(tp.ResNet(**how, visits=tp.oo), 2)(POINTS).ntk
    far = [np.max(np.abs(tp.kernel_fn(tp.ResNet(**how, visits=visits), 2)(POINTS).ntk - limit))
           for visits in (16, 32, 64)]
    assert all(1.8 < a / b < 2.2 for a, b in zip(far, far[1:])) and far[0] > 1e-4


@pytest.mark.parametrize("phi, block, points", [("relu", "mlp", np.vstack([POINTS, -POINTS[:1], 2 * POINTS[:1]])),
                                                ("abs", "post_nonlin", POINTS)], ids=["relu", "abs"])
def test_kinks_in_loop_time(phi: str, block: str, points: np.ndarray) -> None:
    """What sums of 32 to 256 visits tend to, where 1/N and 1/N^2 are taken out; opposite and parallel inputs too."""
    limit = tp.kernel_fn(tp.ResNet(phi, block, visits=tp.oo), 1)(points)
    sums = [tp.kernel_fn(tp.ResNet(phi, block, visits=visits), 1)(points) for visits in (32, 64, 128, 256)]
    for name in ("nngp", "ntk"):
        values = [getattr(one, name) for one in sums]
        for power in (1, 2):
            values = [fine + (fine - coarse) / (2**power - 1) for coarse, fine in zip(values, values[1:])]
        step = np.max(np.abs(values[1] - values[0]))
        assert np.max(np.abs(values[1] - getattr(limit, name))) < step < 1e-4


def test_visits_in_a_row_are_one_at_infinite_depth() -> None:
    net = tp.ResNet("tanh", "mlp", visits=4, order="block")
    rows, once = tp.kernel_fn(net)(POINTS), tp.kernel_fn(tp.ResNet("tanh", "mlp"))(POINTS)
    assert np.array_equal(rows.ntk, once.ntk)
    far = [np.max(np.abs(tp.kernel_fn(net, depth)(POINTS).ntk - once.ntk)) for depth in (16, 32, 64)]
    assert all(1.8 < a / b < 2.2 for a, b in zip(far, far[1:]))


@pytest.mark.parametrize("order", ["cycle", "block"])
def test_the_first_step_is_the_tangent_kernel(order: str) -> None:
    """A small step of a linear network moves outputs by the kernel times the slope of the loss."""
    net, rate = tp.ResNet("linear", "mlp", visits=3, order=order), 1e-6
    task = tp.Task([[[0.6]], [[1.1]]], [[[1.0]], [[0.0]]])
    moved = tp.train(net, task, tp.SGD(rate), tp.DepthScaling(), depth=2).outputs[1, 0, 0]
    kernel = tp.kernel_fn(net, 2)(np.array([[1.1]]), np.array([[0.6]]), get="ntk")[0, 0]
    assert abs(moved / (rate * kernel) - 1) < 1e-5


def test_what_has_no_kernel_is_refused_by_name() -> None:
    for net, depth, said in ((tp.ResNet("tanh", "mlp", visits=2, inject=1), 2, "inject: got 1"),
                             (tp.ResNet("tanh", "mlp", visits=tp.oo, order="block"), 2, "order: got 'block'")):
        with pytest.raises(tp.NotCovered, match=said):
            tp.kernel_fn(net, depth)
