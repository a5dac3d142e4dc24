"""The derived recursion, compiled, against the hand-written kernels, on random data."""

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import tpcalc as tp
from support.interpreted import interpreted
from tpcalc.interpreters import read_coefficients

ALPHA, GAMMA = sp.symbols("alpha gamma", real=True)


@pytest.fixture(scope="module")
def kernel() -> object:
    return tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling(ALPHA, GAMMA)))).compile()


@settings(max_examples=30, deadline=None)
@given(steps=st.integers(1, 5), depth=st.integers(1, 12), alpha=st.floats(0.5, 1), gamma=st.floats(0, 1),
       seed=st.integers(0, 2**32 - 1))
def test_compiled_agrees_with_coefficients_and_reflection(kernel, steps, depth, alpha, gamma, seed) -> None:
    """Outputs, every Gamma and every C, to 1e-12."""
    rng = np.random.default_rng(seed)
    xi, y = rng.uniform(-1, 1, (2, steps))
    derived = kernel(depth, xi, y, alpha=alpha, gamma=gamma)
    task, scale = tp.Task(xi, y), tp.DepthScaling(alpha, gamma)
    oracle = read_coefficients(task, tp.SGD(), scale, depth)
    size = 1 + np.abs(oracle.outputs).max()
    assert np.abs(derived.outputs - oracle.outputs.ravel()).max() < 1e-12 * size
    fast = tp.train(tp.ResNet(), task, tp.SGD(), scale, depth)
    assert np.abs(derived.outputs - fast.outputs.ravel()).max() < 1e-12 * size
    root = np.sqrt(depth)
    for a, (hat, ends) in enumerate(((oracle.x, oracle.x_outputs), (oracle.delta, oracle.delta_inputs))):
        gamma = derived.arrays[f"Gamma{a}"]  # [t, l, r + 1, b, m]
        ours = gamma[:, :, 1:, :, 1:].transpose(0, 1, 3, 4, 2)
        assert np.abs(ours - root * hat).max() < 1e-12 * (1 + np.abs(root * hat).max())
        ends_ours = gamma[:, :, 0, :, 0]
        assert np.abs(ends_ours - ends).max() < 1e-12 * (1 + np.abs(ends).max())
    scale_c = 1 + np.abs(oracle.covariance).max()
    for b in (0, 1):
        ours = derived.arrays[f"C{b}_{b}"][..., 1:].transpose(2, 0, 1)
        assert np.abs(ours - oracle.covariance[b]).max() < 1e-12 * scale_c


def test_what_arrays_need_is_not_shown(kernel) -> None:
    assert kernel.entries != 0 and "entries" not in repr(kernel)


def test_numbers_and_schedules_compile_too() -> None:
    """Exponents as numbers leave no parameters; a schedule is one more array of data; branch and base depth enter."""
    scale = tp.DepthScaling(sp.Rational(3, 4), sp.Rational(1, 4), branch=0.5, base_depth=2)
    opt = tp.SGD([0.5, 0.25, 1.0])
    compiled = tp.recursion(tp.kets(tp.program(tp.ResNet(), opt, scale))).compile()
    assert compiled.parameters == () and compiled.data == ("xi", "eta")
    xi, y = [1.0, -0.5, 0.7], [0.3, 1.0, -1.0]
    ours = compiled(9, xi, y, eta=opt.lr)
    theirs = tp.train(tp.ResNet(), tp.Task(xi, y), opt, scale, 9)
    assert np.abs(ours.outputs - theirs.outputs.ravel()).max() < 1e-13


def test_another_loss_compiles() -> None:
    """The loss derivative is given as an expression: here that of log cosh."""
    class LogCosh:
        def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
            return np.log(np.cosh(f - y)).sum(-1)

        def derivative(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
            return np.tanh(f - y)

    compiled = interpreted(tp.recursion(tp.kets(tp.program(tp.ResNet(), tp.SGD(), tp.DepthScaling()))),
                           lambda f, y: sp.tanh(f - y))
    xi, y = [1.0, -0.5, 0.7], [0.3, 1.0, -1.0]
    theirs = tp.train(tp.ResNet(), tp.Task(xi, y, loss=LogCosh()), tp.SGD(), tp.DepthScaling(), 9)
    assert np.abs(compiled(9, xi, y).outputs - theirs.outputs.ravel()).max() < 1e-13


def test_bad_calls_are_refused(kernel) -> None:
    with pytest.raises(ValueError, match="depth: got 0"):
        kernel(0, [1.0], [1.0], alpha=0.5, gamma=0.5)
    with pytest.raises(ValueError, match=r"expected \['alpha', 'gamma'\]"):
        kernel(4, [1.0], [1.0], alpha=0.5)
    with pytest.raises(ValueError, match="NaN"):
        kernel(4, [np.nan], [1.0], alpha=0.5, gamma=0.5)
    with pytest.raises(ValueError, match="shape"):
        kernel(4, [1.0, 2.0], [1.0], alpha=0.5, gamma=0.5)
    with pytest.raises(tp.Divergence) as caught:
        kernel(4, [1e90] * 4, [1e90] * 4, alpha=0.5, gamma=0.5)
    assert caught.value.step in (1, 2, 3)
