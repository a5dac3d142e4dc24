"""Bounded activations, growth of any power, norms and sums of several hat-kets: counts held against numbers."""

from __future__ import annotations

from typing import Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from drawn.extrapolation import slope
from tpcalc.gaussian.scalar_functions import H, scalar_function
from tpcalc.programs.blocks import Branch
from tpcalc.programs.language import MatVec

HALF, QUARTER = sp.Rational(1, 2), sp.Rational(1, 4)
DEPTHS = np.array([64, 256, 1024])


def sizes_at_initialization(phi: Callable, slope: Callable, alpha: float, depth: int, norm: bool = False,
                            width: int = 200) -> tuple[float, float]:
    """The root mean squares of x^L and of the gradient in x^0, of a real network of blocks phi(W x), without its mean.

    The weights are drawn anew for the way back, which at infinite width makes no difference to these two.
    """
    rng = np.random.default_rng(depth)
    x, hs = rng.normal(size=width), []
    for _ in range(depth):
        acted = x / np.sqrt(np.mean(x**2)) if norm else x
        h = rng.normal(size=(width, width)) / np.sqrt(width) @ acted
        hs.append(h)
        x = x + depth**-alpha * (phi(h) - phi(h).mean())
    d = rng.normal(size=width)
    for h in reversed(hs):
        d = d + depth**-alpha * (rng.normal(size=(width, width)) / np.sqrt(width) @ (slope(h) * d))
    return float(np.sqrt(np.mean(x**2))), float(np.sqrt(np.mean(d**2)))


def test_below_one_half_tanh_grows_like_a_power_and_its_gradient_like_an_exponential_of_one() -> None:
    """At alpha = 0 x ~ L^(1/2); the slope is of order one where |h| is, with probability 1/|x|: L^(1/2) over layers."""
    v = tp.classify(0, 1, tp.ResNet("tanh"))
    assert (v.exponents["x at initialization"], v.exponents["h at initialization"]) == (HALF, HALF)
    assert not v.stable_at_init and "exp(L^(1/2))" in v.reasons[0] and "x L^(1/2)" in v.reasons[0]
    found = np.array([sizes_at_initialization(np.tanh, lambda h: 1 / np.cosh(h)**2, 0, n) for n in DEPTHS])
    slope_x = np.polyfit(np.log(DEPTHS), np.log(found[:, 0]), 1)[0]
    one, two = np.diff(np.log(found[:, 1]))  # what log of the gradient has beside its power of L is of order one
    slope_gradient = np.log(two / one) / np.log(DEPTHS[1] / DEPTHS[0])
    assert slope_x == pytest.approx(0.5, abs=0.05) and slope_gradient == pytest.approx(0.5, abs=0.05)
    quarter = tp.classify(QUARTER, 3 * QUARTER, tp.ResNet("tanh"))
    assert quarter.exponents["x at initialization"] == QUARTER and "exp(L^(1/4))" in quarter.reasons[0]


@pytest.mark.slow
def test_with_a_norm_the_stream_grows_like_a_power_below_one_half() -> None:
    """What a block adds is of order one however large the stream is."""
    v = tp.classify(QUARTER, 3 * QUARTER, tp.ResNet("relu", norm="rms"))
    assert v.exponents["x at initialization"] == QUARTER and v.exponents["h at initialization"] == 0
    assert not v.stable_at_init and v.output_stable is not True and "change of f" not in v.exponents
    found = [sizes_at_initialization(lambda h: np.maximum(h, 0), np.sign, 0.25, n, norm=True)[0] for n in DEPTHS]
    assert np.polyfit(np.log(DEPTHS), np.log(found), 1)[0] == pytest.approx(0.25, abs=0.05)
    assert "exp" in tp.classify(QUARTER, 3 * QUARTER, tp.ResNet("relu")).reasons[0]


@pytest.mark.parametrize("alpha, gamma, df, dh, name", [
    (1, -HALF, 0, HALF, "converges in x and f, not in h"), (2, -1, -1, 1, "trivial, with h growing"),
    (3 * HALF, -HALF, -HALF, HALF, "trivial, with h growing")])
