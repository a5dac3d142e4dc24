"""Draw docs/images/finite_width.svg: how much real networks differ from each other, and what is computed; print it.

Left: root mean squares over seeds of f_3 - (f + b / n), three depths, on the line sqrt(Sigma / n), with the band in
which 95 % of such estimates lie. Right: distances of Sigma at depth L from infinite depth, for three scalings. Takes
some minutes.
"""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import tpcalc as tp

matplotlib.rcParams["svg.hashsalt"] = "tpcalc"  # the same numbers give the same file

TASK = tp.Task(inputs=[1, 0.8, -0.6, 1.1], targets=[1, -0.7, 0.5, 1.2])
NET, OPT = tp.ResNet("linear"), tp.SGD(lr=0.3)
SCALE = tp.DepthScaling(0.75, 0.25)
WIDTHS, SEEDS = [2**k for k in range(6, 14)], 40
DEPTHS = (4, 16, 64)
RATES = [(tp.DepthScaling(0.5, 0.5), "alpha = 1/2"), (SCALE, "alpha = 3/4"), (tp.DepthScaling(1, 0), "alpha = 1")]
COLORS = ("#1b4f72", "#b9770e", "#6c3483")


def deviation(run: tp.Run, depth: int, width: int) -> float:
    """Root mean square over seeds of what the last output differs from its mean by."""
    real = [tp.train(NET, TASK, OPT, SCALE, depth, width, method="conditioned", seed=seed).outputs[-1, 0, 0]
            for seed in range(SEEDS)]
    return float(np.sqrt(np.mean((np.array(real) - run.at_width(width).mean[-1, 0, 0]) ** 2)))


def draw() -> Figure:
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    n = np.array(WIDTHS, dtype=float)
    spread = np.sqrt(2 / SEEDS) / 2 * 1.96  # of an estimated deviation, relatively
    for depth, color in zip(DEPTHS, COLORS):
        run = tp.train(NET, TASK, OPT, SCALE, depth)
        predicted = np.array([run.at_width(width).std[-1, 0, 0] for width in WIDTHS])
        measured = np.array([deviation(run, depth, width) for width in WIDTHS])
        left.loglog(n, predicted, color=color, label=f"L = {depth}")
        left.fill_between(n, predicted * (1 - spread), predicted * (1 + spread), color=color, alpha=0.15, linewidth=0)
        left.loglog(n, measured, "o", color=color, markersize=4)
        print(f"L = {depth}: measured / predicted", (measured / predicted).round(2).tolist())
    limit = tp.train(NET, TASK, OPT, SCALE, tp.oo).at_width(1).std[-1, 0, 0]
    left.loglog(n, limit / np.sqrt(n), "k--", linewidth=1, label="L infinite")
    left.set(xlabel="width n", ylabel="deviation of f_3 over seeds", title=f"{SEEDS} real networks a point")
    left.legend(frameon=False, fontsize=8)
    depths = [2**k for k in range(3, 11)]
    for (scale, name), color in zip(RATES, COLORS):
        whole = tp.train(NET, TASK, OPT, scale, tp.oo).fluctuations.covariance
        errors = [np.max(np.abs(tp.train(NET, TASK, OPT, scale, depth).fluctuations.covariance - whole))
                  for depth in depths]
        slope = -np.polyfit(np.log(depths[-3:]), np.log(errors[-3:]), 1)[0]
        right.loglog(depths, errors, "o-", color=color, markersize=3, label=f"{name}: L^-{slope:.2f}")
        print(f"{name}: Sigma at L = {depths[0]}..{depths[-1]} is off by {errors[0]:.2g}..{errors[-1]:.2g}, "
              f"L^-{slope:.3f}")
    right.set(xlabel="depth L", ylabel="Sigma from its limit", title="infinite depth")
    right.legend(frameon=False, fontsize=8)
    return figure


if __name__ == "__main__":
    draw().savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
