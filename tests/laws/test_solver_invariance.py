"""What a solver chooses for itself changes its answer by no more than it says: mesh, start, tolerance, order."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.errors import Divergence
from tpcalc.propagators import collocation
from tpcalc.propagators.mesh import Mesh
from tpcalc.methods import collocation as method

BLOCKS: tuple[tuple[str, Any], ...] = (("linear", "post_nonlin"), ("tanh", "post_nonlin"), ("erf", "mlp"),
                                       ("relu", "post_nonlin"),
                                       (sp.sin(sp.Symbol("x") + sp.Rational(1, 2)), "post_nonlin"))
FAST, SLOW = 2, 60
uniform = Mesh.uniform


def drawn(seed: int) -> tp.Problem:
    """A problem at infinite depth: five blocks in turn, batches, decay or momentum, two regions, trained ends."""
    rng = np.random.default_rng(seed)
    phi, block = BLOCKS[seed % len(BLOCKS)]
    linear = phi == "linear"
    net = tp.ResNet(phi, block, train_embedding_readout=bool(linear and rng.integers(2)))
    steps, batch = int(rng.integers(2, 4)), int(rng.integers(1, 4))
    task = tp.Task(rng.normal(size=(steps, batch, 2)), rng.normal(size=(steps, batch, 1)))
    momentum, decay = [(0.0, 0.0), (0.5, 0.0), (0.0, 0.2)][rng.integers(3)]
    opt = tp.SGD(float(rng.choice([0.2, 0.6, 1.2])) / (4 if net.train_embedding_readout else 1), momentum,
                 weight_decay=decay)
    alpha = 0.5 if rng.integers(3) else 0.75
    return tp.Problem(net, task, opt, tp.DepthScaling(alpha, 1 - alpha), depth=tp.oo)


def meshes(patch: pytest.MonkeyPatch, coarse: int, fine: int, elements: int) -> None:
    patch.setattr(collocation, "COARSE", coarse)
    patch.setattr(collocation, "FINE", fine)
    patch.setattr(Mesh, "uniform", staticmethod(lambda _, nodes: uniform(elements, nodes)))


def tolerance(patch: pytest.MonkeyPatch, asked: float) -> None:
    patch.setattr(method, "TOLERANCE", asked)
    patch.setattr(method, "BLOCK_TOLERANCE", asked)


CHOICES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "fewer nodes": lambda patch: meshes(patch, 10, 13, 1),
    "more nodes": lambda patch: meshes(patch, 20, 26, 1),
    "three elements at the start": lambda patch: meshes(patch, collocation.COARSE, collocation.FINE, 3),
    "a loose tolerance": lambda patch: tolerance(patch, 1e-4),
    "another tolerance": lambda patch: tolerance(patch, 1e-7),
}


def turned(problem: tp.Problem) -> tp.Problem:
    """Samples of a batch in the opposite order."""
    task = tp.Task(problem.task.inputs[:, ::-1], problem.task.targets[:, ::-1])
    return tp.Problem(problem.net, task, problem.opt, problem.scale, problem.depth)


def assert_near(one: tp.Run, two: np.ndarray, error: float, what: str) -> None:
    size = max(1.0, float(np.max(np.abs(one.outputs))))
    assert one.error_estimate is not None
    assert np.max(np.abs(one.outputs - two)) <= one.error_estimate + error + 1e-14 * size, what


@pytest.mark.parametrize("seed", [*range(FAST), *(pytest.param(n, marks=pytest.mark.slow) for n in range(FAST, SLOW))])
def test_layer_time(seed: int) -> None:
    problem = drawn(seed)
    try:
        one = tp.train(problem)
    except Divergence:
        assert seed >= FAST  # seeds that always run have a limit
        return
    two = tp.train(turned(problem))
    assert_near(one, two.outputs[:, ::-1], float(two.error_estimate or 0), "another order of samples")
    for name, choose in CHOICES.items():
        with pytest.MonkeyPatch.context() as patch:
            choose(patch)
            other = tp.train(problem)
        assert_near(one, other.outputs, float(other.error_estimate or 0), name)


@pytest.mark.parametrize("phi", ["relu", "erf", "tanh"])
def test_kernels_of_untrained_networks(phi: str) -> None:
    """The order of inputs, and the other way round; starts and tolerances of the solver are all its own."""
    x = np.random.default_rng(4).normal(size=(5, 3))
    net = tp.ResNet(phi, "pre_nonlin")
    one = tp.kernel_fn(net)
    order = np.array([3, 0, 4, 1, 2])
    for which in ("nngp", "ntk"):
        whole = one(x, get=which)
        np.testing.assert_allclose(one(x[order], get=which), whole[np.ix_(order, order)], rtol=0, atol=1e-11)
        np.testing.assert_allclose(one(x[:2], x[2:], get=which), whole[:2, 2:], rtol=0, atol=1e-11)
        np.testing.assert_allclose(one(x[2:], x[:2], get=which), whole[2:, :2], rtol=0, atol=1e-11)