def test_what_a_bounded_activation_does_to_a_large_argument_is_of_order_one(alpha, gamma, df, dh, name) -> None:
    v = tp.classify(alpha, gamma, tp.ResNet("tanh"))
    assert (v.exponents["change of f"], v.exponents["change of x"], v.exponents["change of h"]) == (df, df, dh)
    assert v.output_stable and v.stable_in_training is False and v.nontrivial == (df == 0) and v.name == name


def first_changes(net: tp.ResNet, alpha: sp.Expr, gamma: sp.Expr, depths: np.ndarray) -> np.ndarray:
    """|f_1| of particles, on one input: f_0 is 0."""
    task, scale = tp.Task([1.0, 1.0], [-1.0, -1.0]), tp.DepthScaling(alpha, gamma)
    return np.array([abs(tp.train(net, task, tp.SGD(), scale, depth=int(n), method="particles", samples=4096)
                         .outputs.ravel()[1]) for n in depths])


def test_the_sign_of_what_one_matrix_draws_has_no_mean_with_what_another_drew() -> None:
    """Of tanh of two matrices, whose first one sees L^(1/4) times what the second one's transpose draws: its value in
    training is the sign of that, and not what it was, so that f changes by less than L^0."""
    point, net, depths = (5 * QUARTER, -QUARTER), tp.ResNet("tanh", "mlp"), DEPTHS // 4
    found = tp.classify(*point, net)
    assert found.nontrivial is None and "change of f" in found.bounds and found.name == "undecided"
    slopes = np.diff(np.log(first_changes(net, *point, depths))) / np.diff(np.log(depths))
    assert np.all(slopes < -0.08) and slopes[1] < slopes[0]
    assert tp.classify(1, -QUARTER, tp.ResNet("tanh")).nontrivial  # the sign of a gradient has one with the readout


def beside(b: Branch) -> sp.Expr:
    """A linear matrix beside a bounded function."""
    return MatVec(b.weights("W1"), b.x) + b.let("z", b.phi(b.let("h", MatVec(b.weights("W2"), b.x))))


@pytest.mark.nightly
def test_a_bounded_function_holds_no_linear_path_beside_it() -> None:
    """The first update moves it by L^(1/2), and nothing explodes before the second."""
    net, depths = tp.ResNet("tanh", beside), np.array([16, 32, 64, 128])
    v = tp.classify(HALF, 0, net)
    measured, _ = slope(depths, first_changes(net, HALF, sp.Integer(0), depths), [0.5])
    assert v.name == "unstable in training" and v.exponents["change of f"] == HALF
    assert measured == pytest.approx(0.5, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("net, alpha, gamma", [
    (tp.ResNet("tanh"), 2, -1), (tp.ResNet("tanh"), 1, 0), (tp.ResNet("tanh"), 3 * HALF, -HALF),
    (tp.ResNet("gelu"), 3 * QUARTER, QUARTER), (tp.ResNet("relu", norm="rms"), 1, HALF),
    (tp.ResNet("abs"), 1, 1)], ids=str)
def test_changes_of_the_output_go_like_the_derived_power(net, alpha, gamma) -> None:
    """Bounded activations correct it where their argument is small, with probability L^(-1/2)."""
    depths = np.array([16, 32, 64, 128])
    sizes = first_changes(net, sp.sympify(alpha), sp.sympify(gamma), depths)
    measured, _ = slope(depths, sizes, [0.5] if net.phi == "tanh" else [])
    v = tp.classify(alpha, gamma, net)
    assert "change of f" not in v.bounds
    assert measured == pytest.approx(float(v.exponents["change of f"]), abs=0.05)


@pytest.mark.parametrize("net, alpha, gamma", [
    pytest.param(tp.ResNet("tanh"), HALF, QUARTER, marks=pytest.mark.nightly),
    *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        (tp.ResNet("tanh"), HALF, 0), (tp.ResNet("tanh"), HALF, -HALF), (tp.ResNet("relu", norm="rms"), HALF, QUARTER),
        (tp.ResNet("relu", norm="rms"), HALF, -HALF), (tp.ResNet("tanh", "mlp"), HALF, QUARTER),
        (tp.ResNet("linear", norm="rms"), 3 * QUARTER, 0)))], ids=str)
