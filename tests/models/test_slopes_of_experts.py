"""Powers of n, m, E, k and L that plans and verdicts say of experts, against slopes of networks in plain NumPy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Mapping

import numpy as np
import pytest
import sympy as sp

import tpcalc as tp
from support.plain.wide_experts import NAMES, WideExperts, numerical_gradient
from support.slopes_of_depth import Slope
from tpcalc.groups.names import LayerCount
from tpcalc.groups.plan import PlanEntry, plan_of_roles
from tpcalc.groups.roles import Roles
from tpcalc.tune.parameters import FREE, SHARES, Parameter, ParameterGrowth

BASE = dict(n=48, m=16, E=4, k=2, L=4)
SIZES, SEEDS, VECTORS, STEPS = (1, 2, 4, 8), 8, 512, 3
STEP = {"sgd": 0.02, "lion": 0.1, "adamw": 0.1, "muon": 0.1}
# What grows, k m being in proportion to n; and what else may where directions do not go with the size of a gradient.
TOGETHER = (dict(n=1, m=1), dict(n=1, k=1, E=1), dict(E=1), dict(k=1, E=1, m=-1), dict(L=1))
ALONE = (dict(m=1), dict(k=1, E=1))
Growth = Mapping[str, int]


def entries(grown: Mapping[str, float], scale: tp.DepthScaling, optimizer: str, gate: str) -> dict[str, PlanEntry]:
    """Of a plan, by matrix, where these grow by so much."""
    n, m, E, k, L = (grown.get(name, 1.0) for name in "nmEkL")
    found = []
    for name, kind, fan_in, fan_out in (("R", "router", n, 1.0), ("W1", "expert", n, m), ("W2", "expert", m, n)):
        use = ParameterGrowth(fan_in, fan_out, L, experts=E, active=k, gates=FREE if gate == "sigmoid" else SHARES)
        shape = (2, 2) if name == "R" else (2, 2, 2)
        found.append(Parameter(name, kind, True, shape, n, (name,), (True,) * len(shape), name == "W2", use=use))
    plan = plan_of_roles(Roles(LayerCount("h.", 1, int(L)), n, tuple(found)), scale, optimizer, "gauge")
    return {one.parameter.pattern: one for one in plan.entries}


@dataclass(frozen=True)
class Point:
    """A network, an optimizer, and powers: of the depth, of the size that grows, and of 1/size beside a plan's rates,
    the router's, and those of experts, which are no slower."""

    gate: str
    phi: str
    optimizer: str
    alpha: sp.Rational
    gamma: sp.Rational
    growth: tuple[tuple[str, int], ...]
    slower: tuple[sp.Rational, sp.Rational]

    @classmethod
    def of(cls, draw: np.random.Generator) -> Point:
        def one(*values: object) -> object:
            return values[int(draw.integers(len(values)))]
        optimizer = str(one("sgd", "lion", "adamw", "muon"))
        alpha = sp.Rational(int(draw.integers(2, 5)), 4)
        gamma = 1 - alpha + sp.Rational(int(draw.integers(2)), 4)
        growth = one(*TOGETHER, *(ALONE if optimizer != "sgd" else ()), dict(L=1))
        experts = sp.Rational(int(draw.integers(3)), 4)
        return cls(str(one("softmax", "sigmoid")), str(one("tanh", "relu")), optimizer, alpha, gamma,
                   tuple(growth.items()), (experts + sp.Rational(int(draw.integers(2)), 4), experts))

    @property
    def base(self) -> dict[str, int]:
        return {**BASE, "m": 64} if dict(self.growth).get("m") == -1 else BASE

    def network(self, size: int, seed: int) -> tuple[WideExperts, tuple[float, ...]]:
        """That of a size, and its rates."""
        grown = {name: float(size)**p for name, p in self.growth}
        dims = {name: round(value * grown.get(name, 1.0)) for name, value in self.base.items()}
        plan = entries(grown, tp.DepthScaling(self.alpha, self.gamma), self.optimizer, self.gate)
        n, m, E, k, L = (float(self.base[name]) for name in "nmEkL")
        a, g, free = float(self.alpha), float(self.gamma), self.gate == "sigmoid"
        starts = {"R": k**0.5 / n, "W1": n**-0.5, "W2": ((k * m)**-0.5 if free else (k / m)**0.5) * L**-a}
        size_of = 1 / k if free else 1.0
        rates = {"lion": {"R": L**-g / n, "W1": L**-g / n, "W2": size_of * L**-(a + g) / m},
                 "muon": {"R": (E / n)**0.5 * L**-g, "W1": (m / n)**0.5 * L**-g,
                          "W2": size_of * (n / m)**0.5 * L**-(a + g)},
                 "sgd": {"R": E * L**(a - g), "W1": E * m * L**(a - g), "W2": size_of**2 * n * E / m * L**-(a + g)}}
        rates["adamw"] = rates["lion"]
        slow = dict(zip(NAMES, (self.slower[0], self.slower[1], self.slower[1])))
        net = WideExperts(**dims, starts=tuple(starts[name] * plan[name].factor("init") for name in NAMES),
                          gate=self.gate, phi=self.phi, B=VECTORS, seed=seed,
                          common=0.9 if self.optimizer == "muon" else 0.5)  # polar factors see how many there are
        return net, tuple(STEP[self.optimizer] * rates[self.optimizer][name] * plan[name].factor("lr")
                          * size**-float(slow[name]) for name in NAMES)

    def measured(self) -> dict[str, Slope]:
        runs = [[net.changes(rates, self.optimizer, STEPS) for net, rates in (
            self.network(size, seed) for size in SIZES)] for seed in range(SEEDS)]
        return {name: Slope.of(SIZES, [[run[name] for run in row] for row in runs]) for name in runs[0][0]}

    def said(self) -> dict[str, sp.Expr]:
        """What updates make of what is before them, W2's behind the branch multiplier; the stream's change, where the
        depth grows by the verdict, and the sum of branches at first."""
        deep, (router, experts) = dict(self.growth).get("L", 0), self.slower
        found = {"W1": -self.gamma * deep - experts, "W2": -(self.alpha + self.gamma) * deep - experts}
        if self.optimizer != "sgd":
            found["R"] = -self.gamma * deep - router
        if not deep:
            return {**found, "y": sp.Integer(0), **({"x": -experts} if dict(self.growth) in TOGETHER else {})}
        verdict = judged(self.phi, self.alpha, self.gamma + experts)
        return {**found, "x": verdict.exponents["change of x"]}

    def __str__(self) -> str:
        grows = ", ".join(f"{name}^{p}" for name, p in self.growth)
        return (f"{self.gate} {self.phi} by {self.optimizer}, L^-({self.alpha}), L^-({self.gamma}); {grows} grow, "
                f"rates slower by {self.slower[0]}, {self.slower[1]}")


