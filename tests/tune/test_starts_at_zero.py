"""Blocks that add nothing at first: counted, and real networks that start so."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from tpcalc.verdicts.from_nothing import gate_gradient, of_gate, of_zero
from tpcalc.interpreters.dense import run_dense
from tpcalc.scaling import Parametrization
from tpcalc.programs.from_zero import from_zero
from tpcalc.programs.indices import L, T

HALF = sp.Rational(1, 2)
DEPTHS = (16, 128)


def scaling(*gammas: object) -> Parametrization:
    return Parametrization(depth={"alpha": HALF, **{f"W{k}": g for k, g in enumerate(gammas, 1)}})


def test_a_matrix_that_starts_at_zero_moves_first() -> None:
    """Fixup's, of blocks of two matrices and of three: in which matrices' updates are of order one in a layer."""
    two = of_zero(tp.ResNet("relu", "mlp"), scaling(-HALF, HALF), ("W2",))
    three = of_zero(tp.ResNet("relu", "mlp", matrices=3), scaling(0, 0, HALF), ("W3",))
    assert [one.name for one in (two, three)] == ["ODE limit"] * 2 and two.redundant and three.redundant
    assert [one.exponents["update of h"] for one in (two, three)] == [0, -HALF]
    assert two.exponents["noise of x over a piece"] == -sp.oo
    with pytest.raises(ValueError, match="matrices: W1 asked for"):
        two.matrices["W1"]


def test_a_program_with_a_matrix_at_zero_is_judged_by_its_first_update() -> None:
    alpha, gamma = sp.symbols("alpha gamma", real=True)
    one = from_zero(tp.program(tp.ResNet("relu", "mlp"), tp.SGD(), tp.DepthScaling(alpha, gamma)), "W2")
    assert [tp.classify(HALF, power, one).name for power in (HALF, 1)] == ["ODE limit", "trivial"]


def test_behind_a_number_that_is_zero_nothing_moves() -> None:
    net = tp.ResNet("relu", "mlp")
    assert gate_gradient(net).vanishes
    found = of_gate(net, {"W1": sp.Integer(0), "W2": sp.Integer(0)})
    assert found.name == "trivial" and found.exponents["change of x"] == -sp.oo and found.stable_at_init


def steps(gammas: tuple[object, ...], depth: int, seed: int, rate: float) -> np.ndarray:
    """Changes of f by one step, and by two, of a real network whose last matrix starts at zero."""
    net = tp.ResNet("relu", "mlp", matrices=len(gammas))
    one = from_zero(tp.program(net, tp.SGD(rate), scaling(*gammas)), f"W{len(gammas)}")
    f = np.asarray(run_dense(one, {T: 3, L: depth}, {"xi": np.ones(3), "y": np.ones(3)}, 48, seed).series("f"))
    return np.abs(np.diff(f))


@pytest.mark.slow
@pytest.mark.parametrize("gammas", [(-HALF, HALF), (0, 0, HALF), (-HALF, 1), (-1, 1), (0, 0, 1)])
def test_real_networks_with_a_matrix_at_zero_have_the_slope(gammas: tuple[object, ...]) -> None:
    counted = of_zero(tp.ResNet("relu", "mlp", matrices=len(gammas)), scaling(*gammas), (f"W{len(gammas)}",))
    moved = [np.mean([np.log(steps(gammas, depth, seed, 0.5).sum()) for seed in range(24)]) for depth in DEPTHS]
    slope = (moved[1] - moved[0]) / np.log(DEPTHS[1] / DEPTHS[0])
    assert abs(slope - float(counted.exponents["change of f"])) < .15


@pytest.mark.slow
@pytest.mark.parametrize("gammas, expected", [
    ((-HALF, HALF), 0), ((0, 0, HALF), -.5), ((0, HALF), -.5), ((-HALF, 1), -.5)])
def test_real_updates_of_the_first_matrix_have_the_counted_size(gammas: tuple[object, ...], expected: float) -> None:
    """What its second update, the first that it has a gradient for, makes of what it acted on, in root mean square."""
    count = len(gammas)
    net = tp.ResNet("relu", "mlp", matrices=count)
    assert float(of_zero(net, scaling(*gammas), (f"W{count}",)).exponents["update of h"]) == expected
    first = "h" if count == 2 else "h1"
    sizes = []
    for depth in DEPTHS:
        found = []
        for seed in range(8):
            still = scaling(*(99 for _ in gammas[:-1]), gammas[-1])
            runs = [run_dense(from_zero(tp.program(net, tp.SGD(0.5), scale), f"W{count}"), {T: 3, L: depth},
                              {"xi": np.ones(3), "y": np.ones(3)}, 48, seed, keep=(first,))
                    for scale in (scaling(*gammas), still)]
            moved, at_rest = (np.asarray(run.stack(first, 2, 1)) for run in runs)
            found.append(np.log(np.sqrt(np.mean((moved - at_rest) ** 2))))
        sizes.append(np.mean(found))
    assert abs((sizes[1] - sizes[0]) / np.log(DEPTHS[1] / DEPTHS[0]) - expected) < .15


class ReZero:
    """A network x + a W2 relu(W1 x) in plain arrays, a = 0 at first, trained on f = V x / n towards 1."""

    def __init__(self, n: int, depth: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.n, self.x0, self.v = n, rng.standard_normal(n), rng.standard_normal(n)
        self.w = rng.standard_normal((depth, 2, n, n)) / np.sqrt(n)
        self.a = np.zeros(depth)

    def stream(self) -> list[np.ndarray]:
        x = [self.x0]
        for a, (first, last) in zip(self.a, self.w):
            x.append(x[-1] + a * (last @ np.maximum(first @ x[-1], 0)))
        return x

    def gradients(self) -> np.ndarray:
        """Of the numbers a, at their start, where gradients of the stream are v in all layers."""
        assert not self.a.any()
        out = float(self.v @ self.x0) / self.n - 1
        return np.array([out * self.v @ (last @ np.maximum(first @ self.x0, 0)) / self.n for first, last in self.w])


@pytest.mark.slow
def test_gradients_of_real_numbers_in_front_vanish_with_the_width() -> None:
    """By gradient descent: like n^(-1/2), at any depth."""
    sizes = [np.mean([np.sqrt(np.mean(ReZero(n, 16, seed).gradients()**2)) for seed in range(16)]) for n in (64, 512)]
    assert abs(np.log(sizes[1] / sizes[0]) / np.log(8) + .5) < .1


@pytest.mark.slow
@pytest.mark.parametrize("rate, depths", [(0, (8, 16, 32)), (.5, (16, 32, 64))])
def test_an_update_by_signs_makes_real_branch_multipliers(rate: float, depths: tuple[int, ...]) -> None:
    """Behind it the stream is that of the network with the multiplier L^-rate: explodes at 0, of order one at 1/2."""
    logs = []
    for depth in depths:
        found = []
        for seed in range(4):
            net = ReZero(512, depth, seed)
            net.a = -float(depth)**-rate * np.sign(net.gradients())
            found.append(np.log(np.linalg.norm(net.stream()[-1]) / np.linalg.norm(net.x0)))
        logs.append(np.mean(found))
    growth = np.diff(logs) / np.diff(depths) if rate == 0 else np.diff(logs) / np.log(2)
    counted = tp.classify(rate, rate, tp.ResNet("relu", "mlp"))
    assert counted.stable_at_init == (rate == .5)
    assert np.all(growth > .1) if rate == 0 else np.all(np.abs(growth) < .1)


@pytest.mark.slow
def test_an_update_by_signs_changes_outputs_coherently_at_finite_width() -> None:
    """What the caveat says: its rate times L n^(-1/2)."""
    def change(n: int, depth: int) -> float:
        moved = []
        for seed in range(8):
            net = ReZero(n, depth, seed)
            net.a = -1e-4 * np.sign(net.gradients())
            moved.append(abs(net.v @ (net.stream()[-1] - net.x0)) / n)
        return float(np.mean(moved))

    assert abs(np.log(change(64, 64) / change(64, 8)) / np.log(8) - 1) < .1
    assert abs(np.log(change(512, 16) / change(64, 16)) / np.log(8) + .5) < .1
