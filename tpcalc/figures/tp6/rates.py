"""Tensor Programs VI, Figures 2, 11 to 13 and 21 to 23: loss against learning rate at growing depths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from ... import ResNet
from ..estimates import Estimate, all_of, best_loss, negation, over_seeds, shift
from ..figure import Asked, Conclusion, Drawing, Sizes, drawn
from ..grids import Grid, late, slices
from ..panels import curves, legend, panels

SMALL = "digits for CIFAR-10, width 64 for 256, depths 4 to 64 for 8 to 1024, 80 steps of 32 images for 50 epochs of 64"
OCTAVE = 1.0
Scaled = dict[str, tuple[float, float]]
MUP, BRANCHES, STANDARD = "Depth-muP (1/2, 1/2)", "branches alone (1/2, 0)", "standard (0, 0)"
STANDARD_RATES, ODE = "standard, rates over L (0, 1)", "ODE (1, 0)"
ALL: Scaled = {MUP: (0.5, 0.5), BRANCHES: (0.5, 0), STANDARD: (0, 0), STANDARD_RATES: (0, 1), ODE: (1, 0)}


@dataclass(frozen=True)
class Curve:
    """Losses of a scaling, (depths, rates, seeds), of a part of the training."""

    grid: Grid
    losses: np.ndarray

    @property
    def shift(self) -> Estimate:
        """Octaves by which the best rate moves from depth 8, or the least one, to the deepest."""
        first = self.grid.depths.index(8) if 8 in self.grid.depths else 0
        return shift(self.grid.values, self.losses[first], self.losses[-1])

    @property
    def gain(self) -> Estimate:
        """By how much the best loss of the deepest network is below that of the shallowest."""
        return over_seeds(best_loss(self.losses[0]) - best_loss(self.losses[-1]))

    @property
    def loss(self) -> Estimate:
        """The best loss of the deepest network."""
        return over_seeds(best_loss(self.losses[-1]))

    @property
    def degrades(self) -> Estimate:
        """By how much the best loss of the deepest network is above the least one of all depths."""
        least = min(range(len(self.losses)), key=lambda k: float(np.mean(best_loss(self.losses[k]))))
        return over_seeds(best_loss(self.losses[-1]) - best_loss(self.losses[least]))

    def stays(self, name: str) -> Conclusion:
        return Conclusion(f"under {name} the best learning rate keeps to an octave",
                          f"it moves by {self.shift} octaves", self.shift.within(-OCTAVE, OCTAVE))

    def moves(self, name: str) -> Conclusion:
        return Conclusion(f"under {name} the best learning rate moves by more than an octave",
                          f"it moves by {self.shift} octaves", negation(self.shift.within(-OCTAVE, OCTAVE)))

    def improves(self, name: str) -> Conclusion:
        return Conclusion(f"under {name} deeper is better", f"the best loss falls by {self.gain}", self.gain.above(0))

    def worsens(self, name: str) -> Conclusion:
        return Conclusion(f"under {name} the deepest network is worse than one that is less deep",
                          f"by {self.degrades}", self.degrades.above(0))


def compared(sizes: Sizes, net: ResNet, names: tuple[str, ...], octaves: tuple[float, float] = (-6, 2)
             ) -> Asked:
    """Curves of several scalings side by side, and what is concluded of each by its name."""
    grid = Grid.of(sizes, octaves)
    losses = yield np.stack([grid.rates(net, *ALL[name]) for name in names])
    found = {name: Curve(grid, late(one)) for name, one in zip(names, losses)}
    picture, axes = panels(len(names))
    for axis, (name, curve) in zip(axes, found.items()):
        draw_curve(axis, curve, name)
    axes[0].set_ylabel("training loss")
    legend(axes[0])
    judged = tuple(one for name, curve in found.items() for one in paper_says(name, curve))
    if {MUP, ODE} <= {*found}:
        more = found[ODE].loss - found[MUP].loss
        judged += (Conclusion(f"{MUP} reaches lower losses than {ODE}", f"lower by {more}", more.above(0)),)
    return Drawing(picture, numbers(grid, {name: curve.losses for name, curve in found.items()}), judged)


def paper_says(name: str, curve: Curve) -> tuple[Conclusion, ...]:
    """What section 6 and appendix L.2 say of a scaling."""
    if name == MUP:
        return curve.stays(name), curve.improves(name)
    if name in (STANDARD, STANDARD_RATES):
        return curve.moves(name), curve.worsens(name)
    return curve.moves(name),


def draw_curve(axis: Any, curve: Curve, title: str) -> None:
    """A panel: loss against rate, a shade a depth."""
    curves(axis, curve.grid.values, curve.losses, [f"L = {depth}" for depth in curve.grid.depths])
    top = float(np.median(curve.losses[np.isfinite(curve.losses)]))
    axis.set(title=title, xlabel="learning rate", ylim=(0, 2 * top))


def numbers(grid: Grid, losses: dict[str, np.ndarray]) -> dict[str, object]:
    """What was drawn: losses by name, (depths, values, seeds)."""
    return {"depths": list(grid.depths), "values": grid.values.tolist(), "width": grid.width, "steps": grid.steps,
            "losses": {name: one.tolist() for name, one in losses.items()}}


@drawn("tp6/2", "loss against learning rate at growing depths: Depth-muP and both standard parametrizations", SMALL)
def _(sizes: Sizes) -> Asked:
    return (yield from compared(sizes, ResNet("relu"), (MUP, STANDARD_RATES, STANDARD)))


@drawn("tp6/11", "loss against learning rate at growing depths: Depth-muP, branches scaled alone, standard", SMALL)
def _(sizes: Sizes) -> Asked:
    return (yield from compared(sizes, ResNet("relu"), (MUP, BRANCHES, STANDARD)))


@drawn("tp6/12", "loss against learning rate at growing depths: the ODE scaling beside Depth-muP", SMALL)
def _(sizes: Sizes) -> Asked:
    return (yield from compared(sizes, ResNet("relu"), (MUP, ODE)))


@drawn("tp6/13", "the same with absolute values and LayerNorm: Depth-muP and branches scaled alone", SMALL)
def _(sizes: Sizes) -> Asked:
    return (yield from compared(sizes, ResNet("abs", norm="layer"), (MUP, BRANCHES)))


def over_time(name: str) -> Callable[[Sizes], Asked]:
    """The curves of one scaling in four parts of the training."""
    def asks(sizes: Sizes) -> Asked:
        grid = Grid.of(sizes, (-6, 2))
        parts = slices((yield grid.rates(ResNet("relu"), *ALL[name])))
        found = {f"part {k} of {len(parts)}": Curve(grid, part) for k, part in enumerate(parts, start=1)}
        picture, axes = panels(len(found))
        for axis, (part, curve) in zip(axes, found.items()):
            draw_curve(axis, curve, part)
        axes[0].set_ylabel("training loss")
        legend(axes[0])
        whole = [curve.stays(name) if name == MUP else curve.moves(name) for curve in found.values()][1:]
        said = "; ".join(f"{part}: {curve.shift}" for part, curve in [*found.items()][1:])
        judged = Conclusion(f"{whole[0].claim} in every part of the training but the first", f"octaves of {said}",
                            all_of(one.agrees for one in whole))
        return Drawing(picture, numbers(grid, {part: curve.losses for part, curve in found.items()}), (judged,))
    return asks


for _key, _name in (("tp6/21", MUP), ("tp6/22", STANDARD_RATES), ("tp6/23", STANDARD)):
    drawn(_key, f"loss against learning rate in four parts of the training: {_name}", SMALL)(
        over_time(_name))
