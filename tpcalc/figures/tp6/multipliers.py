"""Tensor Programs VI, Figures 14 and 24: loss against the block multiplier at growing depths."""

from __future__ import annotations

from dataclasses import replace
from typing import Generator

import numpy as np

from ... import ResNet
from ..curve import Curve, numbers, panels_of
from ..estimates import best_octaves
from ..figure import Asked, Drawing, Sizes, draws
from ..grids import BASE, Grid, adam, late, scaling
from .rates import ALL, MUP, SMALL, of_parts

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
    return Drawing(panels_of({MUP: curve}), {**grid.said(), **numbers({MUP: curve})}, (
        curve.stays(MUP), curve.improves(MUP)))


@draws("tp6/24", "loss against the block multiplier in four parts of the training: Depth-muP", SMALL)
def _(sizes: Sizes) -> Asked:
    grid, losses = yield from swept(sizes)
    return of_parts(grid, losses, MUP, WHAT)
