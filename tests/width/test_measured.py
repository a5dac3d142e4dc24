"""Real perceptrons: series along the gradient against layerwise recursions, and slopes against counted powers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.references.ntk_recursions import differentials
from tpcalc.width import forward_equations, measure_differentials, measure_type_two
from tpcalc.width.jets import Draws, compose, draw_weights, kernel_series, output_series, smooth_derivatives

X = np.array([0.7, -0.4, 1.1])


@pytest.mark.parametrize("widths", [(3, 6, 1), (3, 4, 5, 1), (3, 4, 3, 5, 1)])
def test_series_are_the_recursions_of_the_paper(widths: tuple[int, ...]) -> None:
    """Both ways to eta H, eta^2 dH and eta^3 ddH of both types, on two drawn networks with biases."""
    sizes, rng = tp.meta_principled("1/2", layers=len(widths) - 1).sizes(widths), np.random.default_rng(3)
    drawn = draw_weights(sizes, widths, 2, rng)
    drawn = Draws(drawn.weights, tuple(rng.standard_normal(b.shape) for b in drawn.biases))
    series, kernels = output_series(drawn, X, sizes, "tanh", 3), kernel_series(drawn, X, sizes, "tanh", 2)
    for a in range(2):
        found = differentials([w[a] for w in drawn.weights], [b[a] for b in drawn.biases], sizes.weight_rate,
                              sizes.bias_rate, X)
        for k, tensor in enumerate(found[:3], 1):
            assert math.isclose(math.factorial(k) * series[k, a], tensor.ravel()[0], rel_tol=1e-11)
        assert math.isclose(kernels[1, a], 2 * found[1].item(), rel_tol=1e-11)
        assert math.isclose(kernels[2, a], found[2].item() + found[3].item(), rel_tol=1e-11)


def test_forward_equations_at_all_outputs() -> None:
    """One input and three outputs against the typed recursions; two inputs are in the ledger's expansions."""
    widths = (3, 4, 5, 3)
    sizes, rng = tp.meta_principled("1/2", layers=3).sizes(widths), np.random.default_rng(1)
    drawn = draw_weights(sizes, widths, 1, rng)
    weights, biases = [w[0] for w in drawn.weights], [rng.standard_normal(n) for n in widths[1:]]
    found = forward_equations(weights, biases, sizes, X[None])
    expected = differentials(weights, biases, sizes.weight_rate, sizes.bias_rate, X)
    for one, other in zip((found.H, found.dH, found.ddH_I, found.ddH_II), expected):
        assert np.allclose(one[(0,) * (one.ndim // 2)], other, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("wrong", [{"weights": [[[1.0]]]}, {"biases": [[0.0], [0.0, 0.0]]}, {"inputs": [1.0]}])
def test_shapes_that_do_not_fit_are_refused(wrong: dict[str, Any]) -> None:
    sizes = tp.meta_principled(0, layers=2).sizes((1, 1, 1))
    with pytest.raises(ValueError, match="expected"):
        forward_equations(**{"weights": [[[1.0]], [[1.0]]], "biases": [[0.0], [0.0]], "sizes": sizes,
                             "inputs": [[1.0]], **wrong})


def test_series_are_derivatives_of_the_output() -> None:
    """The output after a small step along eta lambda grad f, with gradients by finite differences."""
    widths = (3, 5, 4, 1)
    sizes, rng = tp.meta_principled(1, layers=3).sizes(widths), np.random.default_rng(0)
    drawn = draw_weights(sizes, widths, 1, rng)

    def output(weights: list[np.ndarray], biases: list[np.ndarray]) -> float:
        h = X
        for layer, (w, b) in enumerate(zip(weights, biases)):
            h = w @ h + b
            h = h if layer == 2 else np.tanh(h)
        return float(h[0])

    weights, biases = [w[0].copy() for w in drawn.weights], [b[0].copy() for b in drawn.biases]

    def step(array: np.ndarray, rate: float) -> np.ndarray:
        found = np.zeros_like(array)
        for at in np.ndindex(array.shape):
            kept = array[at]
            array[at] = kept + 1e-6
            above = output(weights, biases)
            array[at] = kept - 1e-6
            found[at] = rate * (above - output(weights, biases)) / 2e-6
            array[at] = kept
        return found

    steps = [step(w, rate) for w, rate in zip(weights, sizes.weight_rate)]
    bias_steps = [step(b, rate) for b, rate in zip(biases, sizes.bias_rate)]
    series = output_series(drawn, X, sizes, "tanh", 5)[:, 0]
    gaps = []
    for tau in (0.1, 0.05):
        there = output([w + tau * d for w, d in zip(weights, steps)], [b + tau * d for b, d in zip(biases, bias_steps)])
        gaps.append(abs(there - sum(c * tau**k for k, c in enumerate(series))))
    assert gaps[0] < 1e-4 and math.log2(gaps[0] / gaps[1]) > 5.5  # the remainder is of order tau^6


def test_composition_of_series() -> None:
    """exp of a series, by its own recurrence."""
    u = [np.array([0.3]), np.array([-0.5]), np.array([0.25]), np.array([2.0])]
    found = compose(smooth_derivatives(sp.exp(sp.Symbol("h")), 3), u)
    expected = [math.exp(0.3)]
    for k in range(1, 4):
        expected.append(sum(i * u[i][0] * expected[k - i] for i in range(1, k + 1)) / k)
    assert np.allclose(np.ravel(found), expected, rtol=1e-14)


def test_slopes_of_two_layers() -> None:
    _slopes("1/2", 2, (64, 128, 256), 4000, seed=3)


def test_the_metaparameter_multiplies_by_an_exact_power() -> None:
    """With the same draws other s are other powers of n in front, and no other error bars."""
    at = [measure_differentials(tp.meta_principled(s, 2), (8, 16), highest=4, samples=20) for s in ("0", "2/3")]
    for one, other in zip(*at):
        there, here = (tp.ntk_exponent(one.order, s, one.insert_output) for s in ("2/3", 0))
        assert np.allclose(other.means / one.means, one.widths**float(there - here), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("layers, widths", [(2, [2**k for k in range(6, 13)]), (3, [2**k for k in range(5, 10)]),
                                            (4, [2**k for k in range(6, 10)])])
@pytest.mark.parametrize("s", ["0", "1/2", "1"])
def test_slopes_over_many_widths(s: str, layers: int, widths: list[int]) -> None:
    """More layers than the count is about: the exponents of L = 2 are those of every fixed depth.

    With four layers networks of width 32 are not yet wide: order 4 falls by 1.8 powers from there to 64.
    """
    _slopes(s, layers, widths, 8000 if layers == 2 else 2000, seed=7)


@pytest.mark.slow
@pytest.mark.parametrize("layers, widths", [(2, [2**k for k in range(6, 13)]), (3, [2**k for k in range(5, 10)]),
                                            (4, [2**k for k in range(5, 10)])])
def test_slopes_of_second_differentials_of_both_types(layers: int, widths: list[int]) -> None:
    """(4.6) and (4.9) at s = 1/2. Other s multiply the values at each n by a power of n, exactly."""
    family, power = tp.meta_principled("1/2", layers), float(tp.ntk_exponent(3, "1/2"))
    for one in (measure_differentials(family, widths, highest=3, samples=4000, seed=7)[2],
                measure_type_two(family, widths, samples=4000, seed=8)):
        assert abs(one.slope - power) <= max(0.05, 3 * one.slope_error), (one.slope, one.slope_error)


def test_slope_of_type_two() -> None:
    one = measure_type_two(tp.meta_principled(0, 2), (32, 64, 128), samples=1500, seed=1)
    assert one.type_two and abs(one.slope - float(tp.ntk_exponent(3, 0))) <= max(0.05, 3 * one.slope_error) < 0.15


def _slopes(s: str, layers: int, widths: Any, samples: int, seed: int) -> None:
    for one in measure_differentials(tp.meta_principled(s, layers), widths, samples=samples, seed=seed):
        expected = float(tp.ntk_exponent(one.order, s, one.insert_output))
        assert abs(one.slope - expected) <= max(0.05, 3 * one.slope_error), (one.order, one.slope, one.slope_error)
        assert one.slope_error < 0.15


def test_means_without_the_output_vanish_at_even_orders() -> None:
    """The expectation that ntk_exponent gives -oo for: zero within the error, where its size is far above it."""
    sizes = tp.meta_principled(0, layers=2).sizes((3, 64, 1))
    drawn = draw_weights(sizes, (3, 64, 1), 20_000, np.random.default_rng(5))
    values = 2 * output_series(drawn, X, sizes, "tanh", 2)[2]
    assert tp.ntk_exponent(2, 0) == -sp.oo
    assert abs(values.mean()) < 4 * values.std() / math.sqrt(20_000)
    assert values.std() > 0.02


@pytest.mark.parametrize("phi", ["relu", "abs", sp.Piecewise((0, sp.Symbol("h") < 0), (sp.Symbol("h"), True))])
def test_kinks_are_refused(phi: Any) -> None:
    with pytest.raises(ValueError, match="kink"):
        measure_differentials(tp.meta_principled(0, 2), [4, 8], phi=phi)


@pytest.mark.parametrize("wrong", [{"widths": [4]}, {"widths": [4, 4]}, {"widths": [0, 4]}, {"highest": 0},
                                   {"samples": 1}, {"inputs": [[1.0]]}, {"inputs": []}, {"seed": -1}])
def test_bad_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}.*expected"):
        measure_differentials(**{"scaling": tp.meta_principled(0, 2), "widths": [4, 8], **wrong})
