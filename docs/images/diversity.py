"""Draw docs/images/diversity.svg, what Tensor Programs VI's Figures 18 and 19 show, exactly, and print numbers it is
drawn from.

Above: d(eps) between layer times p and p + eps, over its value at eps = 1/64. Below: divided by eps^(1/2) too, at three
steps; a diversity exponent of 1/2 is a horizontal line there.
"""

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import tpcalc as tp

matplotlib.rcParams["svg.hashsalt"] = "tpcalc"  # the same numbers give the same file

P, STEPS, SMALLEST = 0.25, (1, 5, 19), 1 / 64
DEPTHS = (*(2**k for k in range(6, 15, 2)), tp.oo)
SCALINGS = {"Depth-muP (1/2, 1/2)": tp.DepthScaling(0.5, 0.5), "ODE (1, 0)": tp.DepthScaling(1, 0)}
Curve = tuple[np.ndarray, np.ndarray]


def curves(scale: tp.DepthScaling) -> dict[tuple[object, int], Curve]:
    """(depth, step) -> (eps, d(eps)), from one layer, and in the limit from 2^-14, to a half."""
    task, found = tp.tasks.digits(steps=20, batch=1), {}
    for depth in DEPTHS:
        run = tp.train(tp.ResNet("linear"), task, tp.SGD(lr=1.0), scale, depth, keep_nodes="all")
        eps = 2.0 ** -np.arange(1.0, np.log2(float(min(depth, DEPTHS[-2]))) + 1)[::-1]
        for t in STEPS:
            found[depth, t] = eps, run.feature_difference(t, P, eps)
    return found


def at(curve: Curve, eps: float) -> float:
    return float(curve[1][curve[0] == eps][0])


def draw_18(axis: Axes, found: dict[tuple[object, int], Curve], name: str) -> None:
    for depth in DEPTHS:
        eps, d = found[depth, STEPS[-1]]
        style = {"color": "k", "linestyle": "--"} if depth is tp.oo else {"marker": ".", "markersize": 4}
        axis.loglog(eps, d / at((eps, d), SMALLEST), label=_label(depth), **style)
    for power, text in ((0.5, "eps^(1/2)"), (1.0, "eps")):
        axis.loglog(eps, (eps / SMALLEST) ** power, ":", color="0.6", linewidth=1)
        axis.annotate(text, (eps[1], (eps[1] / SMALLEST) ** power), color="0.4", fontsize=8)
    axis.set(xlabel="eps", ylabel="d(eps), 1 at eps = 1/64", title=f"{name}, step {STEPS[-1]}")
    axis.legend(frameon=False, fontsize=8)


def draw_19(axis: Axes, found: dict[tuple[object, int], Curve]) -> None:
    for t, style in zip(STEPS, (":", "--", "-")):
        for depth, color in ((DEPTHS[0], "C0"), (DEPTHS[2], "C2"), (tp.oo, "k")):
            eps, d = found[depth, t]
            large = eps >= SMALLEST
            scaled = d / np.sqrt(eps) / at((eps, d / np.sqrt(eps)), SMALLEST)
            label = _label(depth) if t == STEPS[-1] else f"step {t}" if depth is tp.oo else None
            axis.semilogx(eps[large], scaled[large], linestyle=style, color=color, label=label)
    axis.set(xlabel="eps", ylabel="d(eps) / eps^(1/2), 1 at eps = 1/64", title=f"steps {', '.join(map(str, STEPS))}",
             ylim=(0.8, 6.0))
    axis.legend(frameon=False, fontsize=8)


def _label(depth: object) -> str:
    return "infinite depth" if depth is tp.oo else f"L = {depth}"


def draw(path: Path) -> None:
    figure = Figure(figsize=(9, 7.2), layout="constrained")
    axes = figure.subplots(2, 2)
    for column, (name, scale) in zip(axes.T, SCALINGS.items()):
        found = curves(scale)
        draw_18(column[0], found, name)
        draw_19(column[1], found)
        print(f"{name}: d(eps) / d(1/64) at eps = 1/16 and 1/4, step by step")
        for t in STEPS:
            ratios = ((depth, [at(found[depth, t], eps) / at(found[depth, t], SMALLEST) for eps in (1 / 16, 1 / 4)])
                      for depth in DEPTHS)
            print(f"  step {t:2}: " + "; ".join(f"{_label(depth)}: {a:.4f}, {b:.4f}" for depth, (a, b) in ratios))
    for axis in axes.flat:
        axis.set_xscale("log", base=2)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(__file__).with_name("diversity.svg"))
