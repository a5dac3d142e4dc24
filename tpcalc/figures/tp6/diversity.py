"""Tensor Programs VI, Figures 18 to 20: how features differ from layer to layer after training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np

from ... import ResNet, train
from ..estimates import all_of, over_seeds
from ..figure import Asked, Conclusion, Drawing, Sizes, draws
from ..grids import Grid, adam, scaling
from ..panels import curves, legend, picture_of_panels, shade
from ..trainings import RealTraining
from .rates import ALL, MUP, ODE

FROM = 0.25  # the layer time from which features are compared
RATE = 0.5
LARGEST = 3  # a power of 1/2: distances over larger eps are of layers that grew, whatever neighbors share
HALF = (0.35, 0.65)  # what is called a diversity exponent of one half
STYLES = (":", "--", "-")
INSTEAD = ("digits for CIFAR-10, width 64 for 256, depths 64 to 256, eps of 1/64 to 1/8 for 1/256 and more, 80 steps "
           "of 32 images for 1000 of 64")


@dataclass(frozen=True)
class FeatureDistances(RealTraining):
    """A training of which the distances of features in two layers are taken, at some steps: d(eps), Definition 5.6."""

    steps: tuple[int, ...] = ()
    eps: tuple[float, ...] = ()

    def numbers(self) -> list[float | None]:
        """Distances of all steps, each over all eps, of the first input of the batch."""
        problem = self.problem(self.data.steps)
        run = train(problem, method=self.method(problem), keep_nodes=[FROM, *(FROM + one for one in self.eps)])
        return [float(run.feature_difference((t, 0), FROM, one)) for t in self.steps for one in self.eps]


def asked(sizes: Sizes, kinds: Sequence[tuple[str, str]], steps_at: Sequence[float]) -> tuple[Any, ...]:
    """Depths, eps, steps, and trainings (kinds, depths, seeds) of activations and scalings."""
    grid = Grid.of(sizes, (0, 0))
    depths = sizes.of((16, 32), (64, 128, 256), (256, 512, 1024))
    eps = tuple(float(one) for one in 2.0 ** -np.arange(np.log2(depths[0]), LARGEST - 1, -1))
    steps = tuple(int(one * (grid.steps - 1)) for one in steps_at)
    data = sizes.images(grid.steps, grid.batch)
    return depths, eps, steps, np.array([[[
        FeatureDistances(ResNet(phi), adam(RATE), scaling(*ALL[name]), depth, grid.width, data, seed, steps, eps)
        for seed in range(sizes.of(2, 8, 8))] for depth in depths] for phi, name in kinds], dtype=object)


def powers_of_distances(eps: Sequence[float], distances: np.ndarray) -> np.ndarray:
    """The powers of eps by which distances, (..., eps), grow."""
    fitted = np.polyfit(np.log(eps), np.log(distances).reshape(-1, len(eps)).T, 1)[0]
    return np.asarray(fitted).reshape(distances.shape[:-1])


def draw_distances(axis: Any, eps: Sequence[float], distances: np.ndarray, depths: Sequence[int], power: float,
                   title: str) -> None:
    """A panel: distances (depths, seeds, eps) over eps^power, 1 at the least eps."""
    scaled = distances / np.power(eps, power)
    scaled = np.moveaxis(scaled / scaled[..., :1], 1, -1)
    curves(axis, eps, scaled, [f"L = {depth}" for depth in depths])
    axis.set(xlabel="eps", title=title, yscale="log")
    legend(axis)


@draws("tp6/18", "distances of features at layer times 1/4 and 1/4 + eps after training: Depth-muP and ODE", INSTEAD)
def _(sizes: Sizes) -> Asked:
    names = (MUP, ODE)
    depths, eps, steps, trainings = asked(sizes, [("relu", name) for name in names], (1.0,))
    found = yield trainings  # (scalings, depths, seeds, eps)
    picture, axes = picture_of_panels(len(names))
    for axis, name, one in zip(axes, names, found):
        draw_distances(axis, eps, one, depths, 0.0, name)
        for power in (0.5, 1.0):
            axis.plot(eps, (np.array(eps) / eps[0]) ** power, ":", color="0.6")
    axes[0].set_ylabel("d(eps), 1 at the least eps")
    powers = powers_of_distances(eps, found)  # (scalings, depths, seeds)
    known = [[over_seeds(at) for at in one] for one in powers]
    mup, ode = (", ".join(f"{one} at L = {depth}" for depth, one in zip(depths, several)) for several in known)
    nears = over_seeds(np.abs(powers[1, 0] - 1) - np.abs(powers[1, -1] - 1))  # seed by seed: both saw the same data
    apart = over_seeds(powers[1, -1] - powers[0, -1])
    return Drawing(picture, {"depths": depths, "eps": eps, "step": steps, "distances": found}, (
        Conclusion("under Depth-muP distances grow like eps^(1/2) at every depth", f"powers {mup}",
                   all_of(one.within(*HALF) for one in known[0])),
        Conclusion("under ODE the power comes closer to 1 with depth", f"by {nears}: powers {ode}", nears.above(0)),
        Conclusion("in the deepest network it is larger under ODE than under Depth-muP", f"by {apart}",
                   apart.above(0))))


def draw_steps(kinds: Sequence[str], eps: Sequence[float], depths: Sequence[int], steps: Sequence[int],
               found: np.ndarray) -> Any:
    """A panel a kind: distances over eps^(1/2) at all steps, found (kinds, depths, seeds, steps, eps)."""
    picture, axes = picture_of_panels(len(kinds))
    for axis, name, one in zip(axes, kinds, found):
        for style, t, k in zip(STYLES, steps, range(len(steps))):
            for j, depth in enumerate(depths):
                scaled = one[j, :, k] / np.sqrt(eps)
                axis.plot(eps, (scaled / scaled[:, :1]).mean(axis=0), style, color=shade(j, len(depths)),
                          label=f"L = {depth}, step {t + 1}")
        axis.set(xlabel="eps", title=name)
        axis.set_xscale("log", base=2)
    axes[0].set_ylabel("d(eps) / eps^(1/2), 1 at the least eps")
    legend(axes[-1])
    return picture


def at_steps(sizes: Sizes, kinds: Sequence[tuple[str, str]]) -> Any:
    """Distances of several kinds of networks at an early, a middle and the last step, and their exponents, of every
    seed, (kinds, depths, seeds, steps)."""
    depths, eps, steps, trainings = asked(sizes, kinds, (0.1, 0.5, 1.0))
    found = yield trainings
    found = found.reshape(*found.shape[:-1], len(steps), len(eps))
    return depths, eps, steps, found, powers_of_distances(eps, found)


@draws("tp6/19", "distances of features over eps^(1/2), early and late in training: Depth-muP and ODE", INSTEAD)
def _(sizes: Sizes) -> Asked:
    names = (MUP, ODE)
    depths, eps, steps, found, powers = yield from at_steps(sizes, [("relu", name) for name in names])
    with_t = [over_seeds(one[-1, :, -1] - one[-1, :, 0]) for one in powers]
    with_depth = [over_seeds(one[-1, :, -1] - one[0, :, -1]) for one in powers]
    return Drawing(draw_steps(names, eps, depths, steps, found), {
        "depths": depths, "eps": eps, "steps": steps, "distances": found}, tuple(
        Conclusion(f"under {name} powers of eps grow {how}", f"by {one}", one.above(0))
        for how, several in (("in training", with_t), ("with depth", with_depth)) for name, one in zip(names, several)))


@draws("tp6/20", "distances of features over eps^(1/2), early and late in training: relu and absolute values", INSTEAD)
def _(sizes: Sizes) -> Asked:
    kinds = ("relu", "abs")
    depths, eps, steps, found, powers = yield from at_steps(sizes, [(phi, MUP) for phi in kinds])
    less = [over_seeds(one) for one in (powers[0, -1] - powers[1, -1]).T]
    return Drawing(draw_steps(kinds, eps, depths, steps, found), {
        "depths": depths, "eps": eps, "steps": steps, "distances": found}, (
        Conclusion("powers of eps are less with absolute values than with relu: features are more diverse",
                   "less by " + ", ".join(f"{one} at step {t + 1}" for t, one in zip(steps, less)),
                   less[-1].above(0)),))
