"""``tp.solve`` in width: the papers' scalings come out of counted products, and verdicts and real networks agree."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Callable

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.optimizers.polar import polar
from tpcalc.orders import Affine, Region
from tpcalc.theory import Outer
from tpcalc.width import Perceptron
from tpcalc.width.layers import layer_powers
from tpcalc.width.principles import S, principles
from tpcalc.width.sizes import width_verdict
from tpcalc.width.sizes.verdict import FEATURES, KERNEL
from tpcalc.verdicts.wishes import SolvedPowers

LEARNS = ("every matrix learns",)
TRAINS = ("nontrivial", "every matrix has an effect")


def at(found: SolvedPowers, point: dict[tuple[str, str], sp.Expr]) -> bool:
    return any(region.contains([sp.sympify(point[key]) for key in found.powers]) for region in found.region)


def of_scaling(scaling: tp.WidthScaling) -> dict[tuple[str, str], sp.Expr]:
    """What a width scaling sets: initial entries n^(-(p + fan-in) / 2), rates n^(r - q - fan-in)."""
    fans = (0, *(1,) * (scaling.layers - 1))
    found = {(f"W{i}", "init"): -(p + fan) / sp.Integer(2) for i, (p, fan) in enumerate(zip(scaling.p, fans), 1)}
    return found | {(f"W{i}", "lr"): scaling.r - q - fan for i, (q, fan) in enumerate(zip(scaling.q, fans), 1)}


@pytest.mark.parametrize("layers", [2, 3])
def test_mup_is_where_every_matrix_learns_and_no_other_scaling(layers: int) -> None:
    found = tp.solve(Perceptron((1,) * (layers - 1)), want=LEARNS)
    assert len(found.region) == 1 and len(found.region[0].equations) == 2 * layers
    assert found.recipe == tp.width.width_recipe("muP", layers).canonical()
    assert at(found, of_scaling(tp.width.width_recipe("muP", layers)))


@pytest.mark.parametrize("layers", [2, 3])
def test_the_meta_principled_family_is_where_every_matrix_has_an_effect(layers: int) -> None:
    """A line, s by s, between the two ends of the interval that the principles have."""
    found = tp.solve(Perceptron((1,) * (layers - 1)), want=TRAINS)
    region, = found.region
    assert len(region.equations) == 2 * layers - 1
    set_to = of_scaling(tp.meta_principled(S, layers))
    line = Region(1)
    for condition in region.conditions:
        value = condition.form.expression(tuple(found.powers.values())).subs(
            {symbol: set_to[key] for key, symbol in found.powers.items()}, simultaneous=True)
        line = line.where(Affine.of(value, (S,)), ">=")
    assert line.reduced().expressions([S]) == principles(layers).interval().expressions([S])


@pytest.mark.parametrize("widths", [(1,), (1, 2), *(pytest.param(widths, marks=pytest.mark.nightly) for widths in (
    (1, 1), (2, 1))), pytest.param(("1/2", "3/2", 1), marks=pytest.mark.slow)])
def test_muon_takes_the_root_of_fan_out_over_fan_in(widths: tuple) -> None:
    """Whatever powers of n hidden widths are: no rate may be larger; ahead of a narrower layer, by the root of by how
    much narrower, to which a change passes aligned."""
    net = Perceptron(widths)
    sizes = (0, *map(sp.Rational, widths), 0)
    for number, name in enumerate(net.trained):
        fan_in, fan_out = sizes[number:number + 2]
        ahead = sizes[number + 2] if number < len(widths) - 1 else fan_out
        found = tp.solve(net, tp.Muon(0.1), want=("stable",), maximize=(name, "lr"))
        assert found.settings[name, "lr"] == sp.Rational(fan_out - fan_in - max(0, fan_out - ahead)) / 2


def test_adam_takes_one_over_fan_in() -> None:
    net = Perceptron((1, 2))
    rates = [tp.solve(net, tp.Adam(0.1), want=("stable",), maximize=(name, "lr")).settings[name, "lr"]
             for name in net.trained]
    assert rates == [0, -1, -2]


def points(found: SolvedPowers, count: int) -> list[dict[tuple[str, str], sp.Expr]]:
    """Around a solution, on a grid on which walls lie, and hidden layers start at order one."""
    draw = random.Random(3)
    moved = [key for key in found.settings if key[1] == "lr" or key[0] == list(found.settings)[-1][0]]
    return [{key: power + (sp.Rational(draw.randint(-2, 2), 2) if key in draw.sample(moved, 2) else 0)
             for key, power in found.settings.items()} for _ in range(count)]


@pytest.mark.parametrize("opt", [tp.SGD(1.0), tp.SignSGD(1.0)], ids=["sgd", "sign"])
def test_regions_are_what_verdicts_on_programs_say(opt: object) -> None:
    """Two readings: products counted here, and a program's sizes with what cancels in them."""
    net = Perceptron((1,))
    stable, moving, learning = (tp.solve(net, opt, want=(name,)) for name in ("stable", "nontrivial",
                                                                              "feature learning"))
    seen = set()
    for point in points(tp.solve(net, opt, want=LEARNS), 12):
        p = [-2 * point[name, "init"] - fan for fan, name in enumerate(net.trained)]
        q = [-point[name, "lr"] - fan for fan, name in enumerate(net.trained)]
        if p[0] != 0:
            continue
        if not isinstance(opt, tp.SGD):
            q = [-point[name, "lr"] for name in net.trained]
        name = width_verdict(tp.WidthScaling(p, q, 0) if isinstance(opt, tp.SGD) else entrywise(point), opt=opt).name
        assert at(stable, point) == (name != "unstable"), (point, name)
        assert at(moving, point) == (name in (KERNEL, FEATURES)) or name == FEATURES, (point, name)
        assert at(learning, point) == (name == FEATURES), (point, name)
        seen.add(name)
    assert len(seen) > 2


