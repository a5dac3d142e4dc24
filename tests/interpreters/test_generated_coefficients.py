"""The recursion that is derived from a training's program, against the one written by hand, on random tasks."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp
from tpcalc.lowering.recursions.losses import row_rule
from tpcalc.interpreters import KetCoefficients, read_coefficients
from tpcalc.interpreters.generated_coefficients import read_generated
from tpcalc.data.losses import NAMED

OPTIMIZERS = [tp.SGD(0.3), tp.SGD(0.2, momentum=0.5, nesterov=True), tp.SGD(0.2, momentum=0.4, weight_decay=0.2),
              tp.SGD(0.3, weight_decay=0.5, decoupled=True)]
LOSSES = ["mse", "logistic", "softmax"]


def generated(*problem: Any, **options: Any) -> KetCoefficients:
    """``read_generated`` with the source as Python runs it, which at these sizes is faster than to compile it."""
    module = importlib.import_module(tp.theory.Recursion.__module__)
    load = module.load_source  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "load_source", lambda source: SimpleNamespace(
            kernel=getattr(load(source).kernel, "py_func", load(source).kernel)))
        return read_generated(*problem, **options)


def targets(rng: np.random.Generator, loss: str, shape: tuple[int, ...]) -> np.ndarray:
    if loss == "softmax":
        return rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])
    return rng.choice([-1.0, 1.0], size=shape) if loss == "logistic" else rng.normal(size=shape)


def require_equal(found: KetCoefficients, oracle: KetCoefficients) -> None:
    for name in ("outputs", "probe_outputs", "x", "x_outputs", "delta", "delta_inputs", "covariance"):
        one, other = getattr(found, name), getattr(oracle, name)
        assert (one is None) == (other is None)
        if other is not None:
            assert one.shape == other.shape, name
            assert np.abs(one - other).max() < 1e-12 * (1 + np.abs(other).max()), name


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_generated_and_written_recursions_agree(data: st.DataObject) -> None:
    """Outputs, probes, every coefficient and every covariance, to rounding."""
    loss = data.draw(st.sampled_from(LOSSES))
    steps, batch, d_in, depth = (data.draw(st.integers(1, most)) for most in (3, 2, 2, 4))
    d_out = data.draw(st.integers(1 + (loss == "softmax"), 3))
    probes, ends = data.draw(st.integers(0, 2)), data.draw(st.booleans())
    alpha, gamma = data.draw(st.sampled_from([(0.5, 0.5), (1.0, 0.0), (0.7, 0.3)]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    task = tp.Task(rng.normal(size=(steps, batch, d_in)), targets(rng, loss, (steps, batch, d_out)), loss,
                   rng.normal(size=(probes, d_in)) if probes else None)
    scale, opt = tp.DepthScaling(alpha, gamma, branch=-0.8), data.draw(st.sampled_from(OPTIMIZERS))
    require_equal(generated(task, opt, scale, depth, ends),
                  read_coefficients(task, opt, scale, depth, train_embedding_readout=ends))


def test_a_schedule_and_a_base_depth() -> None:
    rng = np.random.default_rng(1)
    task = tp.Task(rng.normal(size=(3, 1, 2)), rng.normal(size=(3, 1, 1)))
    opt, scale = tp.SGD([0.5, 0.1, 0.3], momentum=0.5, dampening=0.2), tp.DepthScaling(0.5, 0.25, base_depth=3)
    require_equal(generated(task, opt, scale, 4), read_coefficients(task, opt, scale, 4))


def test_the_method_answers_alike_compiled() -> None:
    """Compiled, with a loss that couples outputs; runs answer questions from it."""
    rng = np.random.default_rng(2)
    task = tp.Task(rng.normal(size=(3, 2, 2)), np.eye(2)[rng.integers(0, 2, (3, 2))], "softmax")
    problem = tp.Problem(tp.ResNet(), task, tp.SGD(0.5), tp.DepthScaling(0.5, 0.5), depth=5)
    told: list[tuple[int, int]] = []
    runs = [tp.train(problem, method=tp.methods.Coefficients(generated=flag), keep_nodes="all",
                     progress=lambda *done: told.append(done)) for flag in (True, False)]
    assert np.abs(runs[0].outputs - runs[1].outputs).max() < 1e-14
    assert np.abs(runs[0].forward_covariance - runs[1].forward_covariance).max() < 1e-13
    assert told[0] == told[-1] == (3, 3)


def test_divergence_names_the_step() -> None:
    task = tp.Task(np.full((6, 1, 1), 1e100), np.ones((6, 1, 1)))
    with pytest.raises(tp.Divergence, match="at step [1-5] of the generated recursion"):
        with np.errstate(all="ignore"):
            generated(task, tp.SGD(1.0), tp.DepthScaling(), 3)


class Cubic:
    """A loss that is written elsewhere, of numbers alone."""

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.sum((f - y) ** 3, axis=-1)

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 3 * (f - y) ** 2


class CoupledCubic(Cubic):
    """One with an expression."""

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.sum(f - y, axis=-1) ** 3

    def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.broadcast_to(3 * np.sum(f - y, axis=-1, keepdims=True) ** 2, f.shape).copy()

    def expression(self, f: Any, y: Any) -> Any:
        return sum(a - b for a, b in zip(f, y)) ** 3


def test_losses_of_ones_own() -> None:
    """With an expression they couple outputs; without one they are refused by name, before any work."""
    rng = np.random.default_rng(3)
    xi, y = rng.normal(size=(3, 1, 1)), rng.normal(size=(3, 1, 2))
    task = tp.Task(xi, y, CoupledCubic())
    require_equal(generated(task, tp.SGD(0.05), tp.DepthScaling(), 3),
                  read_coefficients(task, tp.SGD(0.05), tp.DepthScaling(), 3))
    problem = tp.Problem(tp.ResNet(), tp.Task(xi, y, Cubic()), tp.SGD(0.05), tp.DepthScaling(), depth=3)
    method = tp.methods.Coefficients(generated=True)
    with pytest.raises(ValueError, match="loss: got .*Cubic.*, without expression"):
        tp.train(problem, method=method)
    with pytest.raises(ValueError, match="loss: got .*Cubic.*, without expression"):
        read_generated(problem.task, tp.SGD(0.05), tp.DepthScaling(), 3)
    assert tp.methods.Coefficients().refuses(problem) is None
    with pytest.raises(ValueError, match="generated: got 'yes'"):
        tp.methods.Coefficients(generated="yes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="loss: got 'hinge'; expected 'mse', 'logistic', 'softmax', a function"):
        row_rule("hinge")


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_in_generated_code_are_the_losses_own(name: str) -> None:
    """Also at outputs whose exponentials are no floats."""
    import sympy as sp

    f, y = sp.symbols("f:2"), sp.symbols("y:2")
    for values in ([0.3, -1.2], [800.0, -800.0], [-800.0, 800.0]):
        given_targets = np.array([[0.25, 0.75]]) if name == "softmax" else np.array([[1.0, -1.0]])
        expected = NAMED[name].derivative(np.array([values]), given_targets)[0]
        for k in range(2):
            with np.errstate(over="ignore"):
                found = sp.lambdify([*f, *y], row_rule(name)(f, y, k), "numpy")(
                    *map(np.float64, (*values, *given_targets[0])))
            assert abs(found - expected[k]) < 1e-13
