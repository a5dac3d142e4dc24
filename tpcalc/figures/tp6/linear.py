"""Tensor Programs VI, Figures 9 and 10: linear networks reach their limits in width, then in depth."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import SGD, DepthScaling, ResNet, Run, Task, methods, oo, tasks, train
from ..estimates import over_seeds, slope
from ..figure import Conclusion, Drawing, Sizes, computed
from ..panels import curves, legend, picture_of_panels, shade

TIMES = (0.0, 0.25, 0.5, 0.75, 1.0)
STEPS = (0, 4, 9)  # the 1st, 5th and 10th
RATE = 1.0
HALF_ORDER, ORDER = (-0.75, -0.25), (-1.4, -0.6)  # powers of n and L that errors of 1/sqrt(n) and 1/L are told from


def sizes_of_features(run: Run) -> np.ndarray:
    """Root mean squares of x at the layer times, (steps, times)."""
    return np.sqrt([run.forward_covariance[:, t, t] for t in STEPS])


def trained(depth: Any, width: Any, seed: int | None = None) -> np.ndarray:
    """Sizes of features of a linear network that is trained on a digit a step; exact where the width is infinite."""
    task: Task = tasks.digits(steps=max(STEPS) + 1, batch=1)
    run = train(ResNet(), task, SGD(RATE), DepthScaling(), depth, width, keep_nodes=TIMES,
                method="auto" if seed is None else methods.Dense(seed=seed))
    return sizes_of_features(run)


def draw_features(sizes: tuple[int, ...], found: np.ndarray, limit: np.ndarray, label: str) -> Any:
    """A panel a step: sizes of features, (sizes, steps, times, seeds), against width or depth, and their limits."""
    picture, axes = picture_of_panels(len(STEPS))
    for k, (axis, t) in enumerate(zip(axes, STEPS)):
        curves(axis, sizes, np.moveaxis(found[:, k], 1, 0), [f"layer time {time:g}" for time in TIMES])
        for j, value in enumerate(limit[k]):
            axis.axhline(value, linestyle="--", linewidth=0.8, color=shade(j, len(TIMES)))
        axis.set(xlabel=label, title=f"step {t + 1}")
    axes[0].set_ylabel("root mean square of features")
    legend(axes[0])
    return picture


@computed("tp6/9", "sizes of features of trained linear networks of growing width, and at infinite width",
          "digits for MNIST, widths 32 to 1024 for 128 to 8192", "the digits")
def _(sizes: Sizes) -> Drawing:
    depth = sizes.of(8, 64, 64)
    widths = tuple(2**k for k in sizes.of(range(4, 7), range(5, 11), range(7, 14)))
    limit = trained(depth, oo)
    found = np.array([[trained(depth, width, seed) for seed in range(sizes.of(2, 8, 8))] for width in widths])
    errors = np.sqrt(np.mean((found - limit) ** 2, axis=(2, 3)))  # (widths, seeds)
    power, last = slope(widths, errors), over_seeds(errors[-1] / np.sqrt(np.mean(limit**2)))
    return Drawing(
        draw_features(widths, np.moveaxis(found, 1, -1), limit, "width"),
        {"widths": widths, "depth": depth, "limit": limit, "found": found},
        (Conclusion("finite networks come ever closer to the recursion of infinite width",
                    f"distances go like n^({power}); {100 * last.value:.1f}% of the features' size at n = {widths[-1]}",
                    power.within(*HALF_ORDER)),))


@computed("tp6/10", "sizes of features at infinite width and growing depth, and at infinite depth",
          "digits for MNIST; the limit of infinite depth is drawn too", "the digits")
def _(sizes: Sizes) -> Drawing:
    depths = tuple(2**k for k in sizes.of(range(3, 6), range(4, 10), range(4, 10)))
    limit = trained(oo, oo)
    found = np.array([trained(depth, oo) for depth in depths])
    moved = np.abs(found - limit)[:, :, 1:]  # the first layer's are known exactly
    power = slope(depths, moved.reshape(len(depths), -1))
    last = float(np.max(np.abs(found[-1] / limit - 1)))
    return Drawing(
        draw_features(depths, found[..., None], limit, "depth"), {"depths": depths, "limit": limit, "found": found},
        (Conclusion("sizes of features converge as the depth grows",
                    f"distances to infinite depth go like L^({power}); at most {100 * last:.2g}% at L = {depths[-1]}",
                    power.within(*ORDER)),))
