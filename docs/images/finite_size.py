"""Draw docs/images/finite_size.svg: what Depthwise Hyperparameter Transfer's Figures 5, 6, 7 and B.7 show, on networks
that are solved; print the numbers.

Tangent kernels of relu networks by angle and depth; feature kernels of the linear network before and after a step;
errors of widths and depths, of one network and of an ensemble, exact to leading order in 1 / N, and of 100 real ones.

Takes a minute. With a file as argument the numbers are kept there, and read from there.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import tpcalc as tp

matplotlib.rcParams["svg.hashsalt"] = "tpcalc"  # the same numbers give the same file

LINEAR, RELU = tp.ResNet("linear"), tp.ResNet("relu", "pre_nonlin")
SCALE, TASK, OPT = tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7]), tp.SGD(0.3)
STEP, LOCATIONS = tp.Task([1, 1], [1, 1]), np.linspace(0, 1, 51)
ANGLES, NTK_DEPTHS = np.linspace(-np.pi, np.pi, 41), [1, 2, 4, 8, 16, 32, 64, 128, 256]
STEP_DEPTHS, SIZE_DEPTHS = [5, 15, 50, 500], [4, 16, 64]
WIDTHS, REAL, SEEDS = [2**k for k in range(4, 15)], [16, 64, 256], 100
Numbers = dict[str, Any]


def tangent_kernels() -> Numbers:
    inputs = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
    first = np.array([[1.0, 0.0]])
    found = {str(depth): np.asarray(tp.kernel_fn(RELU, depth=depth)(first, inputs, get="ntk"))[0].tolist()
             for depth in (*NTK_DEPTHS, tp.oo)}
    return found


def step_kernels() -> Numbers:
    found = {}
    for depth in (*STEP_DEPTHS, tp.oo):
        locations = LOCATIONS if depth is tp.oo else np.arange(depth + 1) / depth
        kernel = tp.train(LINEAR, STEP, tp.SGD(1.0), SCALE, depth, keep_nodes=locations).forward_covariance
        found[str(depth)] = [list(locations), kernel[:, 0, 0].tolist(), (kernel[:, 1, 1] - kernel[:, 0, 0]).tolist()]
    return found


def errors() -> Numbers:
    """Mean squares over outputs: of one network, of the mean, by depth; then of real ones."""
    limit = tp.train(LINEAR, TASK, OPT, SCALE, tp.oo).outputs
    found: Numbers = {}
    for depth in SIZE_DEPTHS:
        run = tp.train(LINEAR, TASK, OPT, SCALE, depth)
        variance, bias = run.fluctuations.cumulant(2), run.fluctuations.bias
        mean = [float(np.mean((run.outputs - limit + bias / width) ** 2)) for width in WIDTHS]
        one = [float(np.mean(variance)) / width + error for width, error in zip(WIDTHS, mean)]
        real = []
        for width in REAL:
            outputs = np.array([tp.train(LINEAR, TASK, OPT, SCALE, depth, width=width, method="dense",
                                         seed=seed).outputs for seed in range(SEEDS)])
            real.append([float(np.mean((outputs - limit) ** 2)), float(np.mean((outputs.mean(0) - limit) ** 2))])
        found[str(depth)] = [one, mean, real]
    return found


def slope(sizes: Any, values: Any) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def main() -> None:
    kept = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if kept is not None and kept.exists():
        found = json.loads(kept.read_text())
    else:
        found = {"ntk": tangent_kernels(), "step": step_kernels(), "errors": errors()}
    if kept is not None:
        kept.write_text(json.dumps(found))
    figure = Figure(figsize=(12, 7.5), layout="constrained")
    ntk, rate, step, size = figure.subplots(2, 2).ravel()
    for depth in ("1", "4", "16", "oo"):
        ntk.plot(ANGLES, found["ntk"][depth], "k--" if depth == "oo" else "-", label=f"L = {depth}")
    ntk.set(title="tangent kernel of relu at initialization", xlabel="angle between inputs")
    limit = np.array(found["ntk"]["oo"])
    squares = [float(np.mean((np.array(found["ntk"][str(depth)]) - limit) ** 2)) for depth in NTK_DEPTHS]
    rate.loglog(NTK_DEPTHS, squares, "o-", label=f"L^{slope(NTK_DEPTHS[4:], squares[4:]):.2f}")
    rate.set(title="its mean square distance from infinite depth", xlabel="depth")
    print(f"| tangent kernel, mean square over angles | L^{slope(NTK_DEPTHS[4:], squares[4:]):.3f} |")
    for number, (depth, (locations, before, change)) in enumerate(found["step"].items()):
        style = "k--" if depth == "oo" else f"C{number}-"
        step.plot(locations, before, style, lw=1)
        step.plot(locations, change, style, label=f"L = {depth}")
    step.set(title="feature kernel before a step (thin), and its change", xlabel="layer time")
    last = [abs(found["step"][str(depth)][2][-1] - found["step"]["oo"][2][-1]) for depth in STEP_DEPTHS]
    print(f"| change of the feature kernel at the last layer | L^{slope(STEP_DEPTHS[1:], last[1:]):.3f} |")
    for number, (depth, (one, mean, real)) in enumerate(found["errors"].items()):
        size.loglog(WIDTHS, one, f"C{number}-", label=f"L = {depth}, one network")
        size.loglog(WIDTHS, mean, f"C{number}:", label="ensemble")
        size.loglog(REAL, [a for a, _ in real], f"C{number}o")
        size.loglog(REAL, [b for _, b in real], f"C{number}x")
        print(f"| L = {depth}, one network | N^{slope(WIDTHS[:6], one[:6]):.2f} |")
    means = [found["errors"][str(depth)][1][-1] for depth in SIZE_DEPTHS]
    print(f"| ensemble of the widest | L^{slope(SIZE_DEPTHS, means):.2f} |")
    size.set(title="mean square distance of f from infinite width and depth", xlabel="width N")
    for ax in (ntk, rate, step, size):
        ax.legend(fontsize=8)
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
