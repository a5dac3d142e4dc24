"""Depthwise Hyperparameter Transfer, Figures 4, B.3, B.6 and B.8: settings other than depth, and losses over steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import SGD
from ..curve import Curve, draw_curve, numbers
from ..estimates import over_seeds
from ..figure import Asked, Conclusion, Drawing, Sizes, draws
from ..grids import late, slices
from ..panels import COLORS, legend, picture_of_panels
from .networks import INSTEAD, OURS, SCALES, Shapes

RATE = 0.5
STYLES = ("-", "--")
MOMENTA, RICHNESS, DECAYS, RATES = (0.0, 0.5, 0.8), (0.25, 0.5, 1.0), (0.0, 0.01, 0.05), (0.125, 0.25, 0.5, 1.0)


def smooth(losses: np.ndarray) -> np.ndarray:
    """Means of every eight steps, fewer in short trainings, along the last axis: batches differ."""
    return np.stack(slices(losses, max(2, losses.shape[-1] // 8)), axis=-1)


def draw_dynamics(axis: Any, names: list[str], depths: tuple[int, ...], losses: np.ndarray) -> None:
    """A panel: losses (settings, depths, seeds, steps) over steps, a color a setting, dashed in deep networks."""
    for k, name in enumerate(names):
        for style, depth, curve in zip(STYLES, depths, smooth(losses[k])):
            mean = np.where(np.isfinite(curve), curve, np.nan).mean(axis=0)
            steps = (np.arange(len(mean)) + 0.5) * losses.shape[-1] / len(mean)
            axis.plot(steps, mean, style, color=COLORS[k], label=f"{name}, L = {depth}")
    axis.set(xlabel="step", ylabel="training loss")
    legend(axis)


def same_dynamics(what: str, losses: np.ndarray) -> Conclusion:
    """Losses of one setting at both depths are closer than those of different settings at one depth, seed by seed."""
    found = smooth(np.where(np.isfinite(losses), losses, np.nan))
    by_depth = np.sqrt(np.mean((found[:, 0] - found[:, 1]) ** 2, axis=(0, -1)))  # (seeds,)
    by_setting = np.sqrt(2 * np.mean(found.var(axis=0, ddof=1), axis=(0, -1)))
    closer = over_seeds(by_setting - by_depth)
    return Conclusion(f"losses over steps of both depths are alike for every {what}",
                      f"depths differ by {over_seeds(by_depth)}, settings by {over_seeds(by_setting)}", closer.above(0))


@draws("depthwise/4", "losses over steps at two depths: momenta, and feature learning rates mu_0",
       INSTEAD + "; rates go with one less the momentum")
def _(sizes: Sizes) -> Asked:
    shapes = Shapes.of(sizes)
    depths = shapes.pair
    losses = yield np.array([[[
        [shapes.one(depth, shapes.width, seed, SGD(RATE * (1 - one), momentum=one)) for seed in range(shapes.seeds)]
        for depth in depths] for one in MOMENTA], [[[
            shapes.one(depth, shapes.width, seed, SGD(RATE * one**2), richness=one) for seed in range(shapes.seeds)]
            for depth in depths] for one in RICHNESS]], dtype=object)
    picture, axes = picture_of_panels(2)
    draw_dynamics(axes[0], [f"momentum {one:g}" for one in MOMENTA], depths, losses[0])
    draw_dynamics(axes[1], [f"mu_0 = {one:g}" for one in RICHNESS], depths, losses[1])
    return Drawing(picture, {"depths": depths, "momenta": MOMENTA, "mu_0": RICHNESS, "losses": losses}, (
        same_dynamics("momentum", losses[0]), same_dynamics("mu_0", losses[1])))


@draws("depthwise/B8", "losses over steps at two depths and several weight decays", INSTEAD)
def _(sizes: Sizes) -> Asked:
    shapes = Shapes.of(sizes)
    depths = shapes.pair
    losses = yield np.array([[[
        shapes.one(depth, shapes.width, seed, SGD(RATE, weight_decay=one, decoupled=True))
        for seed in range(shapes.seeds)] for depth in depths] for one in DECAYS], dtype=object)
    picture, axes = picture_of_panels(1)
    draw_dynamics(axes[0], [f"decay {one:g}" for one in DECAYS], depths, losses)
    return Drawing(picture, {"depths": depths, "decays": DECAYS, "losses": losses}, (
        same_dynamics("weight decay", losses),))


@draws("depthwise/B3", "losses over steps at two depths and four learning rates; the best rate early and late",
       INSTEAD + "; perceptrons for the vision transformers of panels (b) and (c), too")
def _(sizes: Sizes) -> Asked:
    shapes = Shapes.of(sizes)
    depths = shapes.pair
    values, trainings = shapes.rates((-4, 3), [(depth, shapes.width) for depth in depths], SCALES[OURS])
    losses = yield trainings
    parts = slices(losses)
    early, end = Curve(depths, values, parts[1]), Curve(depths, values, parts[-1])
    picture, axes = picture_of_panels(3)
    shown = [k for k, rate in enumerate(values) if float(rate) in RATES] or [0, 1]
    draw_dynamics(axes[0], [f"rate {values[k]:g}" for k in shown], depths, np.moveaxis(losses[:, shown], 0, 1))
    for axis, curve, title in zip(axes[1:], (early, end), ("second part of four", "last part")):
        draw_curve(axis, curve, title)
    legend(axes[2])
    moved = Curve(depths, values, np.stack([early.losses[-1], end.losses[-1]]))
    return Drawing(picture, {**numbers({"early": early, "late": end}), "all": losses}, (
        Conclusion("the best rate after a part of the training is that of its end, to an octave",
                   f"it moves by {moved.shift} octaves at L = {depths[-1]}", moved.shift.within(-1, 1)),
        end.stays(OURS)))


@draws("depthwise/B6", "losses over steps for several learning rates and depths, SGD with momentum; best rates",
       INSTEAD.replace("CIFAR-10", "ImageNet"))
def _(sizes: Sizes) -> Asked:
    shapes = Shapes.of(sizes)
    values, trainings = shapes.rates((-7, 0), [(depth, shapes.width) for depth in shapes.depths], SCALES[OURS],
                                     momentum=0.9)
    losses = yield trainings
    curve = Curve(shapes.depths, values, late(losses))
    picture, axes = picture_of_panels(2)
    depths, first = shapes.pair, len(values) // 3
    shown = range(first, min(first + 3, len(values)))
    several = np.moveaxis(losses[[shapes.depths.index(depth) for depth in depths]][:, list(shown)], 0, 1)
    draw_dynamics(axes[0], [f"rate {values[k]:.3g}" for k in shown], depths, several)
    draw_curve(axes[1], curve, OURS)
    legend(axes[1])
    return Drawing(picture, {**numbers({OURS: curve}), "all": losses}, (
        same_dynamics("learning rate", several), curve.stays(OURS)))
