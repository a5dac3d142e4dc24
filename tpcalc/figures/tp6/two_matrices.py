"""Tensor Programs VI, Figures 5 to 8: blocks of two matrices, and the direction of a valley of losses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ... import DepthScaling, ResNet, methods, train
from ..curve import Curve, numbers, panels_of
from ..estimates import Estimate, best_loss, jackknife, over_seeds
from ..figure import Asked, Conclusion, Drawing, Sizes, draws
from ..grids import Grid, adam, late, scaling, slices
from ..panels import COLORS, curves, heat_map, legend, picture_of_panels
from .rates import ALL, MUP, SMALL

SHARE = 0.4  # of the grid's points, the best ones: what a parabola fits


def valley_slope(x: np.ndarray, y: np.ndarray, losses: np.ndarray) -> float:
    """The slope dy / dx along which the logarithm of the losses, (y, x), grows least around their minimum.

    x, y: logarithms of the hyperparameters. A quadratic is fitted to the best points, and the slope is that of the long
    axis of its level sets; NaN where they are no ellipses.

    >>> x = y = np.linspace(-3, 3, 7)
    >>> losses = np.exp((y[:, None] + 2 * x) ** 2 + 0.1 * x**2)
    >>> round(valley_slope(x, y, losses), 1)
    -2.0
    """
    here, there = np.meshgrid(x, y)
    values = np.log(np.where(np.isfinite(losses), losses, np.inf))
    best = values <= np.quantile(values, SHARE, method="lower")
    best &= np.isfinite(values)
    u, v = here[best], there[best]
    basis = np.stack([np.ones_like(u), u, v, u**2, u * v, v**2], axis=1)
    if len(u) <= basis.shape[1]:
        return float("nan")
    *_, a, b, c = np.linalg.lstsq(basis, values[best], rcond=None)[0]
    curvatures, axes = np.linalg.eigh(np.array([[a, b / 2], [b / 2, c]]))
    return float(axes[1, 0] / axes[0, 0]) if curvatures[1] > 0 and axes[0, 0] != 0 else float("nan")


NORMS = {"relu": None, "abs": "layer"}
MULTIPLIERS = (1.0, 2.0, 4.0, 8.0)
TINY = 2.0**-20  # a rate that changes nothing


def network(phi: str, matrices: int) -> ResNet:
    """Blocks of one matrix or of two; relu without a norm, absolute values with LayerNorm, as in the paper."""
    return ResNet(phi, "post_nonlin" if matrices == 1 else "mlp", norm=NORMS[phi])


def blocks_compared(sizes: Sizes, phi: str, catches_up: bool) -> Asked:
    """Least losses of networks of as many matrices, in blocks of one and of two, early and late."""
    grid = Grid.of(sizes, (-4, 0))
    several = grid.depths if grid.depths[0] > 1 else grid.depths[1:]
    losses = yield np.stack([np.stack([
        replace(grid, depths=tuple(count // matrices for count in several)).rates(
            network(phi, matrices), *ALL[MUP], a) for a in MULTIPLIERS]) for matrices in (1, 2)])
    parts = {"early": slices(losses)[1], "late": slices(losses)[-1]}  # (blocks, multipliers, depths, rates, seeds)
    picture, axes = picture_of_panels(len(parts))
    gaps = {}
    for axis, (name, part) in zip(axes, parts.items()):
        least = np.array([[best_loss(one) for one in np.moveaxis(kind, 1, 0)] for kind in part])
        curves(axis, several, least, ["one matrix a block", "two matrices a block"], COLORS)
        axis.set(xlabel="number of matrices", ylabel="least training loss", title=name)
        gaps[name] = over_seeds(least[1, -1] - least[0, -1])
        legend(axis)
    closes = over_seeds_of(parts)
    late_claim = Conclusion(
        "training on, networks of two matrices a block catch up", f"the gap falls by {closes}", closes.above(0)
    ) if catches_up else Conclusion(
        "training on, they stay worse", f"by {gaps['late']} in the deepest network", gaps["late"].above(0))
    return Drawing(picture, {"matrices": several, "rates": grid.values, "multipliers": MULTIPLIERS,
                             "losses": {name: part for name, part in parts.items()}}, (
        Conclusion("early, networks of two matrices a block are worse than those of one, at as many matrices",
                   f"by {gaps['early']} in the deepest network", gaps["early"].above(0)), late_claim))


def over_seeds_of(parts: dict[str, np.ndarray]) -> Estimate:
    """By how much the gap between both blocks, over the loss of one matrix a block, falls from early to late."""
    early, end = ([best_loss(kind[:, -1]) for kind in part] for part in parts.values())
    return over_seeds(early[1] / early[0] - end[1] / end[0])


@draws("tp6/5", "least loss against the number of matrices, in blocks of one and of two: relu, early and late", SMALL)
def _(sizes: Sizes) -> Asked:
    return (yield from blocks_compared(sizes, "relu", catches_up=True))


@draws("tp6/6", "least loss against the number of matrices, in blocks of one and of two: abs with LayerNorm",
       SMALL)
def _(sizes: Sizes) -> Asked:
    return (yield from blocks_compared(sizes, "abs", catches_up=False))


@draws("tp6/7", "loss against learning rate at growing depth, blocks of two matrices: relu, abs with LayerNorm",
       SMALL)
def _(sizes: Sizes) -> Asked:
    grid = Grid.of(sizes, (-6, 2))
    losses = late((yield np.stack([grid.rates(network(phi, 2), *ALL[MUP]) for phi in NORMS])))
    found = {f"{phi}{' with LayerNorm' if NORMS[phi] else ''}": Curve(grid.depths, grid.values, one)
             for phi, one in zip(NORMS, losses)}
    return Drawing(panels_of(found), {**grid.said(), **numbers(found)}, tuple(
        curve.moves(f"1/sqrt(L) with {name}") for name, curve in found.items()))


@draws("tp6/8", "loss over learning rate and block multiplier at three depths, and the slope of the best sublevel "
       "sets: two matrices a block, absolute values with LayerNorm",
       SMALL.replace("depths 4 to 64 for 8 to 1024", "depths 2, 8 and 32 for 2, 32 and 1024"))
def _(sizes: Sizes) -> Asked:
    grid = replace(Grid.of(sizes, (-5, 2)), depths=sizes.of((1, 2), (2, 8, 32), (2, 32, 1024)))
    branches = 2.0 ** sizes.of(np.linspace(-2, 2, 3), np.arange(-4, 4), np.arange(-4, 5))
    net = network("abs", 2)
    asked = [grid.rates(net, *ALL[MUP], float(a)) for a in branches]  # (multipliers, depths, rates, seeds)
    losses = np.moveaxis(late((yield np.stack(asked))), 1, 0)  # (depths, multipliers, rates, seeds)
    x, y = np.log2(grid.values), np.log2(branches)
    picture, axes = picture_of_panels(len(grid.depths))
    slopes = []
    for axis, depth, one in zip(axes, grid.depths, losses):
        heat_map(axis, grid.values, branches, one.mean(axis=-1), ("log2 of learning rate", "log2 of multiplier"))
        axis.set_title(f"L = {depth}")
        slopes.append(jackknife(lambda kept: valley_slope(x, y, kept.mean(axis=0)), np.moveaxis(one, -1, 0)))
    theory = [response_slope(sizes, net, depth, *best(grid, branches, one), grid.steps)
              for depth, one in zip(grid.depths, losses)]
    less = jackknife(lambda kept: valley_slope(x, y, kept[:, -1].mean(axis=0)) - valley_slope(
        x, y, kept[:, 0].mean(axis=0)), np.moveaxis(losses, -1, 0))
    said = ", ".join(f"{one} at L = {depth}" for depth, one in zip(grid.depths, slopes))
    predicted = ", ".join(f"{one:.2f} at L = {depth}" for depth, one in zip(grid.depths, theory))
    return Drawing(picture, {"depths": grid.depths, "rates": grid.values, "multipliers": branches, "losses": losses,
                             "slopes by responses at infinite width": theory}, (
        Conclusion(f"at L = {grid.depths[0]} the best set has slope -2", said, slopes[0].within(-2.5, -1.5)),
        Conclusion(f"at L = {grid.depths[-1]} it has slope -1", said, slopes[-1].within(-1.5, -0.5)),
        Conclusion("slopes grow with depth, as both matrices' updates first multiply and then add",
                   f"by {less}; slopes at which an update as large as all together moves outputs as much, at "
                   f"infinite width: {predicted}",
                   less.above(0))))


def best(grid: Grid, branches: np.ndarray, losses: np.ndarray) -> tuple[float, float]:
    """The multiplier and the rate of the least mean loss, (multipliers, rates, seeds)."""
    k, j = np.unravel_index(np.argmin(losses.mean(axis=-1)), losses.shape[:2])
    return float(branches[k]), float(grid.values[j])


def response_slope(sizes: Sizes, net: ResNet, depth: int, branch: float, rate: float, steps: int) -> float:
    """The slope at which one update moves the outputs by as much, from particles at infinite width.

    Adam's updates are about as large as its rate, so that one with ``steps`` times the rate goes as far as a training
    at most; one of the rate alone is so small that products of updates do not count at any depth.

    By how many octaves it moves them more where the rate, or the multiplier, is doubled: 2 for the rate where updates
    of both matrices multiply, 1 where they add.
    """
    task = sizes.images(2, sizes.of(2, 8, 8)).task(0)
    samples = sizes.of(1024, 1024, 4096)

    def moved(a: float, by: float) -> float:
        scale: DepthScaling = scaling(*ALL[MUP], a)
        after, before = (train(net, task, adam(one), scale, depth, method=methods.Particles(
            samples=samples, batches=2, seed=0)).outputs[1] for one in (by, TINY))
        return float(np.sqrt(np.mean((after - before) ** 2)))

    whole = steps * rate
    start = moved(branch, whole)
    return -float(np.log2(moved(branch, 2 * whole) / start) / np.log2(moved(2 * branch, whole) / start))
