"""One neuron in each layer: equations (2) and (3) of Tensor Programs VI, and what the logarithm of (3) expands to."""

from __future__ import annotations

import numpy as np
import pytest

import tpcalc as tp

DEPTH = 7
RNG = np.random.default_rng(0)
W = RNG.normal(size=DEPTH)
X0, Y = 0.8, -0.3


def factors(w: np.ndarray = W) -> np.ndarray:
    return 1 + w / np.sqrt(DEPTH)


def gradients() -> np.ndarray:
    """G^l of squared loss with V = 1: the error times the products without layer l."""
    last = np.prod(factors()) * X0
    return np.array((last - Y) * X0 * np.prod(factors()) / factors() / np.sqrt(DEPTH))


def after(rate: float, direction: np.ndarray) -> float:
    """x_1^L."""
    return float(np.prod(factors(W - rate * direction)) * X0)


def trained(rate: float, opt: type) -> float:
    """The output after a step, by tp.train at width 1 with the same weights; the input is that of both steps."""
    weights = {"U": np.ones(1), "nV": np.ones(1), "W": W[:, None, None]}
    run = tp.train(tp.ResNet(), tp.Task([X0, X0], [Y, Y]), opt(rate), tp.DepthScaling(), DEPTH, 1,
                   method=tp.methods.Dense(weights=weights))
    return float(run.outputs[1, 0, 0])


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_equation_2(name: str) -> None:
    """The move is -eta L^(-1/2) A_L, to first order."""
    direction = gradients() if name == "SGD" else np.sign(gradients())
    moved = np.sum(direction * np.prod(factors()) / factors()) * X0 / np.sqrt(DEPTH)  # A_L / sqrt(L)
    errors = [after(rate, direction) - np.prod(factors()) * X0 + rate * moved for rate in (1e-3, 5e-4)]
    assert 0 < abs(errors[0]) < 1e-4 and errors[0] / errors[1] == pytest.approx(4, rel=0.05)


def test_equation_3_is_a_step_of_the_library() -> None:
    """x_1^L = prod (1 + W^l / sqrt(L) - tau M_l / L) x^0, tau = (x^L - y) x^0, M_l the product without layer l."""
    tau, without = (np.prod(factors()) * X0 - Y) * X0, np.prod(factors()) / factors()
    printed = np.prod(factors() - tau * without / DEPTH) * X0
    assert after(1.0, gradients()) == pytest.approx(printed) == trained(1.0, tp.SGD)


def test_signs_are_adams_first_step() -> None:
    """Of size L^(-1/2), Depth-muP's."""
    assert after(0.5 / np.sqrt(DEPTH), np.sign(gradients())) == pytest.approx(trained(0.5, tp.SignSGD))


def test_the_square_in_the_logarithm_has_minus_a_half() -> None:
    """Appendix B.1 prints + sum W^2 / L."""
    depth, rng = 400000, np.random.default_rng(1)
    w = rng.normal(size=depth)
    whole, first, second = np.sum(np.log1p(w / np.sqrt(depth))), np.sum(w) / np.sqrt(depth), np.sum(w**2) / depth
    assert whole == pytest.approx(first - second / 2, abs=0.01) and abs(whole - first - second) > 1
