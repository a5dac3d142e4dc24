"""Depthwise Hyperparameter Transfer, Figures 1, B.1 and B.2: learning rates across width and depth."""

from __future__ import annotations

import numpy as np

from ..curve import Curve, numbers, panels_of
from ..estimates import best_loss, over_seeds
from ..figure import Asked, Conclusion, Drawing, Sizes, draws
from ..grids import late
from ..panels import curves, legend, picture_of_panels, shade
from .networks import INSTEAD, MUP, OURS, SCALES, STANDARD, STANDARD_DEEP, Shapes

OCTAVES = (-6, 4)
DEPTH, WIDTH = "over depths", "over widths"


def across(sizes: Sizes, names: tuple[str, ...], kept: dict[tuple[str, str], bool]) -> Asked:
    """Curves over depths and over widths; kept: whether the paper has the best rate stay, by name and size."""
    shapes = Shapes.of(sizes)
    where = [(depth, shapes.width) for depth in shapes.depths] + [(shapes.depth, width) for width in shapes.widths]
    asked = [shapes.rates(OCTAVES, where, SCALES[name]) for name in names]
    values, cut = asked[0][0], len(shapes.depths)
    losses = late((yield np.stack([trainings for _, trainings in asked])))
    found = {(name, size): curve for name, one in zip(names, losses) for size, curve in (
        (DEPTH, Curve(shapes.depths, values, one[:cut])),
        (WIDTH, Curve(shapes.widths, values, one[cut:], letter="n")))}
    picture = panels_of({", ".join(key): curve for key, curve in found.items()}, range(len(found)), len(names))
    judged = [found[key].stays(" ".join(key)) if stays else found[key].moves(" ".join(key))
              for key, stays in kept.items()]
    return Drawing(picture, numbers({" ".join(key): curve for key, curve in found.items()}), tuple(judged))


@draws("depthwise/1", "loss against learning rate over depths and widths: muP with branches of 1/sqrt(L), muP alone",
       INSTEAD)
def _(sizes: Sizes) -> Asked:
    return (yield from across(sizes, (OURS, MUP), {(OURS, DEPTH): True, (OURS, WIDTH): True, (MUP, WIDTH): True,
                                                   (MUP, DEPTH): False}))


@draws("depthwise/B2", "loss against learning rate over depths and widths: standard, with branches of 1/sqrt(L) and "
       "without", INSTEAD)
def _(sizes: Sizes) -> Asked:
    return (yield from across(sizes, (STANDARD, STANDARD_DEEP), {
        (STANDARD, WIDTH): False, (STANDARD, DEPTH): False, (STANDARD_DEEP, WIDTH): False}))


@draws("depthwise/B1", "loss at the best learning rate against the number of parameters, by depth and width", INSTEAD)
def _(sizes: Sizes) -> Asked:
    shapes = Shapes.of(sizes)
    depths = sizes.of((1, 2, 4), (1, 2, 4, 8, 16), shapes.depths)
    widths = sizes.of((8, 16), (32, 64, 128), shapes.widths)
    values, trainings = shapes.rates((-1, 2), [(depth, width) for depth in depths for width in widths], SCALES[OURS])
    losses = late((yield trainings)).reshape(len(depths), len(widths), len(values), -1)
    least = np.array([[best_loss(one) for one in row] for row in losses])  # (depths, widths, seeds)
    inputs, outputs = shapes.one(1, 1, 0, None).data.task(0).d_in, shapes.one(1, 1, 0, None).data.task(0).d_out
    parameters = np.array([[depth * n**2 + n * (inputs + outputs) for n in widths] for depth in depths], dtype=float)
    fits = np.array([[np.polyfit(np.log(x), np.log(y), 1) for y in several.T]
                     for x, several in zip(parameters, least)])  # (depths, seeds, 2): power laws at constant depth
    powers = [over_seeds(one) for one in fits[:, :, 0]]
    picture, axes = picture_of_panels(2)
    for k, depth in enumerate(depths):
        axes[0].plot(parameters[k], least[k].mean(axis=-1), ".-", color=shade(k, len(depths)),
                     label=f"L = {depth}, power {powers[k].value:.2f}")
    same = float(np.exp(np.mean(np.log([parameters[:, 0].max(), parameters[:, -1].min()]))))
    at_same = np.exp(fits[:, :, 0] * np.log(same) + fits[:, :, 1])  # (depths, seeds)
    axes[0].set(xscale="log", yscale="log", xlabel="parameters", ylabel="least training loss")
    legend(axes[0])
    curves(axes[1], depths, at_same[None])
    axes[1].set(xlabel="depth L", ylabel=f"loss at {same:.0f} parameters")
    inner = int(np.argmin(at_same[1:-1].mean(axis=1))) + 1
    more = over_seeds(np.minimum(at_same[0], at_same[-1]) - at_same[inner])
    steeper = over_seeds(fits[0, :, 0] - fits[-1, :, 0])
    return Drawing(picture, {"depths": depths, "widths": widths, "parameters": parameters, "losses": least,
                             "powers": [one.value for one in powers]}, (
        Conclusion("at equal parameters a depth between the least and the largest is best",
                   f"the loss at L = {depths[inner]} is below that of both by {more}", more.above(0)),
        Conclusion("losses fall by a steeper power of the parameters at a larger depth: deeper networks are for more "
                   "parameters", f"the power at L = {depths[-1]} is below that at L = {depths[0]} by {steeper}",
                   steeper.above(0))))