@lru_cache(maxsize=None)
def judged(phi: str, alpha: sp.Expr, gamma: sp.Expr) -> tp.Verdict:
    return tp.classify(alpha, gamma, tp.ResNet(phi, tp.MoE(2, gate="sigmoid"), norm="rms"))


def check(point: Point) -> float:
    """By how much a slope is off at most what is said."""
    found, said = point.measured(), point.said()
    print(f"{point}: " + "; ".join(f"{name} {found[name].value:.2f}({found[name].error:.2f}), said {float(p):g}"
                                   for name, p in said.items()))
    return max(found[name].off(float(known)) for name, known in said.items())


@pytest.mark.parametrize("gate", ["softmax", "sigmoid"])
@pytest.mark.parametrize("phi", ["tanh", "relu"])
def test_gradients_by_hand_are_differences(gate: str, phi: str) -> None:
    net = WideExperts(8, 3, 4, 2, 2, (0.4, 0.4, 0.7), gate, phi, B=6)
    w = net.weights()
    for name in NAMES:
        for at in ((0, 1, 2, 1), (1, 3, 2, 0), (1, 0, 1, 2)):
            place = at[:3] if name == "R" else at
            assert net.gradients(w)[name][place] == pytest.approx(numerical_gradient(net, w, name, place), abs=1e-8)


def test_slopes_of_a_drawn_point() -> None:
    check(replace(Point.of(np.random.default_rng(3)), growth=(("k", 1), ("E", 1), ("m", -1))))


@pytest.mark.slow
def test_slopes_of_twenty_drawn_points() -> None:
    draw = np.random.default_rng(46)
    off = [check(Point.of(draw)) for _ in range(20)]
    print(f"off by {max(off):.3f} at most")


