"""Real perceptrons: series along the gradient against layerwise recursions, and slopes against counted powers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.ntk_recursions import differentials
from tpcalc.width import measure_differentials
from tpcalc.width.jets import Draws, compose, draw, output_series, smooth_derivatives

X = np.array([0.7, -0.4, 1.1])


@pytest.mark.parametrize("widths", [(3, 6, 1), (3, 4, 5, 1), (3, 4, 3, 5, 1)])
def test_series_are_the_recursions_of_the_paper(widths: tuple[int, ...]) -> None:
    """Both ways to eta H, eta^2 dH and eta^3 dd_I H, on two drawn networks with biases."""
    sizes, rng = tp.meta_principled("1/2", layers=len(widths) - 1).sizes(widths), np.random.default_rng(3)
    drawn = draw(sizes, widths, 2, rng)
    drawn = Draws(drawn.weights, tuple(rng.standard_normal(b.shape) for b in drawn.biases))
    series = output_series(drawn, X, sizes, "tanh", 3)
    for a in range(2):
        found = differentials([w[a] for w in drawn.weights], [b[a] for b in drawn.biases], sizes.weight_rate,
                              sizes.bias_rate, X)
        for k, tensor in enumerate(found, 1):
            assert math.isclose(math.factorial(k) * series[k, a], tensor.ravel()[0], rel_tol=1e-11)


def test_series_are_derivatives_of_the_output() -> None:
    """The output after a small step along eta lambda grad f, with gradients by finite differences."""
    widths = (3, 5, 4, 1)
    sizes, rng = tp.meta_principled(1, layers=3).sizes(widths), np.random.default_rng(0)
    drawn = draw(sizes, widths, 1, rng)

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


@pytest.mark.parametrize("s", ["0", "1/2", "1"])
def test_slopes_of_two_layers(s: str) -> None:
    _slopes(s, 2, (64, 128, 256), 4000, seed=len(s))


@pytest.mark.slow
@pytest.mark.parametrize("layers, widths", [(2, [2**k for k in range(6, 13)]), (3, [2**k for k in range(5, 10)]),
                                            (4, [2**k for k in range(6, 10)])])
@pytest.mark.parametrize("s", ["0", "1/2", "1"])
def test_slopes_over_many_widths(s: str, layers: int, widths: list[int]) -> None:
    """More layers than the count is about: the exponents of L = 2 are those of every fixed depth.

    With four layers networks of width 32 are not yet wide: order 4 falls by 1.8 powers from there to 64.
    """
    _slopes(s, layers, widths, 8000 if layers == 2 else 2000, seed=7)


def _slopes(s: str, layers: int, widths: Any, samples: int, seed: int) -> None:
    for one in measure_differentials(tp.meta_principled(s, layers), widths, samples=samples, seed=seed):
        expected = float(tp.ntk_exponent(one.order, s, one.insert_output))
        assert abs(one.slope - expected) <= max(0.05, 3 * one.slope_error), (one.order, one.slope, one.slope_error)
        assert one.slope_error < 0.15


def test_means_without_the_output_vanish_at_even_orders() -> None:
    """The expectation that ntk_exponent gives -oo for: zero within the error, where its size is far above it."""
    sizes = tp.meta_principled(0, layers=2).sizes((3, 64, 1))
    drawn = draw(sizes, (3, 64, 1), 20_000, np.random.default_rng(5))
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
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}.*allowed"):
        measure_differentials(**{"scaling": tp.meta_principled(0, 2), "widths": [4, 8], **wrong})
