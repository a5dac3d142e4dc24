"""Loops through a stream: those of known sign are counted, all others refused, against plain NumPy networks."""

from __future__ import annotations

from typing import Callable, Container, Iterable

import numpy as np
import pytest
import sympy as sp
from _pytest.mark import ParameterSet
from scipy.special import erf

import tpcalc as tp
from tpcalc.programs.blocks import Branch
from tpcalc.programs.indices import L, l
from tpcalc.programs.language import MatVec, Mean, Transpose

HALF = sp.Rational(1, 2)
Layer = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of a matrix and the stream


def h(b: Branch) -> sp.Expr:
    return b.let("h", MatVec(b.weights(), b.x))


def back(b: Branch, z: sp.Expr) -> sp.Expr:
    return MatVec(Transpose(b.weights()), b.let("z", z))


def measured(layer: Layer, depths: tuple[int, int] = (64, 1024), width: int = 96) -> float:
    """The slope of the stream's size in the depth at alpha = 1/2, oo where it is past all numbers."""
    sizes = []
    for depth in depths:
        rng = np.random.default_rng(0)
        x = rng.standard_normal(width)
        with np.errstate(all="ignore"):
            for _ in range(depth):
                x = x + layer(rng.standard_normal((width, width)) / np.sqrt(width), x) / np.sqrt(depth)
            sizes.append(float(np.sqrt(np.mean(x**2))))
    return float(np.log(sizes[1] / sizes[0]) / np.log(depths[1] / depths[0])) if np.isfinite(sizes).all() else np.inf


UNKNOWN: dict[str, tuple[Callable[[Branch], sp.Expr], Layer, tuple[float, float]]] = {
    "W x - x^3/4": (lambda b: MatVec(b.weights(), b.x) - b.x**3 / 4, lambda W, x: W @ x - x**3 / 4, (-.6, .05)),
    "W^T tanh(W x)": (lambda b: back(b, sp.tanh(h(b))), lambda W, x: W.T @ np.tanh(W @ x), (.2, .7)),
    "W^T sin(W x)": (lambda b: back(b, sp.sin(h(b))), lambda W, x: W.T @ np.sin(W @ x), (-.05, .2)),
    "cos(W x)": (lambda b: sp.cos(h(b)), lambda W, x: np.cos(W @ x), (-.05, .3)),
    "-relu(x) + W x": (lambda b: MatVec(b.weights(), b.x) - sp.Max(0, b.x),
                       lambda W, x: W @ x - np.maximum(0, x), (-.6, .6)),
    "W x - x <x^2>": (lambda b: MatVec(b.weights(), b.x) - b.x * Mean(b.x**2),
                      lambda W, x: W @ x - x * np.mean(x**2), (-.6, .05))}


def walked(names: Iterable[str], quick: Container[str]) -> list[ParameterSet]:
    """All of them, some every time."""
    return [pytest.param(name, marks=() if name in quick else pytest.mark.nightly) for name in names]


@pytest.mark.parametrize("name", walked(UNKNOWN, ("W x - x^3/4", "W^T sin(W x)", "cos(W x)", "W x - x <x^2>")))
def test_a_loop_of_unknown_sign_is_never_said_to_explode(name: str) -> None:
    """None of these grows like an exponential, as their exponents alone would have it."""
    block, layer, (low, high) = UNKNOWN[name]
    assert low < measured(layer) < high
    with pytest.raises(ValueError, match="whether that makes it grow or decay is not known"):
        tp.classify(HALF, HALF, tp.ResNet(block=block))
    assert tp.classify(1, 0, tp.ResNet(block=block)).stable_at_init  # 1/L a layer is a number over all layers


@pytest.mark.parametrize("opt", [tp.SGD(0.5, momentum=0.9), tp.SGD(0.5, weight_decay=0.1)], ids=["momentum", "decay"])
def test_a_refusal_is_in_the_programs_names(opt: tp.SGD) -> None:
    """What a ket equation calls rho_W is, for who wrote the program, what is remembered of W."""
    with pytest.raises(tp.NotCovered, match=r"memory\(W\)") as caught:
        tp.classify(HALF, HALF, tp.ResNet(block=lambda b: back(b, sp.tanh(h(b)))), opt)
    assert "rho_" not in str(caught.value)


TURNED: dict[str, tuple[Callable[[Branch], sp.Expr], Layer]] = {
    "W x - tanh(x)": (lambda b: MatVec(b.weights(), b.x) - sp.tanh(b.x), lambda W, x: W @ x - np.tanh(x)),
    "W x - x": (lambda b: MatVec(b.weights(), b.x) - b.x, lambda W, x: W @ x - x),
    "W x - x logistic(W x)": (lambda b: (lambda one: one - b.x / (1 + sp.exp(-one)))(h(b)),
                              lambda W, x: W @ x - x / (1 + np.exp(-W @ x))),
    "-W^T gelu(W x)": (lambda b: -back(b, (lambda one: one * (1 + sp.erf(one)) / 2)(h(b))),
                       lambda W, x: -W.T @ ((W @ x) * (1 + erf(W @ x)) / 2)),
    "-W^T tanh(W x)": (lambda b: -back(b, sp.tanh(h(b))), lambda W, x: -W.T @ np.tanh(W @ x)),
    "-W^T W x": (lambda b: -back(b, h(b)), lambda W, x: -W.T @ (W @ x))}


