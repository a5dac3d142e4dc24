"""Draw docs/images/finite_size_relu.svg: Depthwise Hyperparameter Transfer's Figures 5 and B.7 on relu networks that
learn features, in the paper's form: blocks W relu(x), and a read-out of relu(x^L); print the numbers.

Mean square distances of outputs, over all steps and samples, from infinite width and depth, which is sampled by common
draws: of one network by depth; of one network from infinite width at its depth; of the mean of 15 networks.

Takes ten minutes. With a file as argument the numbers are kept there, and read from there.
"""

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import tpcalc as tp
from tpcalc.interpreters.common_draws import Refinement
from tpcalc.interpreters.lowered_conditioned import conditioned
from tpcalc.interpreters.refined import at_depths
from tpcalc.propagators.depth_orders import depth_orders
from tpcalc.propagators.extrapolation import Extrapolation

matplotlib.rcParams["svg.hashsalt"] = "tpcalc"  # the same numbers give the same file

NET, SCALE, OPT = tp.ResNet("relu", "pre_nonlin", readout="relu"), tp.DepthScaling(0.5, 0.5), tp.SGD(1.0)
STEPS, BATCH, INPUTS = 8, 4, 3
PROGRAM = tp.program(NET, OPT, SCALE, batch=True, d_in=INPUTS)
COARSEST, LEVELS, BATCHES, SAMPLES = 4, 5, 48, 1024
DEPTHS = [COARSEST * 2**level for level in range(LEVELS)]
WIDTHS, SEEDS, SHOWN = [64, 256, 1024, 4096], 15, 1024
Numbers = dict[str, Any]


def given() -> tuple[tp.Task, dict[str, np.ndarray]]:
    """Four inputs and targets of either sign, at every step."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((BATCH, INPUTS)), np.sign(rng.standard_normal(BATCH))
    inputs, targets = np.broadcast_to(x, (STEPS, *x.shape)), np.broadcast_to(y, (STEPS, *y.shape))
    return tp.Task(inputs, targets), {"xi": inputs, "y": targets}


def sizes(depth: int) -> dict[str, int]:
    return {"T": STEPS, "L": depth, "B": BATCH}


def infinite_width() -> Numbers:
    """Outputs by depth, and at infinite depth with their error."""
    task, data = given()
    at = [Refinement(COARSEST, level) for level in range(LEVELS)]
    values = np.array([at_depths([(PROGRAM, sizes(one.depth)) for one in at], data, task.loss, SAMPLES, 0, batch, at,
                                 (), "f") for batch in range(BATCHES)])
    found = Extrapolation(values, np.array(depth_orders(NET, SCALE).first(LEVELS)), COARSEST)
    return {"limit": found.limit.tolist(), "error": float(np.sqrt(np.mean(found.errors**2))),
            **{str(depth): mean.tolist() for depth, mean in zip(DEPTHS, values.mean(axis=0))}}


def real_networks() -> Numbers:
    """Outputs of all seeds, by width and depth."""
    task, data = given()
    return {f"{width} {depth}": [conditioned(PROGRAM, sizes(depth), data, width, seed, task.loss).series("f").tolist()
                                 for seed in range(SEEDS)]
            for width in WIDTHS for depth in DEPTHS}


def slope(sizes: Any, values: Any) -> float:
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def square(values: Any, of: Any) -> float:
    return float(np.mean((np.asarray(values) - np.asarray(of)) ** 2))


def main() -> None:
    kept = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if kept is not None and kept.exists():
        found = json.loads(kept.read_text())
    else:
        found = {"wide": infinite_width(), "real": real_networks()}
    if kept is not None:
        kept.write_text(json.dumps(found))
    wide, limit, real, task = found["wide"], found["wide"]["limit"], found["real"], given()[0]
    figure = Figure(figsize=(12, 8.5), layout="constrained")
    loss, one, width_alone, ensemble = figure.subplots(2, 2).ravel()

    def losses(outputs: Any) -> np.ndarray:
        return task.losses(np.asarray(outputs)[..., None])

    for number, depth in enumerate(DEPTHS):
        runs = real[f"{SHOWN} {depth}"]
        loss.plot(np.mean([losses(outputs) for outputs in runs], axis=0), f"C{number}o-", label=f"L = {depth}")
    loss.plot(losses(limit), "k--", label="infinite width and depth")
    loss.set(title=f"loss by step, N = {SHOWN}", xlabel="step", yscale="log")
    few = f"L = {DEPTHS[0]} to {DEPTHS[2]}"
    for number, width in enumerate(WIDTHS):
        singles = [np.mean([square(f, limit) for f in real[f"{width} {depth}"]]) for depth in DEPTHS]
        means = [square(np.mean(real[f"{width} {depth}"], axis=0), limit) for depth in DEPTHS]
        one.loglog(DEPTHS, singles, f"C{number}o-", label=f"N = {width}")
        ensemble.loglog(DEPTHS, means, f"C{number}x-", label=f"N = {width}")
        print(f"| N = {width}, one network, {few} | L^{slope(DEPTHS[:3], singles[:3]):.2f} |")
        print(f"| N = {width}, mean of {SEEDS}, {few} | L^{slope(DEPTHS[:3], means[:3]):.2f} |")
    at_infinity = [square(wide[str(depth)], limit) for depth in DEPTHS]
    ensemble.loglog(DEPTHS, at_infinity, "k--", label="N = infinity")
    print(f"| infinite width, L = {DEPTHS[1]} to {DEPTHS[-1]} | L^{slope(DEPTHS[1:], at_infinity[1:]):.2f} |")
    print(f"| error of the limit, in square | {wide['error'] ** 2:.1e} |")
    for number, depth in enumerate(DEPTHS):
        singles = [np.mean([square(f, wide[str(depth)]) for f in real[f"{width} {depth}"]]) for width in WIDTHS]
        width_alone.loglog(WIDTHS, singles, f"C{number}o-", label=f"L = {depth}")
        print(f"| L = {depth}, from infinite width | N^{slope(WIDTHS, singles):.2f} |")
    one.set(title="from infinite width and depth, one network", xlabel="depth L")
    width_alone.set(title="from infinite width at the same depth, one network", xlabel="width N")
    ensemble.set(title=f"from infinite width and depth, mean of {SEEDS} networks", xlabel="depth L")
    for ax in (one, ensemble):
        ax.set_xticks(DEPTHS, [str(depth) for depth in DEPTHS])
        ax.minorticks_off()
    for ax in (loss, one, width_alone, ensemble):
        ax.legend(fontsize=8)
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
