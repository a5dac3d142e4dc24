"""Depthwise Hyperparameter Transfer, Figure 3: vision transformers trained by Adam."""

from __future__ import annotations

import numpy as np

from ... import Adam, DepthScaling, Transformer, schedule
from ..curve import Curve, numbers, panels_of
from ..estimates import best_loss, over_seeds
from ..figure import Asked, Conclusion, Drawing, Sizes, draws
from ..grids import EPS, late
from ..images import Patches
from ..trainings import StartedAtZero

RATES = (-5, 1)  # powers of 2
NORMED, SCALED, BOTH = "LayerNorm", "1/sqrt(L)", "LayerNorm, 1/sqrt(L)"
PANELS = {NORMED: ("layer", DepthScaling(0, 0)), SCALED: (None, DepthScaling("1/2", 0)),
          BOTH: ("layer", DepthScaling("1/2", 0))}
QUERIES = ("Wq",)  # start at zero: appendix A.3
EPOCHS_20 = 31260  # steps of 64 images of Tiny ImageNet
WARM_UP = 1000  # of them


@draws("depthwise/3", "loss against learning rate over depths: vision transformers with LayerNorm, branches of "
       "1/sqrt(L), and both, Adam with rates that rise first", "digits of 16 patches for Tiny ImageNet and ImageNet, "
       "width 16, depths 2 to 8, 50 steps of 8 images, of which rates rise in 5; every patch predicts the label; no "
       "cosine decay of panel (d)")
def _(sizes: Sizes) -> Asked:
    heads, head_dim = sizes.of((2, 4), (4, 4), (12, 64))
    data = Patches(sizes.data, sizes.of(4, 50, EPOCHS_20), sizes.of(2, 8, 64))
    depths, seeds = sizes.of((1, 2), (2, 4, 8), (3, 6, 12, 24)), sizes.of(2, 4, 4)
    values = 2.0 ** np.linspace(*RATES, sizes.of(3, 7, 7))
    opts = [Adam(schedule(float(rate), data.steps, sizes.of(1, 5, WARM_UP)), eps=EPS) for rate in values]
    nets = {name: Transformer(heads, head_dim, data.positions, norm, phi="gelu", causal=False, scale_power=1,
                              train_embedding_readout=True) for name, (norm, _) in PANELS.items()}
    losses = late((yield np.array([[[[
        StartedAtZero(nets[name], opt, scale, depth, heads * head_dim, data, seed, QUERIES) for seed in range(seeds)]
        for opt in opts] for depth in depths] for name, (_, scale) in PANELS.items()], dtype=object))) / data.positions
    found = {name: Curve(depths, values, one) for name, one in zip(PANELS, losses)}
    more = over_seeds(last_gains(found[BOTH]) - last_gains(found[NORMED]))
    return Drawing(panels_of(found, label="training loss of a patch"), numbers(found), (
        *(curve.stays(name) for name, curve in found.items()),
        Conclusion(f"from L = {depths[-2]} to L = {depths[-1]} branches of 1/sqrt(L) gain more than LayerNorm alone",
                   f"the best loss falls by {more} more", more.above(0))))


def last_gains(curve: Curve) -> np.ndarray:
    """By how much the best loss falls from the second largest depth to the largest, of every seed."""
    before, after = (best_loss(one) for one in curve.losses[-2:])
    return before - after
