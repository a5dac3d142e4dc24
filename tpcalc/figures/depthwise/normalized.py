"""Depthwise Hyperparameter Transfer, Figures 2, B.4 and B.5: what normalization does for transfer across depth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ... import ResNet
from ..curve import Curve, numbers, panels_of
from ..estimates import Estimate, beside_blow_ups, best_octaves, over_seeds
from ..figure import Asked, Conclusion, Drawing, Sizes, draws, not_drawn
from ..grids import late
from .networks import INSTEAD, MUP, OURS, SCALES, Shapes

NORMS = {"no norm": None, "LayerNorm": "layer"}
OCTAVES = (-8, 2)
BATCH_NORM = ("BatchNorm divides by means over a batch, which the language of programs does not have; B4 has LayerNorm")
not_drawn("depthwise/2", "loss against learning rate over depths with BatchNorm: muP, and branches of 1/sqrt(L)",
          BATCH_NORM)
not_drawn("depthwise/B5", "loss against learning rate over depths: ResNets with BatchNorm", BATCH_NORM)


@draws("depthwise/B4", "loss against learning rate over depths, with LayerNorm and without, with branches of 1/sqrt(L) "
       "and without", INSTEAD.replace("h + W phi(h)", "of two matrices a block"))
def _(sizes: Sizes) -> Asked:
    shapes = Shapes.of(sizes)
    where = [(depth, shapes.width) for depth in shapes.depths]
    asked = {(scale, norm): shapes.rates(OCTAVES, where, SCALES[scale], momentum=0.9, net=ResNet(
        "relu", "mlp", norm=NORMS[norm], train_embedding_readout=True)) for scale in (MUP, OURS) for norm in NORMS}
    losses = late((yield np.stack([trainings for _, trainings in asked.values()])))
    found = {key: Curve(shapes.depths, values, one) for (key, (values, _)), one in zip(asked.items(), losses)}
    named = {", ".join(key): curve for key, curve in found.items()}
    less = varies_less(found[MUP, "LayerNorm"], found[MUP, "no norm"])
    reliable = varies_less(found[OURS, "LayerNorm"], found[MUP, "LayerNorm"])
    return Drawing(panels_of(named, [1], 2), numbers(named), (
        Conclusion("under muP best rates vary less over depths with LayerNorm than without", f"by {less} octaves less",
                   less.above(0)),
        Conclusion("with LayerNorm they vary less under branches of 1/sqrt(L) than under muP alone",
                   f"by {reliable} octaves less", reliable.above(0)),
        *(found[OURS, norm].stays(f"{OURS} with {norm}") for norm in NORMS)))


def varies_less(one: Curve, other: Curve) -> Estimate:
    """By how many octaves best rates vary less over the depths of one curve than of another, of the same seeds."""
    (least, first), (most, last) = map(spread_of_rates, (one, other))
    grids = [beside_blow_ups(curve.values, losses) for curve in (one, other) for losses in curve.losses]
    return replace(over_seeds(most - least, first or last), grid=max(grids))


def spread_of_rates(curve: Curve) -> tuple[np.ndarray, bool]:
    """The standard deviation of best rates over depths, in octaves, of every seed, and whether a grid ends at one."""
    octaves, ends = zip(*(best_octaves(curve.values, one) for one in curve.losses))
    return np.std(octaves, axis=0, ddof=1), any(ends)
