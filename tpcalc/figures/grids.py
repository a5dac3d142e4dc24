"""The networks of Tensor Programs VI's figures, on grids of depths, hyperparameters and seeds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from .. import Adam, DepthScaling, ResNet
from .curve import BASE
from .figure import Sizes
from .trainings import RealTraining

EPS = 1e-8
EPOCHS_50 = 39100  # steps of 64 images of CIFAR-10


@dataclass(frozen=True)
class Grid:
    """Depths, values of a hyperparameter and seeds of networks of one width, and how long they are trained."""

    sizes: Sizes
    depths: tuple[int, ...]
    values: np.ndarray
    seeds: int
    width: int
    steps: int
    batch: int

    @classmethod
    def of(cls, sizes: Sizes, octaves: tuple[int, int]) -> "Grid":
        """Values between powers of 2, both included; appendix L.2's grid at full size."""
        low, high = octaves
        powers = np.linspace(low, high, sizes.of(3, high - low + 1, high - low + 1))
        return cls(sizes, sizes.of((2, 4), (4, 8, 16, 32, 64), tuple(2**k for k in range(3, 11))), 2.0**powers,
                   sizes.of(2, 4, 5), sizes.of(8, 64, 256), sizes.of(4, 80, EPOCHS_50), sizes.of(4, 32, 64))

    def trainings(self, make: Callable[[int, float], tuple[ResNet, Any, DepthScaling]]) -> np.ndarray:
        """(depths, values, seeds) of a network, an optimizer and a scaling for each depth and value."""
        data = self.sizes.images(self.steps, self.batch)
        return np.array([[[RealTraining(*make(depth, float(value)), depth, self.width, data, seed)
                           for seed in range(self.seeds)] for value in self.values] for depth in self.depths],
                        dtype=object)

    def rates(self, net: ResNet, alpha: float, gamma: float, branch: float = 1.0) -> np.ndarray:
        """Trainings whose value is the learning rate of Adam; branches are multiplied by ``branch`` at depth 8."""
        return self.trainings(lambda depth, rate: (net, adam(rate), scaling(alpha, gamma, branch)))

    def said(self) -> dict[str, int]:
        """What all networks have, for the numbers of a figure."""
        return {"width": self.width, "steps": self.steps, "batch": self.batch}


def adam(rate: float) -> Adam:
    """Adam with PyTorch's betas."""
    return Adam(lr=rate, eps=EPS)


def scaling(alpha: float, gamma: float, branch: float = 1.0) -> DepthScaling:
    """A depth scaling whose branches have the multiplier ``branch`` at depth 8, where all scalings agree."""
    return DepthScaling(alpha, gamma, branch=branch * BASE**-0.5, base_depth=BASE)


def late(losses: np.ndarray) -> np.ndarray:
    """The mean loss of the last quarter of the steps: the last axis is that of steps."""
    return slices(losses)[-1]


def slices(losses: np.ndarray, count: int = 4) -> list[np.ndarray]:
    """Mean losses of parts of the training, from first to last."""
    return [part.mean(axis=-1) for part in np.array_split(losses, min(count, losses.shape[-1]), axis=-1)]
