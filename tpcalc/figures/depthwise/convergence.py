"""Depthwise Hyperparameter Transfer, Figures 5 and B.7: how outputs of finite networks reach those of infinite ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Sequence

import numpy as np

from ... import SGD, DepthScaling, ResNet, Task, methods, oo, tasks, train
from ..estimates import Estimate, all_of, jackknife
from ..figure import Conclusion, Drawing, Sizes, computed
from ..panels import COLORS, curves, legend, picture_of_panels, shade, spread

NET, OPT, SCALE = ResNet(), SGD(0.3), DepthScaling()
INSTEAD = ("linear networks on digits, with exact limits, for convolutions on CIFAR-10 and their widest and "
           "deepest network; 10 steps of 4 images for 250 of 32, infinite width too")
NEAR = 0.3  # how far a power may be off that is called 1 or 2
FLAT = 0.25


@dataclass(frozen=True)
class Outputs:
    """Outputs of real networks, (seeds, widths, depths, all numbers of one), those of infinite width, (depths, all
    numbers), and the limit's, (all numbers,)."""

    task: Task
    widths: tuple[int, ...]
    depths: tuple[int, ...]
    found: np.ndarray
    wide: np.ndarray
    limit: np.ndarray

    def losses(self, outputs: np.ndarray) -> np.ndarray:
        """The loss of every step, for outputs with any axes before."""
        found = outputs.reshape(-1, *self.task.targets.shape)
        return np.array([self.task.losses(one) for one in found]).reshape(*outputs.shape[:-1], self.task.steps)

    def error(self, found: np.ndarray) -> np.ndarray:
        """Mean squares of the distance to the limit, (seeds, widths, depths)."""
        return np.mean((found - self.limit) ** 2, axis=-1)

    @property
    def exact_power(self) -> float:
        """The power of L by which squared distances fall at infinite width, from one depth to twice that."""
        far, near = self.error(self.wide)[-2:]
        return float(np.log2(far / near))

    def variance(self, found: np.ndarray) -> np.ndarray:
        """The variance of seeds around their mean, (widths, depths)."""
        return found.var(axis=0, ddof=1).mean(axis=-1)

    def bias(self, found: np.ndarray) -> np.ndarray:
        """The square of the distance of the mean over all seeds to the limit, what seeds leave in it taken off."""
        return np.mean((found.mean(axis=0) - self.limit) ** 2, axis=-1) - self.variance(found) / len(found)


@lru_cache(maxsize=1)
def outputs(sizes: Sizes) -> Outputs:
    """All networks, trained."""
    task = tasks.digits(sizes.of(3, 10, 10), 4)
    widths = tuple(2**k for k in sizes.of(range(4, 6), range(5, 10), range(5, 10)))
    depths = tuple(2**k for k in sizes.of(range(1, 4), range(0, 6), range(1, 8)))
    found = np.array([[[train(NET, task, OPT, SCALE, depth, width, method=methods.Dense(seed=seed)).outputs.ravel()
                        for depth in depths] for width in widths] for seed in range(sizes.of(3, 15, 15))])
    wide = np.array([train(NET, task, OPT, SCALE, depth).outputs.ravel() for depth in depths])
    return Outputs(task, widths, depths, found, wide, train(NET, task, OPT, SCALE, oo).outputs.ravel())


def draw_errors(axis: Any, all_: Outputs, errors: np.ndarray) -> None:
    """A panel: squared distances to the limit, (widths, depths, seeds), against depth, with those of infinite width."""
    curves(axis, all_.depths, errors, [f"n = {n}" for n in all_.widths], COLORS)
    axis.plot(all_.depths, all_.error(all_.wide), "k--", label="infinite width")
    axis.set(xlabel="depth L", yscale="log")
    legend(axis)


def power(x: Sequence[float], y: np.ndarray) -> float:
    """The power by which y falls with x; NaN where a number of y is not positive."""
    return float(-np.polyfit(np.log(x), np.log(y), 1)[0]) if np.all(y > 0) else float("nan")


@computed("depthwise/5", "learning curves across depths in wide networks; squared distance of outputs to the limit",
          INSTEAD, "the digits")