@pytest.mark.parametrize("name", walked(TURNED, ("W x - tanh(x)", "W x - x", "-W^T W x")))
def test_what_takes_away_a_share_of_the_stream_lets_it_decay(name: str) -> None:
    block, layer = TURNED[name]
    assert measured(layer) < -.2
    assert tp.classify(HALF, HALF, tp.ResNet(block=block)).name == "decays"
    assert tp.classify(1, 0, tp.ResNet(block=block)).exponents["x at initialization"] == 0  # 1/L a layer is no decay


def test_what_would_decay_alone_and_is_fed_is_refused() -> None:
    """-tanh(x) takes away a share of the stream only where this is small; 2 is more than it ever takes."""
    with pytest.raises(tp.NotCovered):
        tp.classify(HALF, HALF, tp.ResNet(block=lambda b: 2 + h(b) - sp.tanh(b.x)))


def test_terms_that_are_alike_have_one_sign() -> None:
    """1 - l/(2 L) of W^T W x amplifies, and 1/2 - 1 of it lets the stream decay."""
    for number, name in ((1 - l / (2 * L), "explodes at initialization"), (HALF - 1, "decays")):
        def multiplied(b: Branch, factor: sp.Expr = number) -> sp.Expr:
            return sp.expand(factor * back(b, h(b)))

        assert tp.classify(HALF, HALF, tp.ResNet(block=multiplied)).name == name


KNOWN: dict[str, tuple[Callable[[Branch], sp.Expr], Layer, float]] = {
    "relu(W x)": (lambda b: sp.Max(0, h(b)), lambda W, x: np.maximum(0, W @ x), np.inf),
    "-relu(W x)": (lambda b: -sp.Max(0, h(b)), lambda W, x: -np.maximum(0, W @ x), np.inf),
    "W^T W x": (lambda b: back(b, h(b)), lambda W, x: W.T @ (W @ x), np.inf),
    "W^T relu(W x)": (lambda b: back(b, sp.Max(0, h(b))), lambda W, x: W.T @ np.maximum(0, W @ x), np.inf),
    "relu(x) + W x": (lambda b: MatVec(b.weights(), b.x) + sp.Max(0, b.x),
                      lambda W, x: W @ x + np.maximum(0, x), np.inf),
    "W^T cos(W x)": (lambda b: back(b, sp.cos(h(b))), lambda W, x: W.T @ np.cos(W @ x), 0),
    "x logistic(W x)": (lambda b: b.x / (1 + sp.exp(-h(b))), lambda W, x: x / (1 + np.exp(-W @ x)), np.inf),
    "logistic(W x)": (lambda b: 1 / (1 + sp.exp(-h(b))), lambda W, x: 1 / (1 + np.exp(-W @ x)), .5)}


@pytest.mark.parametrize("name", walked(KNOWN, ("relu(W x)", "-relu(W x)", "W^T W x", "W^T cos(W x)", "logistic(W x)")))
def test_a_loop_of_known_sign_grows_as_its_exponents_say(name: str) -> None:
    block, layer, power = KNOWN[name]
    found, slope = tp.classify(HALF, HALF, tp.ResNet(block=block)).exponents["x at initialization"], measured(layer)
    assert (found == sp.oo and slope > 2) if power == np.inf else abs(float(found) - slope) < .15
    assert found == (sp.oo if power == np.inf else sp.Rational(power))


def test_means_that_point_both_ways_are_refused() -> None:
    """relu(W x) - relu(V x): two means of one size, whose difference coefficients decide."""
    def both(b: Branch) -> sp.Expr:
        return sp.Max(0, h(b)) - sp.Max(0, b.let("v", MatVec(b.weights("V"), b.x)))

    assert abs(measured(lambda W, x: np.maximum(0, W @ x) - np.maximum(0, -W[::-1] @ x))) < 1
    with pytest.raises(ValueError, match="whether that makes it grow or decay is not known"):
        tp.classify(HALF, HALF, tp.ResNet(block=both))


def test_a_slope_without_a_mean_has_no_sign() -> None:
    """W^T |W x|: the slope of |h| is as often 1 as -1, whatever a quadrature's last digit is."""
    net = tp.ResNet(block=lambda b: back(b, sp.Abs(h(b))))
    assert abs(measured(lambda W, x: W.T @ np.abs(W @ x))) < .2
    assert tp.classify(HALF, HALF, net).exponents["x at initialization"] == 0


GROWING: dict[str, tuple[str | None, Callable[[Branch], sp.Expr], Layer]] = {
    "tanh(W x) + tanh(x)": (None, lambda b: sp.tanh(h(b)) + sp.tanh(b.x), lambda W, x: np.tanh(W @ x) + np.tanh(x)),
    "W n + n/(1 + exp(-n))": ("rms", lambda b: h(b) + b.x / (1 + sp.exp(-b.x)),
                              lambda W, x: W @ (n := x / np.sqrt(np.mean(x**2))) + n / (1 + np.exp(-n)))}


@pytest.mark.parametrize("name", GROWING)
def test_a_stream_that_has_grown_says_so_whatever_its_gradient_does(name: str) -> None:
    """Slopes on the way back vanish where the stream is large: whether gradients grow by powers of their own is not
    counted, and nothing of training is said."""
    norm, block, layer = GROWING[name]
    net = tp.ResNet("linear", block, norm)
    verdict = tp.classify(HALF, HALF, net)
    assert verdict.name == "grows at initialization" and verdict.exponents["x at initialization"] == HALF
    assert abs(measured(layer) - 0.5) < 0.1
    assert set(verdict.exponents) == {"x at initialization", "h at initialization"} and not verdict.bounds
    if norm is None:
        with pytest.raises(tp.NotCovered, match="not known from exponents"):
            tp.theory.interactions(HALF, HALF, net)