def test_what_is_held_back_grows_by_less_than_the_bound_that_is_said(net, alpha, gamma) -> None:
    """An update acts by the overlap of the stream that it was made for with the one that it has made grow, and these
    point elsewhere: f grows, so that training is unstable and nontrivial, but not as if they were one direction."""
    v = tp.classify(alpha, gamma, net)
    assert v.name == "unstable in training" and v.output_stable is False and v.nontrivial
    assert {"change of f", "change of x", "change of h"} <= v.bounds and "f at most " in v.reasons[1]
    depths = np.array([32, 64, 128, 256])
    growth = np.diff(np.log(first_changes(net, sp.sympify(alpha), sp.sympify(gamma), depths))) / np.log(2)
    assert 0.1 < growth.min() and growth.max() < float(v.exponents["change of f"]) + 0.05


Entrywise = Callable[[np.ndarray], np.ndarray]
TANH: tuple[Entrywise, Entrywise] = np.tanh, lambda h: 1 / np.cosh(h)**2


def after_a_step(functions: tuple[Entrywise, Entrywise], scale: tp.DepthScaling, depth: int, two: bool = False,
                 width: int = 128, networks: int = 8) -> tuple[float, float]:
    """The changes of f and, in the root mean square, of x^L in real networks, after one step of size 1 that makes f
    grow; two: blocks W2 phi(W1 x) in place of phi(W x)."""
    (phi, slope), small, size = functions, depth**-float(scale.alpha), depth**-float(scale.gamma)
    found = []
    for seed in range(networks):
        rng = np.random.default_rng((seed, depth))
        first, last = (rng.normal(size=(depth, width, width)) / np.sqrt(width) for _ in range(2))
        x, readout = rng.normal(size=(2, width))
        xs, hs, moves, d = [x], [], [], readout
        for w, u in zip(first, last):
            hs.append(w @ xs[-1])
            xs.append(xs[-1] + small * (u @ phi(hs[-1]) if two else phi(hs[-1])))
        for w, u, h in zip(first[::-1], last[::-1], hs[::-1]):
            moves.append(((u.T @ d if two else d) * slope(h), d))
            d = d + small * (w.T @ moves[-1][0])
        for w, u, old, h, (inner, outer) in zip(first, last, xs, hs, moves[::-1]):
            acted = phi(w @ x + size * inner * (old @ x) / width)
            x = x + small * (u @ acted + size * outer * (phi(h) @ acted) / width if two else acted)
        change = x - xs[-1]
        found.append((readout @ change / width, np.sqrt(np.mean(change**2))))
    f, moved = np.mean(found, axis=0)
    return float(f), float(moved)


@pytest.mark.parametrize("alpha", [HALF, 3 * QUARTER])
def test_outputs_that_a_saturated_activation_holds_back_still_move(alpha: sp.Expr) -> None:
    """Once x is large, tanh makes 1/|x| of what an update adds to it: f grows, though by less than is said."""
    scale = tp.DepthScaling(alpha, 0)
    v = tp.classify(scale, tp.ResNet("tanh"))
    assert v.output_stable is False and v.nontrivial is True and "change of f" in v.bounds
    near, far = (after_a_step(TANH, scale, depth)[0] for depth in (16, 128))
    assert 0.1 < np.log(far / near) / np.log(8) < v.exponents["change of f"]


def test_outputs_that_the_first_update_moves_by_order_one_are_moved() -> None:
    """At (5/4, -1/4) the first update of linear blocks of two matrices does; the second one explodes."""
    scale = tp.DepthScaling(5 * QUARTER, -QUARTER)
    v = tp.classify(scale, tp.ResNet(block="mlp"))
    assert v.nontrivial is True and v.exponents["change of f"] == 0 and v.output_stable is False
    near, far = (after_a_step((lambda h: h, np.ones_like), scale, depth, two=True)[0] for depth in (16, 128))
    assert far > 0.9 * near > 0.1


