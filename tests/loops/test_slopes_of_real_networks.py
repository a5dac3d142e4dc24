"""Powers of N and of L against slopes of wide networks in plain NumPy, at drawn points."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

import tpcalc as tp
from support.plain.wide_loops import WideLoop
from support.slopes_of_depth import Slope

SIZES, SEEDS, RATE = (4, 8, 16, 32), 6, 0.05
NETS = {("tanh", False): tp.ResNet("tanh", "mlp"), ("relu", True): tp.ResNet("relu", "mlp", norm="rms"),
        ("gelu", True): tp.ResNet("gelu", "mlp", norm="rms"), ("linear", False): tp.ResNet()}


@dataclass(frozen=True)
class Drawn:
    """A network, an optimizer, and powers of 1/N and of 1/L: (branch, lr) and (alpha, gamma)."""

    kind: tuple[str, bool]
    opt: str
    row: bool
    fixed: int
    visits: tuple[Fraction, Fraction]
    depth: tuple[Fraction, Fraction]

    @classmethod
    def of(cls, draw: np.random.Generator) -> Drawn:
        def some(*numerators: int) -> Fraction:
            return Fraction(int(draw.choice(numerators)), 4)
        kind = list(NETS)[int(draw.integers(len(NETS)))]
        alpha = some(2, 2, 3, 4)
        return cls(kind, str(draw.choice(["sgd", "signsgd", "muon"])), bool(draw.integers(2)), int(draw.integers(2, 4)),
                   (some(4, 4, 4, 5, 6), some(0, 0, 1, 2, 3, 4)), (alpha, 1 - alpha + some(0, 0, 1, 2)))

    def over_visits(self, branch: float = 1.0) -> tuple[Slope, Slope]:
        """Of what one step changes in f, and of the stream before it, as N grows; branch: times all."""
        a, r = map(float, self.visits)
        return self._slopes(lambda size: ((self.fixed, size), branch * size**-a * self.fixed**-0.5, size**-r))

    def over_depth(self, branch: float = 1.0) -> tuple[Slope, Slope]:
        """As L grows; rates have the power that updates of the power gamma need."""
        alpha, gamma = map(float, self.depth)
        lr = gamma - alpha if self.opt == "sgd" else gamma
        return self._slopes(lambda size: ((size, self.fixed), branch * size**-alpha / self.fixed, size**-lr))

    def _slopes(self, at) -> tuple[Slope, Slope]:  # type: ignore[no-untyped-def]
        found = []
        for seed in range(SEEDS):
            for size in SIZES:
                (layers, visits), branch, rate = at(size)
                found.append(WideLoop(*self.kind, layers, visits, branch, row=self.row, seed=seed).change(
                    RATE * rate, self.opt))
        changes, streams = np.array(found).reshape(SEEDS, len(SIZES), 2).transpose(2, 0, 1).tolist()
        return Slope.of(SIZES, changes), Slope.of(SIZES, streams)

    def __str__(self) -> str:
        return (f"{self.kind[0]}{', rms' * self.kind[1]} by {self.opt}, {'block' if self.row else 'cycle'} order, "
                f"{self.fixed} of the other size")


def check(case: Drawn) -> tuple[float, float]:
    """By how much slopes of a point over N, and over L, are off what is counted."""
    net = NETS[case.kind]
    said = tp.theory.classify_visits(*case.visits, net, case.opt).exponents
    (slope, stream), power = case.over_visits(), float(said["change of f"])
    print(f"{case}: N^-({case.visits[0]}), N^-({case.visits[1]}): change of f N^{slope.value:.3f}({slope.error:.3f}), "
          f"said {power:g}; stream N^{stream.value:.3f}({stream.error:.3f}), said {said['x at initialization']}")
    off = max(slope.off(power), stream.off(float(said["x at initialization"])))
    looped = tp.ResNet(net.phi, net.block, net.norm, visits=case.fixed, order="block" if case.row else "cycle")
    verdict = tp.classify(*case.depth, looped)
    (slope, stream), power = case.over_depth(), float(verdict.exponents["change of f"])
    print(f"  L^-({case.depth[0]}), updates L^-({case.depth[1]}): change of f L^{slope.value:.3f}({slope.error:.3f}), "
          f"said {power:g}; stream L^{stream.value:.3f}({stream.error:.3f}), "
          f"said {verdict.exponents['x at initialization']}")
    assert "change of f" not in verdict.bounds
    return off, max(slope.off(power), stream.off(float(verdict.exponents["x at initialization"])))


def test_slopes_of_a_drawn_point() -> None:
    check(Drawn.of(np.random.default_rng(1)))


@pytest.mark.slow
def test_slopes_of_twenty_drawn_points() -> None:
    """Over N and over L; a slope counts as another one where it is off by the bound and by two errors."""
    draw = np.random.default_rng(45)
    over_visits, over_depth = zip(*(check(Drawn.of(draw)) for _ in range(20)))
    print(f"off by {max(over_visits):.3f} at most over N, by {max(over_depth):.3f} over L")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in NETS if kind[0] != "linear"], ids=str)
@pytest.mark.parametrize("power", [Fraction(1, 2), Fraction(3, 4)], ids=["(N L)^(-1/2)", "DeepNorm"])
def test_streams_that_grow_with_visits(kind: tuple[str, bool], power: Fraction) -> None:
    case = Drawn(kind, "sgd", False, 2, (power, Fraction(0)), (power, Fraction(1, 2)))
    said = tp.theory.classify_visits(*case.visits, NETS[kind]).exponents["x at initialization"]
    stream = case.over_visits(branch=16.0)[1]
    print(f"{kind}: N^{stream.value:.3f}({stream.error:.3f}), said {said}")
    stream.off(float(said))
