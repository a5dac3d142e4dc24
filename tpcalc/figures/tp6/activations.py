"""Tensor Programs VI, Figures 3 and 4: the activation before or after the matrix, relu or absolute values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ResNet
from ..curve import Curve, draw_curve
from ..estimates import Estimate, best_loss, negation, over_seeds
from ..figure import Asked, Conclusion, Drawing, Sizes, draws
from ..grids import Grid, late
from ..panels import COLORS, curves, legend, picture_of_panels
from .rates import ALL, MUP, SMALL

RATES, MULTIPLIERS = (-3, 1), (0.5, 1.0, 2.0)
ENOUGH = 8  # layers beyond which the paper's networks with the activation before the matrix gain nothing


def tuned(grid: Grid, net: ResNet) -> np.ndarray:
    """Trainings (multipliers, depths, rates, seeds) under Depth-muP."""
    return np.stack([grid.rates(net, *ALL[MUP], a) for a in MULTIPLIERS])


def least(losses: np.ndarray) -> np.ndarray:
    """The least loss over multipliers and rates, (depths, seeds)."""
    return np.array([best_loss(one) for one in np.moveaxis(losses, 1, 0)])


def worse(one: np.ndarray, other: np.ndarray) -> Estimate:
    """By how much the least loss of the deepest network of one kind is above the other's."""
    return over_seeds(one[-1] - other[-1])


@draws("tp6/3", "W phi(x): loss against learning rate; least loss over rates and multipliers beside phi(W x)'s", SMALL)
def _(sizes: Sizes) -> Asked:
    grid = Grid.of(sizes, RATES)
    names = {"W phi(x)": ResNet("relu", "pre_nonlin"), "phi(W x)": ResNet("relu")}
    losses = late((yield np.stack([tuned(grid, net) for net in names.values()])))
    before, after = map(least, losses)
    curve = Curve(grid.depths, grid.values, losses[0][MULTIPLIERS.index(1.0)])
    picture, axes = picture_of_panels(2)
    draw_curve(axes[0], curve, f"W phi(x), {MUP}")
    axes[0].set_ylabel("training loss")
    legend(axes[0])
    compare(axes[1], grid, {"W phi(x)": before, "phi(W x)": after})
    first = next(k for k, depth in enumerate(grid.depths) if depth >= min(ENOUGH, max(grid.depths) // 2))
    gain = over_seeds(before[first] - before[-1])
    return Drawing(picture, losses_of_grid(grid, dict(zip(names, losses))), (
        curve.stays(MUP + " with W phi(x)"),
        Conclusion(f"with W phi(x) more than {grid.depths[first]} layers gain nothing",
                   f"the least loss falls by {gain}", negation(gain.above(0))),
        Conclusion("W phi(x) is worse than phi(W x) in the deepest network", f"by {worse(before, after)}",
                   worse(before, after).above(0))))


@draws("tp6/4", "least loss over rates and multipliers against depth: relu and absolute values", SMALL)
def _(sizes: Sizes) -> Asked:
    grid = Grid.of(sizes, RATES)
    names = {"relu": ResNet("relu"), "abs": ResNet("abs")}
    losses = late((yield np.stack([tuned(grid, net) for net in names.values()])))
    found = {name: least(one) for name, one in zip(names, losses)}
    picture, axes = picture_of_panels(1)
    compare(axes[0], grid, found)
    less = worse(found["relu"], found["abs"])
    return Drawing(picture, losses_of_grid(grid, dict(zip(names, losses))), (
        Conclusion("absolute values train to lower losses than relu in the deepest network", f"lower by {less}",
                   less.above(0)),))


def compare(axis: Any, grid: Grid, found: dict[str, np.ndarray]) -> None:
    """A panel: least losses, (depths, seeds) of each name, against depth."""
    curves(axis, grid.depths, np.stack([*found.values()]), [*found], COLORS)
    axis.set(xlabel="depth L", ylabel="least training loss")
    legend(axis)


def losses_of_grid(grid: Grid, losses: dict[str, np.ndarray]) -> dict[str, Any]:
    """What was drawn: losses by name, (multipliers, depths, rates, seeds)."""
    return {**grid.said(), "multipliers": MULTIPLIERS, "depths": grid.depths, "rates": grid.values, "losses": losses}
