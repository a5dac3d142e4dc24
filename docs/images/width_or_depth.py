"""Draw docs/images/width_or_depth.svg: what limits a network, its width or its depth; print it.

Left, Depthwise Hyperparameter Transfer's Figure 5 (b) for linear networks: distances from infinite width and depth,
computed, and root mean
squares over 15 real networks a point. Right: errors of the networks of three budgets n^2 L, over their depth.
"""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import tpcalc as tp

matplotlib.rcParams["svg.hashsalt"] = "tpcalc"  # the same numbers give the same file

TASK = tp.Task(inputs=[1, 0.8, -0.6, 1.1], targets=[1, -0.7, 0.5, 1.2])
NET, OPT, SCALE = tp.ResNet("linear"), tp.SGD(lr=0.3), tp.DepthScaling(0.5, 0.5)
DEPTHS = tuple(2**k for k in range(1, 9))
WIDTHS, SEEDS, REAL = (256, 1024, 4096), 15, (2, 8, 32)
BUDGETS = (1e6, 1e8, 1e10)
COLORS = ("#1b4f72", "#b9770e", "#6c3483")


def draw() -> Figure:
    found = tp.studies.width_or_depth(NET, TASK, OPT, SCALE, DEPTHS)
    limit = tp.train(NET, TASK, OPT, SCALE, tp.oo).outputs
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for width, color in zip(WIDTHS, COLORS):
        expected = np.hypot(found.change, found.spread / width**0.5)
        left.loglog(DEPTHS, expected, color=color, label=f"n = {width}")
        measured = []
        for depth in REAL:
            real = [tp.train(NET, TASK, OPT, SCALE, depth, width, method="conditioned", seed=seed).outputs
                    for seed in range(SEEDS)]
            measured.append(float(np.sqrt(np.mean((np.array(real) - limit) ** 2))))
        left.loglog(REAL, measured, "o", color=color, markersize=4)
        ratios = np.array(measured) / expected[[DEPTHS.index(depth) for depth in REAL]]
        print(f"n = {width}: measured / computed at L = {REAL}", ratios.round(2).tolist())
    left.loglog(DEPTHS, found.change, "k--", linewidth=1, label="n infinite")
    left.set(xlabel="depth L", ylabel="distance from infinite width and depth", title=f"{SEEDS} real networks a point")
    left.legend(frameon=False, fontsize=8)
    for budget, color in zip(BUDGETS, COLORS):
        right.loglog(DEPTHS, np.hypot(found.change, found.spread * (np.array(DEPTHS) / budget) ** 0.25), color=color,
                     label=f"n^2 L = {budget:.0e}")
        best = found.best(budget)
        right.loglog([best.depth], [best.error], "o", color=color, markersize=5)
        print(f"n^2 L = {budget:.0e}: {best.width} wide, {best.depth} deep, error {best.error:.4f}")
    right.set(xlabel="depth L", ylabel="error", title="fixed budgets")
    right.legend(frameon=False, fontsize=8)
    return figure


if __name__ == "__main__":
    draw().savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})
