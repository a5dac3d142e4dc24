"""The mirror symmetry of the linear network: reverse layer time, swap forward and backward.

Replace W^l by its transpose at L + 1 - l. Then delta is a forward signal that starts as chi (nV as read-in),
x a backward signal that starts as xi (U as read-out), and the update delta x^T becomes x delta^T, which is
again the update of the mirrored network. So training the mirrored network on the inputs chi with the
prescribed loss derivatives xi gives the covariances of the original with their roles swapped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings

import tpcalc as tp
from support.closeness import assert_close
from tpcalc.testing import DrawnProblem, problems

NET = tp.ResNet("linear")


@dataclass(frozen=True)
class Prescribed:
    """The loss <f|y>, whose derivative is y whatever f."""

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.sum(f * y, axis=-1)

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return y


def mirrored(task: tp.Task, outputs: np.ndarray) -> tp.Task:
    return tp.Task(task.loss.derivative(outputs, task.targets), task.inputs, Prescribed())


def assert_mirror_images(task: tp.Task, run: tp.Run, image: tp.Run, tolerance: float) -> None:
    assert_close(image.forward_covariance, run.backward_covariance[::-1], tolerance)
    assert_close(image.backward_covariance, run.forward_covariance[::-1], tolerance)
    chi = run.outputs - task.targets
    for t in range(task.steps):  # <delta^0|x^0> = <delta^L|x^L>: chi_b . f_a = f'_b . xi_a
        assert_close(image.outputs[t] @ task.inputs[t].T, chi[t] @ run.outputs[t].T, tolerance, task.targets)


@pytest.mark.parametrize("method", ["reflection", "coefficients"])
@given(problem=problems(max_depth=16))
def test_the_mirrored_network_has_the_roles_swapped(method: str, problem: DrawnProblem) -> None:
    task, *rest = problem
    run = tp.train(NET, *problem, method=method, keep_nodes="all")
    image = tp.train(NET, mirrored(task, run.outputs), *rest, method=method, keep_nodes="all")
    assert_mirror_images(task, run, image, 1e-11)


@settings(max_examples=10)
@given(problem=problems(max_steps=3, with_limit=True))
def test_the_mirrored_network_has_the_roles_swapped_at_infinite_depth(problem: DrawnProblem) -> None:
    task, opt, scale, _ = problem
    times = np.linspace(0, 1, 5)
    run = tp.train(NET, task, opt, scale, tp.oo, keep_nodes=times)
    image = tp.train(NET, mirrored(task, run.outputs), opt, scale, tp.oo, keep_nodes=times)
    assert_mirror_images(task, run, image, 1e-10)
