"""Tensor Programs VI, Figures 2, 11 to 13 and 21 to 23: loss against learning rate at growing depths."""

from __future__ import annotations

from typing import Callable

import numpy as np

from ... import ResNet
from ..curve import Curve, numbers, panels_of
from ..estimates import all_of, best_loss, over_seeds
from ..figure import Asked, Conclusion, Drawing, Sizes, draws
from ..grids import Grid, late, slices

SMALL = "digits for CIFAR-10, width 64 for 256, depths 4 to 64 for 8 to 1024, 80 steps of 32 images for 50 epochs of 64"
OCTAVES = (-6, 2)
Scaled = dict[str, tuple[float, float]]
MUP, BRANCHES, STANDARD = "Depth-muP (1/2, 1/2)", "branches alone (1/2, 0)", "standard (0, 0)"
STANDARD_RATES, ODE = "standard, rates over L (0, 1)", "ODE (1, 0)"
ALL: Scaled = {MUP: (0.5, 0.5), BRANCHES: (0.5, 0), STANDARD: (0, 0), STANDARD_RATES: (0, 1), ODE: (1, 0)}


def scalings_compared(sizes: Sizes, net: ResNet, names: tuple[str, ...]) -> Asked:
    """Curves of several scalings side by side, and what is concluded of each by its name."""
    grid = Grid.of(sizes, OCTAVES)
    losses = yield np.stack([grid.rates(net, *ALL[name]) for name in names])
    found = {name: Curve(grid.depths, grid.values, late(one)) for name, one in zip(names, losses)}
    judged = tuple(one for name, curve in found.items() for one in paper_says(name, curve))
    if {MUP, ODE} <= {*found}:
        more = over_seeds(best_loss(found[ODE].losses[-1]) - best_loss(found[MUP].losses[-1]))
        judged += (Conclusion(f"{MUP} reaches lower losses than {ODE}", f"lower by {more}", more.above(0)),)
    return Drawing(panels_of(found, [0]), {**grid.said(), **numbers(found)}, judged)


def paper_says(name: str, curve: Curve) -> tuple[Conclusion, ...]:
    """What section 6 and appendix L.2 say of a scaling."""
    if name == MUP:
        return curve.stays(name), curve.improves(name)
    if name in (STANDARD, STANDARD_RATES):
        return curve.moves(name), curve.worsens(name)
    return curve.moves(name),


@draws("tp6/2", "loss against learning rate at growing depths: Depth-muP and both standard parametrizations", SMALL)
def _(sizes: Sizes) -> Asked:
    return (yield from scalings_compared(sizes, ResNet("relu"), (MUP, STANDARD_RATES, STANDARD)))


@draws("tp6/11", "loss against learning rate at growing depths: Depth-muP, branches scaled alone, standard", SMALL)
def _(sizes: Sizes) -> Asked:
    return (yield from scalings_compared(sizes, ResNet("relu"), (MUP, BRANCHES, STANDARD)))


@draws("tp6/12", "loss against learning rate at growing depths: the ODE scaling beside Depth-muP", SMALL)
def _(sizes: Sizes) -> Asked:
    return (yield from scalings_compared(sizes, ResNet("relu"), (MUP, ODE)))


@draws("tp6/13", "loss against learning rate, absolute values with LayerNorm: Depth-muP, branches scaled alone", SMALL)
def _(sizes: Sizes) -> Asked:
    return (yield from scalings_compared(sizes, ResNet("abs", norm="layer"), (MUP, BRANCHES)))


def of_parts(grid: Grid, losses: np.ndarray, name: str, what: str = "learning rate") -> Drawing:
    """The curves of one scaling in four parts of the training."""
    parts = slices(losses)
    found = {f"part {k} of {len(parts)}": Curve(grid.depths, grid.values, part, what)
             for k, part in enumerate(parts, start=1)}
    whole = [curve.stays(name) if name == MUP else curve.moves(name) for curve in found.values()][1:]
    said = "; ".join(f"{part}: {curve.shift}" for part, curve in [*found.items()][1:])
    judged = Conclusion(f"{whole[0].claim} in every part of the training but the first", f"octaves of {said}",
                        all_of(one.agrees for one in whole))
    return Drawing(panels_of(found, [0]), {**grid.said(), **numbers(found)}, (judged,))


def over_time(name: str) -> Callable[[Sizes], Asked]:
    def asks(sizes: Sizes) -> Asked:
        grid = Grid.of(sizes, OCTAVES)
        return of_parts(grid, (yield grid.rates(ResNet("relu"), *ALL[name])), name)
    return asks


for _key, _name in (("tp6/21", MUP), ("tp6/22", STANDARD_RATES), ("tp6/23", STANDARD)):
    draws(_key, f"loss against learning rate in four parts of the training: {_name}", SMALL)(
        over_time(_name))