def entrywise(point: dict[tuple[str, str], sp.Expr]) -> tp.WidthScaling:
    """Weights n^-a w with one rate for all w: a makes up for the rates of each, which signs do not change."""
    a = [-point[name, "lr"] for name in ("W1", "W2")]
    b = [-point[name, "init"] - one for name, one in zip(("W1", "W2"), a)]
    return tp.WidthScaling.from_abc(a, b, 0)


def test_not_every_matrix_learns_ahead_of_a_narrower_layer() -> None:
    found = tp.solve(Perceptron((2, 1)), tp.Muon(0.1), want=LEARNS)
    assert set(found.conflict or ()) == {"faithful", "every matrix learns"}
    assert "2*lr_W1 <= -1" in (found.conflict or {})["faithful"]


WIDTHS, NARROW = ("1/2", "3/2", 1), (16, 64, 256)
POWERS = tuple(Fraction(0) if one is None else Fraction(one) for one in (None, *WIDTHS, None))
INITS = (*(-one / 2 for one in POWERS[:-2]), -POWERS[-2])


@pytest.mark.parametrize("alone", [None, 0, 1])
@pytest.mark.parametrize(("opt", "rates"), [
    ("sgd", ("1/4", "-1/4", -1, "-3/2")), ("sgd", ("1/4", "1/4", -1, "-3/2")), ("muon", ("-1/4", 0, "-5/4", -1)),
    ("muon", ("-1/4", 0, "-3/4", -1))])
def test_counted_changes_are_those_of_real_perceptrons(opt: str, rates: tuple, alone: int | None) -> None:
    """Three updates of tanh networks with three widths of their own, in which changes pass aligned or do not."""
    def number(value: object) -> Affine:
        return Affine.number(Fraction(value), 0)  # type: ignore[arg-type]

    def direction(entry: Affine, size: Fraction) -> Affine:
        return entry if opt == "sgd" else number(-size / 2)

    found = layer_powers(Perceptron(WIDTHS), list(map(number, INITS)), list(map(number, rates)), direction,
                         lambda some: max(some, key=lambda one: one.power.constant), alone)
    counted = [None if one is None else float(one.power.constant) for one in found.changes]
    logs = [np.mean([np.log(changes(n, seed, opt, rates, alone)) for seed in range(6)], axis=0) for n in NARROW]
    measured = np.polyfit(np.log(NARROW), np.array(logs), 1)[0]
    for power, slope in zip(counted, measured):
        assert power is None or abs(slope - power) < 0.2, (counted, measured)


def changes(n: int, seed: int, opt: str, rates: tuple, alone: int | None) -> np.ndarray:
    """The largest root mean squares of changes of h, layer by layer."""
    rng, sizes = np.random.default_rng([seed, n]), [round(n ** float(one)) for one in POWERS]
    weights = [rng.standard_normal((o, i)) * n ** float(a) for i, o, a in zip(sizes, sizes[1:], INITS)]

    def forward() -> tuple[list[np.ndarray], list[np.ndarray]]:
        hs, xs = [], [np.ones(1)]
        for w in weights:
            hs.append(w @ xs[-1])
            xs.append(np.tanh(hs[-1]))
        return hs, xs

    start, moved = forward()[0], np.full(len(weights), 1e-300)
    for _ in range(3):
        (hs, xs), back, steps = forward(), np.ones(1), list[np.ndarray]()
        for k in reversed(range(len(weights))):
            norm = 1.0 if opt == "sgd" else np.linalg.norm(back) * np.linalg.norm(xs[k])
            steps.insert(0, 0.3 * n ** float(Fraction(rates[k])) * np.outer(back, xs[k]) / norm)
            back = (weights[k].T @ back) * (1 - np.tanh(hs[k - 1]) ** 2) if k else back
        weights = [w - step * (alone in (None, k)) for k, (w, step) in enumerate(zip(weights, steps))]
        moved = np.maximum(moved, [np.sqrt(np.mean((h - h0) ** 2)) for h, h0 in zip(forward()[0], start)])
    return moved


