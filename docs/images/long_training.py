"""Draw docs/images/long_training.svg: the best learning rate and the best weight decay against the number of steps,
at several depths and widths; print them.

Left, the rate with the least loss on a batch that is repeated. Right, the decay with the least loss of the linear
function that a batch with noisy labels teaches, in the mean over inputs: probes along the axes read the function off.
Losses at finite width are means over real networks.

Takes some minutes. With a file as argument the numbers are kept there, and read from there.
"""

import json
import sys
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import tpcalc as tp

matplotlib.rcParams["svg.hashsalt"] = "tpcalc"  # the same numbers give the same file

NET, SCALE = tp.ResNet("linear"), tp.DepthScaling(0.5, 0.5)
RATES, RATE_STEPS = 2.0 ** np.arange(-4, 0.1, 0.25), [2, 3, 5, 8, 12, 20]
DECAYS, DECAY_STEPS, RATE = np.array([0, *2.0 ** np.arange(-5, 0.1, 0.5)]), [5, 8, 12, 20, 32], 0.2
NETWORKS = {"n, L infinite": (None, tp.oo), "L = 64": (None, 64), "L = 8": (None, 8), "L = 8, n = 256": (256, 8),
            "L = 8, n = 64": (64, 8)}
SEEDS = 16
Curves = dict[str, list[list[float]]]


def repeated(inputs: np.ndarray, targets: np.ndarray, steps: int, probes: np.ndarray | None = None) -> tp.Task:
    return tp.Task(np.repeat(inputs[None], steps, 0), np.repeat(targets[None], steps, 0), probes=probes)


def rate_task() -> tp.Task:
    rng = np.random.default_rng(0)
    return repeated(rng.normal(size=(4, 2)), rng.normal(size=4), RATE_STEPS[-1])


def noisy_task() -> tuple[tp.Task, np.ndarray]:
    """Six examples of a linear function of four numbers, with labels of noise 1; the function."""
    rng = np.random.default_rng(1)
    teacher, inputs = rng.normal(size=4), rng.normal(size=(6, 4))
    return repeated(inputs, inputs @ teacher + rng.normal(size=6), DECAY_STEPS[-1], np.eye(4)), teacher


def losses(task: tp.Task, teacher: np.ndarray | None, opt: tp.SGD, width: int | None, depth: object) -> np.ndarray:
    """After every step, of the batch or of the teacher's function; what diverges has none."""
    found = []
    for seed in range(1 if width is None else SEEDS):
        try:
            run = tp.train(NET, task, opt, SCALE, depth) if width is None else tp.train(
                NET, task, opt, SCALE, depth, width=width, method="dense", seed=seed)
        except tp.Divergence:
            return np.full(task.steps, np.inf)
        found.append(run.losses if teacher is None else np.sum((run.probe_outputs[..., 0] - teacher) ** 2, axis=1) / 2)
    return np.mean(found, axis=0)


def measure() -> dict[str, Curves]:
    noisy, teacher = noisy_task()
    found: dict[str, Curves] = {"rate": {}, "decay": {}}
    for name, (width, depth) in NETWORKS.items():
        found["rate"][name] = [losses(rate_task(), None, tp.SGD(rate), width, depth).tolist() for rate in RATES]
        found["decay"][name] = [losses(noisy, teacher, tp.SGD(RATE, weight_decay=decay), width, depth).tolist()
                                for decay in DECAYS]
    return found


def draw_best(axis: Axes, curves: Curves, values: np.ndarray, steps: list[int], what: str) -> None:
    for number, (name, losses) in enumerate(curves.items()):
        best = [float(values[int(np.argmin(np.array(losses)[:, count - 1]))]) for count in steps]
        print(f"best {what}, {name}:", ", ".join(f"{value:.3g} at {count}" for count, value in zip(steps, best)))
        axis.plot(steps, best, "ks" if number == 0 else f"C{number}o", markersize=11 - 2 * number, label=name,
                  fillstyle="none" if number == 0 else "full")
    axis.set(xlabel="steps T", ylabel=f"best {what}", xscale="log", xticks=steps, xticklabels=[str(n) for n in steps])
    axis.minorticks_off()
    axis.legend(fontsize=8)


def main() -> None:
    kept = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    found = json.loads(kept.read_text()) if kept is not None and kept.exists() else measure()
    if kept is not None:
        kept.write_text(json.dumps(found))
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_best(left, found["rate"], RATES, RATE_STEPS, "learning rate")
    draw_best(right, found["decay"], DECAYS, DECAY_STEPS, "weight decay")
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
