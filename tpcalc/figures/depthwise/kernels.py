"""Depthwise Hyperparameter Transfer, Figures 6 and 7: kernels of relu and linear networks reach those of infinite
depth."""

from __future__ import annotations

from typing import Any, Iterable

import numpy as np

from ... import SGD, DepthScaling, ResNet, Task, kernel_fn, methods, oo, train
from ..estimates import over_seeds
from ..figure import Conclusion, Drawing, Sizes, computed
from ..panels import COLORS, curves, legend, picture_of_panels, shade

NEAR = 0.3  # how far a power may be off that is called 1 or 2
STEP = Task(np.ones(2), np.ones(2))  # one input, seen twice: before a step and after it
RATE = 1.0


@computed("depthwise/6", "tangent kernels of relu networks by angle between inputs, at growing depth",
          "infinite width alone: panel (b)'s finite widths are not drawn", "inputs of its own")
def _(sizes: Sizes) -> Drawing:
    angles = np.linspace(-np.pi, np.pi, sizes.of(9, 65, 129))
    depths = tuple(2**k for k in sizes.of(range(1, 4), range(0, 8), range(0, 9)))
    turned = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    found = np.array([kernels_at(depth, turned) for depth in depths])
    limit = kernels_at(oo, turned)
    squares = np.mean((found - limit) ** 2, axis=1)
    picture, axes = picture_of_panels(2)
    for k, (depth, kernel) in enumerate(zip(depths, found)):
        axes[0].plot(angles, kernel, color=shade(k, len(depths)), label=f"L = {depth}")
    axes[0].plot(angles, limit, "k--", label="limit")
    axes[0].set(xlabel="angle between inputs", ylabel="tangent kernel")
    curves(axes[1], depths, squares[None, :, None], ["infinite width"], COLORS)
    axes[1].set(xlabel="depth L", ylabel="squared distance to the limit", yscale="log")
    for axis in axes:
        legend(axis)
    power = float(np.log2(squares[-2] / squares[-1]))
    return Drawing(picture, {"angles": angles, "depths": depths, "kernels": found, "limit": limit}, (
        Conclusion("tangent kernels before training reach that of infinite depth like 1/L^2 in the square",
                   f"like L^-{power:.2f} from L = {depths[-2]} to {depths[-1]}", abs(power - 2) < NEAR),))


def kernels_at(depth: Any, turned: np.ndarray) -> np.ndarray:
    """The tangent kernel of the first axis' vector and vectors turned from it."""
    kernel = kernel_fn(ResNet("relu", "pre_nonlin"), depth=depth)
    return np.asarray(kernel(np.array([[1.0, 0.0]]), turned, get="ntk"))[0]


@computed("depthwise/7", "feature kernels of linear networks before a step and what the step changes, by layer time",
          "widths of 500 for 1000; the limit from the integral equations", "inputs of its own")
def _(sizes: Sizes) -> Drawing:
    times = np.linspace(0, 1, sizes.of(3, 9, 17))
    width, seeds = sizes.of(16, 500, 1000), sizes.of(2, 4, 4)
    depths = tuple(2**k for k in sizes.of(range(1, 4), range(3, 8), range(3, 9)))
    limit = profiles(times, oo, oo)  # (before and change, times)
    found = np.array([[profiles(times, depth, width, seed) for seed in range(seeds)] for depth in depths])
    wide = np.array([profiles(times, depth, oo) for depth in depths])
    picture, axes = picture_of_panels(2)
    for k, (axis, title) in enumerate(zip(axes, ("kernels before training", "changes by one step"))):
        for j, depth in enumerate(depths):
            mean = found[j, :, k].mean(axis=0)
            error = found[j, :, k].std(axis=0, ddof=1) / np.sqrt(seeds)
            axis.errorbar(times, mean, error, color=shade(j, len(depths)), label=f"L = {depth}, n = {width}")
        axis.plot(times, limit[k], "k--", label="limit")
        axis.set(xlabel="layer time", title=title)
        legend(axis)
    distances = np.abs(wide - limit).max(axis=-1)  # (depths, before and change)
    powers = np.log2(distances[-1] / distances[-2])
    apart = over_seeds(np.mean((found[-1] - wide[-1]) / np.abs(wide[-1]).max(axis=-1, keepdims=True), axis=(1, 2)))
    return Drawing(picture, {"layer times": times, "depths": depths, "found": found, "infinite width": wide,
                             "limit": limit}, (
        Conclusion("kernels and their changes converge as the depth grows",
                   f"at infinite width like L^{powers[0]:.2f} and L^{powers[1]:.2f}", converges(powers)),
        Conclusion(f"networks of width {width} have the kernels of infinite width",
                   f"at L = {depths[-1]} they differ by {apart} of the largest", apart.within(-0.1, 0.1))))


def converges(powers: Iterable[float]) -> bool | None:
    """Do distances that go like these powers of L fall like 1/L? None where they fall less fast, as at depths that are
    not yet large.

    >>> converges([-1.0, -0.9]), converges([-1.0, -0.6]), converges([-1.0, 0.1])
    (True, None, False)
    """
    slowest = max(powers)
    return slowest < 0 and (True if slowest < -1 + NEAR else None)


def profiles(times: np.ndarray, depth: Any, width: Any, seed: int | None = None) -> np.ndarray:
    """The kernel of the input at layer times before the step, and its change, (2, times)."""
    run = train(ResNet(), STEP, SGD(RATE), DepthScaling(), depth, width, keep_nodes=times.tolist(),
                method="auto" if seed is None else methods.Dense(seed=seed))
    before, after = (run.forward_covariance[:, t, t] for t in range(2))
    return np.array([before, after - before])