def _(sizes: Sizes) -> Drawing:
    all_ = outputs(sizes)
    picture, axes = picture_of_panels(2)
    losses = all_.losses(all_.found[:, -1])  # (seeds, depths, steps)
    limit = all_.losses(all_.limit)
    for k, depth in enumerate(all_.depths):
        mean, error = spread(np.moveaxis(losses[:, k], 0, -1))
        axes[0].errorbar(range(len(mean)), mean, error, color=shade(k, len(all_.depths)), label=f"L = {depth}")
    axes[0].plot(limit, "k--", label="limit")
    axes[0].set(xlabel="step", ylabel="training loss", title=f"width {all_.widths[-1]}")
    legend(axes[0])
    error = np.moveaxis(all_.error(all_.found), 0, -1)
    draw_errors(axes[1], all_, error)
    axes[1].set_ylabel("squared distance to the limit")
    half = len(all_.depths) // 2
    apart = np.sqrt(np.mean((losses[:, half:-1] - losses[:, -1:]).mean(axis=0) ** 2))
    moved = float(np.ptp(limit))
    narrow, wide = (jackknife(lambda e: power(all_.depths, e.mean(axis=0)), all_.error(all_.found)[:, k])
                    for k in (0, -1))
    exact = all_.exact_power
    return Drawing(picture, {"widths": all_.widths, "depths": all_.depths, "losses": losses, "limit": limit,
                             "squared distances": error}, (
        Conclusion(f"wide networks of at least {all_.depths[half]} layers have the same learning curves",
                   f"they differ by {apart:.2g}, losses vary by {moved:.2g}", bool(apart < moved / 10)),
        Conclusion(f"at n = {all_.widths[0]} the width limits: more layers bring nothing",
                   f"the squared distance falls like L^-({narrow})", narrow.within(-FLAT, FLAT)),
        Conclusion("in wide networks the squared distance falls like 1/L",
                   f"like L^-({wide}) at n = {all_.widths[-1]}, L^-{exact:.2f} at infinite width",
                   abs(exact - 1) < NEAR)))


@computed("depthwise/B7", "squared distances to the limit by width and depth: of seeds from their mean, of outputs, of "
          "means over seeds", INSTEAD, "the digits")
def _(sizes: Sizes) -> Drawing:
    all_ = outputs(sizes)
    picture, axes = picture_of_panels(3)
    square = (all_.found - all_.found.mean(axis=0)) ** 2 * len(all_.found) / (len(all_.found) - 1)
    around = np.moveaxis(square.mean(axis=-1), 0, -1)  # (widths, depths, seeds)
    error = np.moveaxis(all_.error(all_.found), 0, -1)
    bias = all_.bias(all_.found)
    curves(axes[0], all_.widths, np.moveaxis(around, 0, 1), [f"L = {depth}" for depth in all_.depths])
    axes[0].set(xlabel="width n", ylabel="squared distance", yscale="log")
    legend(axes[0])
    draw_errors(axes[1], all_, error)
    draw_errors(axes[2], all_, np.where(bias > 0, bias, np.nan)[..., None])
    for axis, title in zip(axes, ("seeds from their mean", "outputs from the limit", "means from the limit")):
        axis.set_title(title)
    by_width = [jackknife(lambda f, k=k: power(all_.widths, all_.variance(f)[:, k]), all_.found)  # type: ignore[misc]
                for k in range(len(all_.depths))]
    full, means = ([jackknife(lambda f, k=k: power(all_.depths, e(f)[k]), all_.found)  # type: ignore[misc]
                    for k in range(len(all_.widths))] for e in (lambda f: all_.error(f).mean(axis=0), all_.bias))
    said = ", ".join(f"L = {depth}: {one}" for depth, one in zip(all_.depths, by_width))
    return Drawing(picture, {"widths": all_.widths, "depths": all_.depths, "seeds": around, "outputs": error,
                             "means": all_.bias(all_.found)}, (
        Conclusion("seeds vary around their mean like 1/n in the square, at every depth", f"powers of 1/n: {said}",
                   all_of(one.within(1 - NEAR, 1 + NEAR) for one in by_width)),
        Conclusion("in wide networks the squared distance of outputs falls like 1/L", by_widths(all_, full),
                   abs(all_.exact_power - 1) < NEAR),
        Conclusion("in wide networks that of means over seeds falls like 1/L^2", by_widths(all_, means),
                   abs(all_.exact_power - 2) < NEAR)))


def by_widths(all_: Outputs, powers: list[Estimate]) -> str:
    """Powers of the depth at every width."""
    said = ", ".join(f"{one} at n = {width}" for width, one in zip(all_.widths, powers) if np.isfinite(one.value))
    return f"powers of 1/L: {said or 'none can be told of seeds'}, {all_.exact_power:.2f} at infinite width"
