"""Tensor Programs VI, Figures 14 and 24: loss against the block multiplier at growing depths."""

from __future__ import annotations

from dataclasses import replace
from typing import Generator

import numpy as np

from ... import ResNet
from ..curve import Curve, draw_curve, numbers
from ..estimates import all_of, best_octaves
from ..figure import Asked, Conclusion, Drawing, Sizes, draws
from ..grids import BASE, Grid, adam, late, scaling, slices
from ..panels import legend, picture_of_panels
from .rates import ALL, MUP, SMALL

NET = ResNet("relu")
RATES, MULTIPLIERS = (-4, 2), (-3, 3)  # powers of 2
WHAT = "block multiplier"


def swept(sizes: Sizes) -> Generator[np.ndarray, np.ndarray, tuple[Grid, np.ndarray]]:
    """Losses over multipliers, at the learning rate that is best at depth 8; returns them with the grid."""
    grid = Grid.of(sizes, MULTIPLIERS)
    tuned = replace(Grid.of(sizes, RATES), depths=(BASE,))
    losses = late((yield tuned.rates(NET, *ALL[MUP])))
    rate = float(2.0 ** np.mean(best_octaves(tuned.values, losses[0])[0]))
    found = yield grid.trainings(lambda depth, branch: (NET, adam(rate), scaling(*ALL[MUP], branch)))
    return grid, found


@draws("tp6/14", "loss against the block multiplier at growing depths: Depth-muP", SMALL)
def _(sizes: Sizes) -> Asked:
    grid, losses = yield from swept(sizes)
    curve = Curve(grid.depths, grid.values, late(losses), WHAT)
    picture, axes = picture_of_panels(1)
    draw_curve(axes[0], curve, MUP)
    axes[0].set_ylabel("training loss")
    legend(axes[0])
    return Drawing(picture, {**grid.said(), **numbers({MUP: curve})}, (curve.stays(MUP), curve.improves(MUP)))


@draws("tp6/24", "loss against the block multiplier in four parts of the training: Depth-muP", SMALL)
def _(sizes: Sizes) -> Asked:
    grid, losses = yield from swept(sizes)
    found = {f"part {k}": Curve(grid.depths, grid.values, part, WHAT) for k, part in enumerate(slices(losses), start=1)}
    picture, axes = picture_of_panels(len(found))
    for axis, (part, curve) in zip(axes, found.items()):
        draw_curve(axis, curve, part)
    axes[0].set_ylabel("training loss")
    legend(axes[0])
    said = "; ".join(f"{part}: {curve.shift}" for part, curve in [*found.items()][1:])
    whole = [curve.stays(MUP) for curve in [*found.values()][1:]]
    judged = Conclusion(f"{whole[0].claim}, in every part of the training but the first", f"octaves of {said}",
                        all_of(one.agrees for one in whole))
    return Drawing(picture, {**grid.said(), **numbers(found)}, (judged,))
