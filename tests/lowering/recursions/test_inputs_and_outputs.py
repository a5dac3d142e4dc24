"""Derived recursions of networks with several inputs, outputs and trained ends, compiled, against exact readings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.interpreters import read_coefficients
from tpcalc.calculus.recursion import expanded, fixed_indices

SHAPES = {"two inputs": (2, 1, False, False), "two outputs": (1, 2, True, False), "both": (2, 3, True, False),
          "trained ends": (1, 1, True, True), "trained ends of both": (3, 2, True, True)}


def recursion(net: tp.ResNet, opt: tp.SGD, scale: tp.DepthScaling, **sizes: Any) -> tp.theory.Recursion:
    return tp.recursion(tp.kets(tp.program(net, opt, scale, **sizes)))


def as_python(kernel: Any) -> Any:
    """The same source without compiling it, which at these sizes is faster."""
    return replace(kernel, kernel=getattr(kernel.kernel, "py_func", kernel.kernel))


def rows(values: np.ndarray, batch: bool) -> np.ndarray:
    """As the program reads them: without axes of one."""
    values = values[..., 0] if values.shape[-1] == 1 else values
    return values if batch else values[:, 0]


@pytest.mark.parametrize("opt", [tp.SGD(0.7), tp.SGD(0.5, momentum=0.4, weight_decay=0.2)], ids=["SGD", "momentum"])
@pytest.mark.parametrize("name", SHAPES)
def test_outputs_and_coefficients_are_those_of_exact_readings(name: str, opt: tp.SGD) -> None:
    """Outputs against two readings; every coefficient of hat-kets, and every covariance, against the oracle."""
    d_in, d_out, batch, ends = SHAPES[name]
    rng, depth = np.random.default_rng(1), 3
    steps, samples = 3, 2 if batch else 1
    task = tp.Task(rng.normal(size=(steps, samples, d_in)), rng.normal(size=(steps, samples, d_out)))
    net, scale = tp.ResNet(train_embedding_readout=ends), tp.DepthScaling(sp.Rational(1, 2), sp.Rational(1, 4))
    derived = recursion(net, opt, scale, batch=batch, d_in=d_in, d_out=d_out)
    found = as_python(derived.compile())(depth, rows(task.inputs, batch), rows(task.targets, batch))
    numbers = {v.name: number for number, v in enumerate(derived.setting.families)}
    outputs = found.outputs.reshape(task.targets.shape)
    oracle = read_coefficients(task, opt, scale, depth, train_embedding_readout=ends)
    assert np.abs(outputs - oracle.outputs).max() < 1e-12
    assert np.abs(outputs - tp.train(net, task, opt, scale, depth).outputs).max() < 1e-12
    for v, hat, ends_of in (("x", oracle.x, oracle.x_outputs), ("dx", oracle.delta, oracle.delta_inputs)):
        gamma = found.arrays[f"Gamma{numbers[v]}"]  # [t, (i,) l, r + 1, b, (j,) m]
        gamma = gamma[:steps] if batch else gamma[:steps, None, :, :, :, None]
        ours = gamma[:, :samples, :, 1:, :2, :samples, 1:].transpose(0, 1, 2, 4, 6, 3, 5)
        assert np.abs(ours.reshape(hat.shape) - np.sqrt(depth) * hat).max() < 1e-12
        initial = gamma[:, :samples, :, 0, :d_in + d_out, 0, 0].reshape(ends_of.shape)
        assert np.abs(initial - ends_of).max() < 1e-12
    assert np.abs(oracle.x).max() > 0.01 and np.abs(oracle.delta_inputs).max() > 0.01


def test_a_nonlinear_loss_is_differentiated_output_by_output() -> None:
    rng = np.random.default_rng(2)
    xi, y = rng.normal(size=(3, 2, 2)), np.sign(rng.normal(size=(3, 2, 2)))
    program = tp.program(tp.ResNet(), tp.SGD(0.5), tp.DepthScaling(), batch=True, d_in=2, d_out=2)
    kernel = as_python(tp.recursion(tp.kets(program)).compile(loss=lambda f, y: -y / (1 + sp.exp(y * f))))
    run = tp.train(tp.ResNet(), tp.Task(xi, y, loss="logistic"), tp.SGD(0.5), tp.DepthScaling(), 4)
    assert np.abs(kernel(4, xi, y).outputs - run.outputs).max() < 1e-13


def test_shapes_that_do_not_fit_are_refused() -> None:
    kernel = recursion(tp.ResNet(), tp.SGD(0.5), tp.DepthScaling(), d_in=2).compile()
    with pytest.raises(ValueError, match=r"inputs of shape \(3,\)"):
        kernel(4, [1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"xi: got an array of shape \(2, 3\); expected 2 in the last axis"):
        kernel(4, np.ones((2, 3)), np.ones(2))
    with pytest.raises(ValueError, match="xi: got an array of shape"):
        kernel.evaluate(T=2, L=3, xi=[1.0, 2.0], y=[1.0, 2.0])


def test_loops_and_sums_over_inputs_and_outputs_are_written_out() -> None:
    program = tp.program(tp.ResNet(train_embedding_readout=True), tp.SGD(0.5), tp.DepthScaling(), batch=True, d_in=2,
                         d_out=3)
    assert sorted(len(values) for values in fixed_indices(program).values()) == [2, 3]
    written = expanded(program)
    assert len(written.vectors) == 5 and not fixed_indices(written)
    sizes = {size: 2 for size in program.sizes}
    for one, other in zip(sorted(map(str, _statements(program, sizes))), sorted(map(str, _statements(written, sizes)))):
        assert one == other
    plain = tp.program(tp.ResNet(), tp.SGD(0.5), tp.DepthScaling(), batch=True)
    assert fixed_indices(plain) == {} and expanded(plain).body == plain.body


def _statements(program: Any, sizes: Any) -> list[tuple[Any, Any]]:
    from tpcalc.programs.indices import write_out

    return [(s.target, write_out(s.value)) for s in program.unroll(sizes)]
