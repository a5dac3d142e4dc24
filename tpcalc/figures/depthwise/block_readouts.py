"""Depthwise Hyperparameter Transfer, Figure M.1: blocks of four matrices whose last one starts at zero."""

from __future__ import annotations

import numpy as np

from ... import SGD, DepthScaling, ResNet
from ..curve import Curve, numbers, panels_of
from ..estimates import Estimate, over_seeds
from ..figure import Asked, Conclusion, Drawing, Sizes, draws
from ..grids import slices
from ..trainings import StartedAtZero
from .networks import INSTEAD, Shapes

MATRICES = 4
NET = ResNet("relu", "mlp", train_embedding_readout=True, matrices=MATRICES)
SCALES = {"SDE (1/2, 1/2)": DepthScaling(), "ODE (1, 0)": DepthScaling(1, 0)}
OCTAVES = (-5, 3)


@draws("depthwise/M1", "loss against learning rate at growing depth, early and late: blocks of four matrices, the last "
       "from zero, in both scalings", INSTEAD.replace("h + W phi(h)", "of four matrices a block"))
def _(sizes: Sizes) -> Asked:
    shapes = Shapes.of(sizes)
    data = sizes.images(shapes.steps, shapes.batch)
    values = 2.0 ** np.linspace(*OCTAVES, sizes.of(3, 9, 9))
    zero = (f"W{MATRICES}",)
    losses = yield np.array([[[[
        StartedAtZero(NET, SGD(float(rate)), scale, depth, shapes.width, data, seed, zero)
        for seed in range(shapes.seeds)] for rate in values] for depth in shapes.depths] for scale in SCALES.values()],
        dtype=object)
    parts = {"early": slices(losses)[0], "late": slices(losses)[-1]}
    found = {f"{name}, {part}": Curve(shapes.depths, values, one)
             for part, several in parts.items() for name, one in zip(SCALES, several)}
    gains = {name: gained(curve) for name, curve in found.items()}
    sde, ode = (f"{name}, early" for name in SCALES)
    return Drawing(panels_of(found, [1], 2), numbers(found), (
        *(found[f"{name}, late"].stays(name) for name in SCALES),
        Conclusion("early, deeper networks are better in the ODE scaling", f"losses fall by {gains[ode]}",
                   gains[ode].above(0)),
        Conclusion("early, deeper networks are worse in the SDE scaling", f"losses fall by {gains[sde]}",
                   gains[sde].below(0))))


def gained(curve: Curve) -> Estimate:
    """By how much losses fall from the least to the largest depth, a mean over the rates where no training blows up."""
    good = np.isfinite(curve.losses).all(axis=(0, 2))
    return over_seeds((curve.losses[0][good] - curve.losses[-1][good]).mean(axis=0))
