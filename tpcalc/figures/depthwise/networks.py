"""The networks of Depthwise Hyperparameter Transfer's figures: its equation (1), trained by SGD in all layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ... import SGD, DepthScaling, Parametrization, ResNet
from ..figure import Sizes
from ..trainings import RealTraining

NET = ResNet("relu", "pre_nonlin", train_embedding_readout=True)
OURS, MUP, STANDARD, STANDARD_DEEP = "muP and 1/sqrt(L)", "muP", "standard", "standard and 1/sqrt(L)"
SCALES = {OURS: DepthScaling(), MUP: DepthScaling(0, 0), STANDARD: Parametrization("SP", DepthScaling(0, 0)),
          STANDARD_DEEP: Parametrization("SP", DepthScaling())}
INSTEAD = "perceptrons h + W phi(h) on digits for convolutions on CIFAR-10, 80 steps of 32 images for 20 epochs of 64"
EPOCHS_20 = 15640  # steps of 64 images of CIFAR-10


@dataclass(frozen=True)
class Shapes:
    """How networks of a figure are trained: depths at one width, widths at one depth, seeds and steps."""

    sizes: Sizes
    depths: tuple[int, ...]
    widths: tuple[int, ...]
    depth: int
    width: int
    seeds: int
    steps: int
    batch: int

    @classmethod
    def of(cls, sizes: Sizes) -> "Shapes":
        """The figures' shapes at a size."""
        return cls(sizes, sizes.of((2, 4), (4, 8, 16, 32), (3, 6, 12, 30)),
                   sizes.of((8, 16), (32, 64, 128), (64, 128, 256, 512)), sizes.of(2, 8, 12), sizes.of(8, 64, 512),
                   sizes.of(2, 6, 6), sizes.of(4, 80, EPOCHS_20), sizes.of(4, 32, 64))

    def one(self, depth: int, width: int, seed: int, opt: Any, scale: Any = SCALES[OURS], net: ResNet = NET,
            richness: float = 1.0) -> RealTraining:
        """A training of these steps."""
        data = self.sizes.images(self.steps, self.batch)
        return RealTraining(net, opt, scale, depth, width, replace(data, richness=richness), seed)

    @property
    def pair(self) -> tuple[int, int]:
        """Two depths whose losses over steps are compared."""
        return self.depths[len(self.depths) // 2 - 1], self.depths[-1]

    def rates(self, octaves: tuple[int, int], where: list[tuple[int, int]], scale: Any, **more: Any
              ) -> tuple[np.ndarray, np.ndarray]:
        """Learning rates, powers of 2, and trainings (networks, rates, seeds) of depths and widths; more: what ``one``
        takes, and SGD's momentum."""
        every = octaves[1] - octaves[0] + 1
        values = 2.0 ** np.linspace(*octaves, self.sizes.of(3, every, every))
        momentum = more.pop("momentum", 0.0)
        return values, np.array([[[self.one(depth, width, seed, SGD(float(rate), momentum=momentum), scale, **more)
                                   for seed in range(self.seeds)] for rate in values] for depth, width in where],
                                dtype=object)