@pytest.mark.parametrize("alpha, stable", [(1, True), (3 * QUARTER, None)])
def test_an_oscillation_of_what_an_update_makes_large_has_no_mean(alpha: sp.Expr, stable: bool | None) -> None:
    """Far out tanh goes to a sign, which keeps what an update adds, and sin goes on: a mean over it vanishes. It was
    counted as one of order one, and what does not change was said to."""
    h, scale = sp.Symbol("h", real=True), tp.DepthScaling(alpha, -HALF)
    v = tp.classify(scale, tp.ResNet(sp.sin(h)))
    assert v.nontrivial is None and v.output_stable is stable and {"change of f", "change of x"} <= v.bounds
    (near, x), (far, xs) = (after_a_step((np.sin, np.cos), scale, depth) for depth in (8, 128))
    assert abs(far) < 0.2 * near and xs < 1.1 * x
    v = tp.classify(scale, tp.ResNet("tanh"))
    near, far = (after_a_step(TANH, scale, depth)[0] for depth in (16, 128))
    assert v.nontrivial and near < far and v.output_stable is (alpha == 1)


def test_what_a_block_makes_of_an_argument_that_is_large_at_once_overlaps_little_with_what_it_made() -> None:
    """At (1, -1) updates of W1 are L, and tanh of that meets what it was by 1/L: what W2's update would do at first,
    which is L, says nothing of f."""
    scale = tp.DepthScaling(1, -1)
    v = tp.classify(scale, tp.ResNet("tanh", "mlp"))
    assert v.name == "undecided" and v.output_stable is None and v.nontrivial is None
    assert v.exponents["change of f"] == 1 and "change of f" in v.bounds
    near, far = (after_a_step(TANH, scale, depth, two=True)[0] for depth in (32, 128))
    assert 0 < np.log(far / near) / np.log(4) < 0.4
    assert tp.classify(HALF, 0, tp.ResNet("tanh", "mlp")).nontrivial


def inside(b: Branch) -> sp.Expr:
    """A bounded function of what a matrix makes of an unbounded one."""
    first = b.let("z1", sp.Max(b.let("h1", MatVec(b.weights("W1"), b.x)), 0))
    return b.let("z2", b.phi(b.let("h2", MatVec(b.weights("W2"), first))))


@pytest.mark.parametrize("net, scale", [
    (tp.ResNet("tanh"), tp.DepthScaling(1, -QUARTER)),
    pytest.param(tp.ResNet("tanh", inside), tp.Parametrization(depth={"alpha": 1, "W1": -QUARTER, "W2": HALF}),
                 marks=pytest.mark.nightly)],
    ids=["one", "two"])
def test_an_odd_function_of_large_hat_kets_has_a_mean_where_the_rest_is_as_large(net, scale) -> None:
    """Updates outweigh what the initial matrix makes of the stream, or what the second one makes of z1 comes back
    through the gradient that has moved z1: of order one is no bound, and f changes so."""
    v = tp.classify(scale, net)
    assert v.exponents["change of f"] == 0 and v.exponents["change of h"] == QUARTER and not v.bounds
    changes = [tp.train(net, tp.Task([1.0, 1.0], [-1.0, -1.0]), tp.SGD(), scale, depth=depth, method="particles",
                        samples=2048).outputs.ravel()[1] for depth in (32, 128)]
    assert abs(np.log(changes[1] / changes[0]) / np.log(4)) < 0.1


