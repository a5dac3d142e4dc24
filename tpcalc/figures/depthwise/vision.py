"""Depthwise Hyperparameter Transfer, Figure 3: vision transformers trained by Adam."""

from __future__ import annotations

import numpy as np

from ... import Adam, DepthScaling, Transformer
from ..curve import Curve, draw_curve, numbers
from ..figure import Asked, Drawing, Sizes, draws
from ..grids import EPS, late
from ..images import Patches
from ..panels import legend, picture_of_panels
from ..trainings import RealTraining

RATES = (-5, 1)  # powers of 2
PANELS = {"LayerNorm": ("layer", DepthScaling(0, 0)), "1/sqrt(L)": (None, DepthScaling("1/2", 0)),
          "LayerNorm, 1/sqrt(L)": ("layer", DepthScaling("1/2", 0))}


@draws("depthwise/3", "loss against learning rate over depths: vision transformers with LayerNorm, branches of "
       "1/sqrt(L), and both, Adam", "digits of 16 patches for Tiny ImageNet and ImageNet, width 16, depths 2 to 8, "
       "50 steps of 8 images; every patch predicts the label, queries are drawn, rates are constant")
def _(sizes: Sizes) -> Asked:
    heads, head_dim = sizes.of((2, 4), (4, 4), (12, 64))
    data = Patches(sizes.data, sizes.of(4, 50, EPOCHS_20), sizes.of(2, 8, 64))
    depths, seeds = sizes.of((1, 2), (2, 4, 8), (3, 6, 12, 24)), sizes.of(2, 4, 4)
    values = 2.0 ** np.linspace(*RATES, sizes.of(3, 7, 7))
    nets = {name: Transformer(heads, head_dim, data.positions, norm, phi="gelu", causal=False, scale_power=1,
                              train_embedding_readout=True) for name, (norm, _) in PANELS.items()}
    losses = late((yield np.array([[[[
        RealTraining(nets[name], Adam(float(rate), eps=EPS), scale, depth, heads * head_dim, data, seed)
        for seed in range(seeds)] for rate in values] for depth in depths] for name, (_, scale) in PANELS.items()],
        dtype=object))) / data.positions
    found = {name: Curve(depths, values, one) for name, one in zip(PANELS, losses)}
    picture, axes = picture_of_panels(len(found))
    for axis, (name, curve) in zip(axes, found.items()):
        draw_curve(axis, curve, name)
    axes[0].set_ylabel("training loss of a patch")
    legend(axes[-1])
    return Drawing(picture, numbers(found), tuple(curve.stays(name) for name, curve in found.items()))


EPOCHS_20 = 31260  # steps of 64 images of Tiny ImageNet
