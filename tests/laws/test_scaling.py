"""How solutions move when inputs, targets and learning rates are scaled together.

The read-in is linear and frozen: (xi, y) -> c (xi, y) multiplies x, f, chi and delta by c at unchanged
weights, and the update delta x by c^2; so eta -> eta / c^2 leaves every weight as it was. With one input
a step this holds for a factor of its own at every step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tpcalc as tp
from support.closeness import assert_close
from tpcalc.testing import DrawnProblem, arrays, problems

NET = tp.ResNet("linear")
METHODS = ["reflection", "coefficients"]
FACTORS = st.floats(0.5, 2.0).flatmap(lambda c: st.sampled_from([c, -c]))


@pytest.mark.parametrize("method", METHODS)
@given(problem=problems(), c=FACTORS)
def test_data_times_c_and_learning_rate_over_c_squared(method: str, problem: DrawnProblem, c: float) -> None:
    """f -> c f, losses and both covariances -> c^2."""
    task, opt, scale, depth = problem
    scaled = tp.Task(c * task.inputs, c * task.targets)
    a = tp.train(NET, *problem, method=method, keep_nodes="all")
    b = tp.train(NET, scaled, tp.SGD(opt.schedule(task.steps) / c**2), scale, depth, method=method, keep_nodes="all")
    assert_close(b.outputs, c * a.outputs, 1e-12, task.targets)
    assert_close(b.losses, c**2 * a.losses, 1e-12)
    assert_close(b.forward_covariance, c**2 * a.forward_covariance, 1e-12)
    assert_close(b.backward_covariance, c**2 * a.backward_covariance, 1e-12)


@given(problems(max_batch=1, max_steps=6), st.lists(FACTORS, min_size=6, max_size=6))
def test_every_step_of_one_input_has_a_factor_of_its_own(problem: DrawnProblem, factors: list[float]) -> None:
    """f_t -> c_t f_t, <x_t|x_s> -> c_t c_s <x_t|x_s>."""
    task, opt, scale, depth = problem
    c = np.array(factors[:task.steps])
    scaled = tp.Task(c[:, None, None] * task.inputs, c[:, None, None] * task.targets)
    a = tp.train(NET, *problem, keep_nodes="all")
    b = tp.train(NET, scaled, tp.SGD(opt.schedule(task.steps) / c**2), scale, depth, keep_nodes="all")
    assert_close(b.outputs, c[:, None, None] * a.outputs, 1e-12, task.targets)
    assert_close(b.forward_covariance, np.outer(c, c) * a.forward_covariance, 1e-12)
    assert_close(b.backward_covariance, np.outer(c, c) * a.backward_covariance, 1e-12)


@given(problems(max_steps=3), st.data())
def test_one_sample_may_change_its_sign(problem: DrawnProblem, data: st.DataObject) -> None:
    """(xi_a, y_a) -> -(xi_a, y_a) for some samples: their outputs change sign and no other does."""
    task, *rest = problem
    count = task.steps * task.batch
    signs = np.array(data.draw(st.lists(st.sampled_from([1.0, -1.0]), min_size=count, max_size=count)))
    signs = signs.reshape(task.steps, task.batch, 1)
    flipped = tp.Task(signs * task.inputs, signs * task.targets)
    assert_close(tp.train(NET, flipped, *rest).outputs, signs * tp.train(NET, *problem).outputs, 1e-13, task.targets)


@dataclass(frozen=True)
class WeightedLoss:
    """weight |f - y|^2 / 2."""

    weight: float

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.weight * 0.5 * np.sum((f - y) ** 2, axis=-1)

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self.weight * (f - y)


@given(problems(), FACTORS)
def test_loss_times_k_and_learning_rate_over_k(problem: DrawnProblem, k: float) -> None:
    """The same training; <delta|delta> -> k^2, losses -> k."""
    task, opt, scale, depth = problem
    weighted = tp.Task(task.inputs, task.targets, WeightedLoss(k))
    a = tp.train(NET, *problem, keep_nodes="all")
    b = tp.train(NET, weighted, tp.SGD(opt.schedule(task.steps) / k), scale, depth, keep_nodes="all")
    assert_close(b.outputs, a.outputs, 1e-12, task.targets)
    assert_close(b.losses, k * a.losses, 1e-12)
    assert_close(b.forward_covariance, a.forward_covariance, 1e-12)
    assert_close(b.backward_covariance, k**2 * a.backward_covariance, 1e-12)


@pytest.mark.parametrize("method", METHODS)
@given(problem=problems(max_probes=1), square=arrays((3, 3)))
def test_inputs_enter_by_their_gram_matrix(method: str, problem: DrawnProblem, square: np.ndarray) -> None:
    """A rotation of the input space, into a larger one, changes nothing."""
    task, *rest = problem
    rotation = np.linalg.qr(square + 3 * np.eye(3))[0][:task.d_in]
    probes = None if task.probes is None else task.probes @ rotation
    turned = tp.Task(task.inputs @ rotation, task.targets, probes=probes)
    a, b = (tp.train(NET, k, *rest, method=method) for k in (task, turned))
    assert_close(b.outputs, a.outputs, 1e-12, task.targets)
    if task.probes is not None:
        assert_close(b.probe_outputs, a.probe_outputs, 1e-12, task.targets)


@pytest.mark.parametrize("alpha, gamma", [(0.5, 0.5), (0.75, 0.25), (1.0, 0.0)])
@pytest.mark.parametrize("c", [-1.7, 0.6])
def test_data_times_c_and_learning_rate_over_c_squared_at_infinite_depth(alpha: float, gamma: float, c: float) -> None:
    rng = np.random.default_rng(3)
    xi, y, scale = rng.normal(size=(3, 2, 2)) / 2, rng.normal(size=(3, 2, 2)), tp.DepthScaling(alpha, gamma)
    a = tp.train(NET, tp.Task(xi, y), tp.SGD(0.5), scale, tp.oo, keep_nodes=[0.3, 1])
    b = tp.train(NET, tp.Task(c * xi, c * y), tp.SGD(0.5 / c**2), scale, tp.oo, keep_nodes=[0.3, 1])
    assert_close(b.outputs, c * a.outputs, 4e-12)
    assert_close(b.forward_covariance, c**2 * a.forward_covariance, 1e-11)
    assert_close(b.backward_covariance, c**2 * a.backward_covariance, 1e-11)