def over_experts(B: int, sizes: tuple[int, ...], seeds: int = 8, **data: float) -> Slope:
    """The slope of what a first step by SGD makes of W2's activations, at a plan's rates, as E grows."""
    point = Point("softmax", "relu", "sgd", sp.Rational(1, 2), sp.Rational(1, 2), (("E", 1),), (sp.Integer(0),) * 2)
    runs = [[replace(net, B=B, **data).changes(rates, "sgd", 1)["W2"] for net, rates in (
        point.network(size, seed) for size in sizes)] for seed in range(seeds)]
    return Slope.of(sizes, runs)


@pytest.mark.slow
def test_where_the_factor_of_sgd_over_experts_holds() -> None:
    """Of E/k, where an expert's vectors are as alike as all are and many; not at all, where its own moves it; and by
    too much, as long as experts choose vectors that are the more alike the more experts there are."""
    together = over_experts(2048, SIZES)
    alone = over_experts(16, (8, 16, 32, 64), common=0.0)
    chosen = over_experts(2048, SIZES, directions=8, common=0.0)
    print(f"effects go like E^{together.value:.2f}({together.error:.2f}) where all vectors have something in common, "
          f"E^{alone.value:.2f}({alone.error:.2f}) of few that have nothing, E^{chosen.value:.2f}({chosen.error:.2f}) "
          "of vectors in 8 directions")
    together.off(0)
    alone.off(1)
    assert 0.25 < chosen.value < 0.8


def gains(m: int, L: int, gate: str = "sigmoid", n: int = 256, seeds: int = 3) -> tuple[float, float]:
    """What a step of routers brings before experts have learned, and after some steps by signs; at Depth-muP, of n/m
    experts, half of which act."""
    E, k = n // m, n // m // 2
    last = (k * m)**-0.5 if gate == "sigmoid" else (k / m)**0.5
    rates = (0.0, 0.5 * L**-0.5 / n, 0.5 / (L * m) / (k if gate == "sigmoid" else 1))
    found = []
    for seed in range(seeds):
        net = WideExperts(n, m, E, k, L, (k**0.5 / n, (k * m)**0.5 / n, last * L**-0.5), gate, B=32, seed=seed)
        first = w = net.weights()
        for _ in range(2):
            w = net.stepped(w, rates, "lion")
        found.append([net.gained_by_routers(one) for one in (first, w)])
    return tuple(np.exp(np.mean(np.log(found), axis=0)))  # type: ignore[return-value]


@pytest.mark.slow
def test_where_routers_may_move_as_much_in_every_layer() -> None:
    """c of an expert is noise of its m coordinates, like m^(-1/2), and what it has learned, like L^(-1/2), aligned in
    all layers: routers bring (a L/m + b)^(1/2), which knows no depth where m is large beside L."""
    wide, depths = (8, 32, 128), (4, 16, 64)
    found = {(m, L): gains(m, L) for m in wide for L in depths}
    noise = np.array([[found[m, L][0] for L in depths] for m in wide])
    learned = np.array([[(found[m, L][1]**2 - found[m, L][0]**2)**0.5 for L in depths] for m in wide])
    for name, table, over_m, over_L in (("noise", noise, -0.5, 0.5), ("learned", learned, 0, 0)):
        in_m, in_L = (np.polyfit(np.log(sizes), np.log(rows), 1)[0] for sizes, rows in (
            (wide, table), (depths, table.T)))
        print(f"{name}: m^{in_m.mean():.3f}({in_m.std(ddof=1):.3f}), L^{in_L.mean():.3f}({in_L.std(ddof=1):.3f})")
        assert abs(in_m.mean() - over_m) < 0.1 and abs(in_L.mean() - over_L) < 0.1
    ratios = (noise / learned)**2 * np.array(wide)[:, None] / np.array(depths)
    print(f"both are as large at m = {ratios.mean():.2f}({ratios.std(ddof=1):.2f}) L")


@pytest.mark.slow
def test_a_softmax_takes_away_what_all_experts_have_learned_alike() -> None:
    """Noise is left, so that routers bring L^(1/2) whatever m is."""
    for m in (8, 64):
        few, many = (gains(m, L, "softmax")[1] for L in (8, 64))
        assert np.log(many / few) / np.log(8) == pytest.approx(0.5, abs=0.1)
