"""Draw docs/images/first-line.svg: convergence in depth at three scalings, and of real networks in width."""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import tpcalc as tp

matplotlib.rcParams["svg.hashsalt"] = "tpcalc"  # the same numbers give the same file


def draw(path: Path) -> None:
    net, opt = tp.ResNet("linear"), tp.SGD(lr=1.0)
    task = tp.Task([1, 0.8, -0.6, 1.1], [1, -0.7, 0.5, 1.2])
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for alpha, marker in ((0.5, "o"), (0.75, "s"), (1.0, "^")):
        found = tp.convergence(net, task, opt, tp.DepthScaling(alpha, 1 - alpha), [2**k for k in range(4, 13)])
        left.loglog(found.depths, found.distance, marker + "-",
                    label=f"({alpha:g}, {1 - alpha:g}): order {found.limit_order.order:.2f}")
    left.set(xlabel="depth L", ylabel="largest distance of an output", title="to infinite depth, at infinite width")
    left.legend(title="(alpha, gamma)", frameon=False)
    scale, depth, widths, seeds = tp.DepthScaling(0.5, 0.5), 32, (64, 128, 256, 512, 1024), 24
    exact = tp.train(net, task, opt, scale, depth).outputs
    errors = [[np.sqrt(np.mean((tp.train(net, task, opt, scale, depth, width, seed=seed).outputs - exact) ** 2))
               for seed in range(seeds)] for width in widths]
    means = np.mean(errors, axis=1)
    right.loglog(widths, errors, ".", color="0.6")
    right.loglog(widths, means, "o-", label=f"mean of {seeds} seeds")
    right.loglog(widths, means[0] * (np.array(widths) / widths[0]) ** -0.5, "k:", label="n^(-1/2)")
    right.set(xlabel="width n", ylabel="rms error of the outputs", title=f"real networks of {depth} layers")
    right.legend(frameon=False)
    for axis in (left, right):
        axis.set_xscale("log", base=2)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(__file__).with_name("first-line.svg"))