FUNCTIONS = {"relu": (1, sp.Max(H, 0)), "gelu": (1, H * (1 + sp.erf(H / sp.sqrt(2))) / 2),
             "silu": (1, H / (1 + sp.exp(-H))), "square": (2, H**2), "softplus": (1, sp.log(1 + sp.exp(H))),
             "tanh": (0, sp.tanh(H)), "hard tanh": (0, sp.Min(sp.Max(H, -1), 1)), "shifted": (1, sp.Max(H + HALF, 0)),
             "softsign": (0, H / (1 + sp.Abs(H))), "root": (1, sp.sqrt(1 + H**2)), "bump": (0, sp.exp(-H**2))}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_growth_is_the_power_that_values_far_out_go_like(name: str) -> None:
    power, function = FUNCTIONS[name]
    assert scalar_function(function).growth == power
    far = [max(abs(float(function.subs(H, s * h).evalf())) for s in (1, -1)) for h in (1e3, 1e5)]
    measured = np.log(far[1] / far[0]) / np.log(100) if far[0] > 1e-300 else 0
    assert measured == pytest.approx(power, abs=0.01)
    slopes = [abs(float(scalar_function(function).derivative.expression.subs(H, s * 40).evalf())) for s in (1, -1)]
    if scalar_function(function).derivative.decays:
        assert max(slopes) < 1e-3


def test_parity_is_told_by_values() -> None:
    odd = {name: scalar_function(function).parity for name, (_, function) in FUNCTIONS.items()}
    assert {n for n, p in odd.items() if p == -1} == {"tanh", "hard tanh", "softsign"}
    assert {n for n, p in odd.items() if p == 1} == {"square", "root", "bump"}
    assert scalar_function(sp.Abs(H)).has_kinks and not scalar_function(sp.tanh(H)).has_kinks


def own(phi: Callable) -> Callable:
    """A user's block with a function of its own and a constant in it: the network's phi plays no part."""
    def block(branch: Branch) -> sp.Expr:
        h = branch.let("h", MatVec(branch.weights("W1"), branch.x))
        return MatVec(branch.weights("W2"), branch.let("z", phi(h + HALF)))
    return block


def test_kinks_are_those_of_the_blocks_own_functions() -> None:
    error = "linearization error of a layer"
    kinked = tp.classify(HALF, HALF, tp.ResNet("tanh", own(lambda h: sp.Max(h, 0))))
    smooth = tp.classify(HALF, HALF, tp.ResNet("relu", own(sp.tanh)))
    assert (kinked.exponents[error], smooth.exponents[error]) == (-5 * QUARTER, -3 * HALF)
    assert kinked.name == smooth.name == "Depth-muP"


def test_what_grows_faster_than_every_power_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="exp.h. grows faster than every power"):
        tp.classify(HALF, HALF, tp.ResNet(sp.exp(sp.Symbol("h"))))
    with pytest.raises(ValueError, match="like the power 1/2"):
        tp.classify(HALF, HALF, tp.ResNet(sp.sqrt(sp.Abs(sp.Symbol("h", real=True)))))


def test_a_square_is_counted_as_one_and_a_norm_as_a_number() -> None:
    for net in (tp.ResNet(sp.Symbol("h")**2), tp.ResNet("tanh", norm="rms")):
        assert tp.classify(HALF, HALF, net).name == "Depth-muP"


@pytest.mark.parametrize("phi, norm", [pytest.param("tanh", None, marks=pytest.mark.nightly), ("silu", "rms")])
def test_gates_of_functions_have_verdicts(phi: str, norm: str | None) -> None:
    """Products of vectors that are random in several ways at once, of which there would be too many written out."""
    net = tp.ResNet(phi, block="glu", norm=norm)
    assert [tp.classify(*point, net).name for point in ((HALF, HALF), (1, 0), (1, HALF))] == [
        "Depth-muP", "ODE limit", "trivial"]


def test_sizes_that_come_ever_closer_to_a_power_are_refused_in_words() -> None:
    """x = (1 - x) / 2, put in again and again, is never 1/3."""
    scale = tp.Parametrization(depth={"alpha": "1/2", "W1": 0, "W2": "1/2"})
    with pytest.raises(tp.NotCovered, match="ever closer to a power, .*without reaching it"):
        tp.classify(scale, tp.ResNet("tanh", "mlp"), "adam")