@pytest.mark.parametrize(("given", "said"), [
    ({"want": ("diverse",)}, "'diverse', which is counted in powers of L alone"),
    ({"want": ("complete",)}, "L and N alone"),
    ({"want": ("visible decay",)}, "L and N alone"), ({"opt": tp.AdamW(0.1)}, "weight decay"),
    ({"fixed": {("W1", "multiplier"): 1}}, "initial size and of its learning rate")])
def test_what_is_not_counted_in_width_is_refused_by_name(given: dict, said: str) -> None:
    with pytest.raises(tp.NotCovered, match=said):
        tp.solve(**{"net": Perceptron((1,)), **given})


@pytest.mark.parametrize("widths", [(), (0,), (5,), (sp.Symbol("m"),), 3])
def test_widths_are_powers_of_n(widths: object) -> None:
    with pytest.raises(ValueError, match="widths"):
        Perceptron(widths)  # type: ignore[arg-type]


def change_of_first_layer(n: int, widths: tuple[int, int], rate: float, seed: int) -> float:
    """Root mean square of the change of h1 in two steps of gradient descent, of linear layers in plain NumPy; W3 starts
    like n^-4, so that gradients pass through what it learns."""
    rng, (a, b) = np.random.default_rng(seed), (n**widths[0], n**widths[1])
    w1, w2, w3 = rng.normal(size=a), rng.normal(size=(b, a)) / np.sqrt(a), rng.normal(size=b) / n**4.0
    start = w1.copy()
    for _ in range(2):
        x2 = w2 @ w1
        slope = w3 @ x2 - 1
        back = w3 @ w2
        w2 = w2 - n**-4.0 * slope * np.outer(w3, w1)
        w1, w3 = w1 - 0.2 * n**rate * slope * back, w3 - 0.2 * slope * x2 / b
    return float(np.sqrt(np.mean((w1 - start)**2)))


@pytest.mark.parametrize("widths", [(1, 2), (1, 1)])
def test_gradients_meet_what_a_wider_layer_has_learned(widths: tuple[int, int]) -> None:
    """A gradient of a later step has a multiple of the neurons of the layer that it passes, which the initial matrix
    below has made: rates were said to be stable with which real networks grow like the root of n."""
    fixed = {("W2", "lr"): -4, ("W3", "init"): -4, ("W3", "lr"): -widths[1]}
    found = tp.solve(Perceptron(widths), tp.SGD(0.1), want=("stable",), maximize=("W1", "lr"), fixed=fixed)
    most = found.settings["W1", "lr"]
    sizes = (16, 32, 64) if widths[1] == 2 else (64, 256, 1024)
    for beyond in (0.0, 0.5):
        means = [np.mean([np.log(change_of_first_layer(n, widths, float(most) + beyond, seed)) for seed in range(6)])
                 for n in sizes]
        assert abs(np.polyfit(np.log(sizes), means, 1)[0] - beyond) < 0.12


def test_powers_that_are_not_solved_for_are_not_minimized() -> None:
    with pytest.raises(ValueError, match="minimize: got .* expected a power that is solved for"):
        tp.solve(Perceptron(), minimize=("*", "multiplier"), want=LEARNS)


@dataclass(frozen=True)
class OfMatrices:
    """An optimizer from outside: orthogonal factors of matrices, or of all a bounded function."""

    bounded: bool
    lr: float = 0.1
    weight_decay: float = 0.0

    def schedule(self, steps: int) -> np.ndarray:
        return np.full(steps, self.lr)

    def direction(self, gradient: Callable[[sp.Expr], sp.Expr], step: sp.Expr) -> sp.Expr:
        now = gradient(step)
        return sp.tanh(now) if self.bounded else polar(now) if now.has(Outer) else sp.sign(now)


def test_directions_whose_powers_are_not_counted_are_refused() -> None:
    with pytest.raises(tp.NotCovered, match="one of whole matrices; powers of n"):
        tp.solve(Perceptron((1, 1)), OfMatrices(False), want=LEARNS)
    assert len({str(tp.solve(Perceptron((1, 1)), opt, want=LEARNS).region) for opt in (
        tp.Muon(), tp.NormalizedSGD(), tp.Shampoo(), tp.SOAP())}) == 1
    for net in (Perceptron((1, 1)), tp.ResNet("tanh", "mlp")):
        with pytest.raises(tp.NotCovered, match="no power of the gradient"):
            tp.solve(net, OfMatrices(True), want=("stable",))
