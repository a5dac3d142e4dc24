"""Draw docs/images/transfer.svg: what Tensor Programs VI's Figures 2, 11, 12 and 14 show, exactly, and print its
numbers.

Above: loss of the last of ten steps on digits against the learning rate, at four depth scalings that agree at depth 8.
Below: the best learning rate against depth, on digits and on a small task; the loss against the block multiplier.

Takes some minutes on two cores. With a folder as argument, finished trainings are kept there and not made again.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import tpcalc as tp
from tpcalc.studies.optimum import grid_optimum

matplotlib.rcParams["svg.hashsalt"] = "tpcalc"  # the same numbers give the same file

BASE = 8
DEPTHS = [2**k for k in range(3, 11)]
RANGES = {"Depth-muP (1/2, 1/2)": (-2.5, 1.0), "(1/2, 0)": (-5.0, 1.0), "ODE (1, 0)": (-2.5, 2.5)}  # powers of 2
NAMES = {"Depth-muP (1/2, 1/2)": (0.5, 0.5), "(1/2, 0)": (0.5, 0), "ODE (1, 0)": (1, 0), "SP (0, 0)": (0, 0)}
ONE_BATCH = np.random.default_rng(0).normal(size=(4, 2))
SMALL = tp.Task(np.tile(ONE_BATCH, (4, 1, 1)), np.tile(ONE_BATCH[:, :1] - ONE_BATCH[:, 1:], (4, 1, 1)))
DIGITS = tp.tasks.digits(steps=10, batch=64)


def scaling(name: str, multiplier: float = 1.0) -> tp.DepthScaling:
    """Equal at depth 8, where the branch multiplier is 1/sqrt(8)."""
    return tp.DepthScaling(*NAMES[name], branch=multiplier / np.sqrt(BASE), base_depth=BASE)


class Sweeps:
    """Transfers on one executor, with what is finished in one folder."""

    def __init__(self, executor: ProcessPoolExecutor, folder: str | None) -> None:
        self.executor, self.folder = executor, folder

    def run(self, task: tp.Task, scalings: list[tp.DepthScaling], depths: list,
            rates: np.ndarray) -> tp.studies.Transfer:
        net, opt = tp.ResNet("linear"), tp.SGD(lr=1.0)
        return tp.transfer(net, task, opt, scalings, depths, rates, self.executor, self.folder)

    def digits(self, name: str) -> list[tp.studies.Transfer]:
        """Finite depths, then infinite depth, which costs most where learning rates are far too large."""
        if name == "SP (0, 0)":
            return [self.run(DIGITS, [scaling(name)], DEPTHS[:3], 2.0 ** np.arange(-9, 1.1, 1))]
        rates = 2.0 ** np.arange(RANGES[name][0], RANGES[name][1] + 0.1, 0.5)
        found = [self.run(DIGITS, [scaling(name)], DEPTHS, rates)]
        return found if found[0].reasons[0] else [*found, self.run(DIGITS, [scaling(name)], [tp.oo], rates[rates < 2])]

    def small(self, name: str) -> list[tp.studies.Transfer]:
        depths, lowest = (DEPTHS[:4], -18) if name == "SP (0, 0)" else ([2**k for k in range(3, 15)], -9)
        found = [self.run(SMALL, [scaling(name)], depths, 2.0 ** np.arange(lowest, 0.6, 0.25))]
        return found if found[0].reasons[0] else [
            *found, self.run(SMALL, [scaling(name)], [tp.oo], 2.0 ** np.arange(-4, 0.6, 0.25))]


def color(depth: object) -> object:
    return "k" if depth is tp.oo else matplotlib.colormaps["viridis"](DEPTHS.index(depth) / len(DEPTHS))


def draw_losses(axis: Axes, found: list[tp.studies.Transfer], name: str) -> None:
    for sweep in found:
        for j, depth in enumerate(sweep.depths):
            label = "infinite depth" if depth is tp.oo else f"L = {depth}"
            losses = np.where(np.isfinite(sweep.losses[0, j]), sweep.losses[0, j], np.nan)
            axis.semilogx(sweep.learning_rates, losses, color=color(depth), marker=".", label=label,
                          linestyle="--" if depth is tp.oo else "-", base=2)
            if sweep.bracketed[0, j]:
                axis.plot(sweep.optimum[0, j], sweep.best_loss[0, j], "x", color=color(depth))
    axis.set(xlabel="learning rate", ylim=(0.24, 0.5), title=name)


def draw_optima(axis: Axes, found: dict[str, list[tp.studies.Transfer]], title: str) -> None:
    for k, (name, sweeps) in enumerate(found.items()):
        inside, depths = sweeps[0].bracketed[0], np.array(sweeps[0].depths, dtype=float)
        axis.loglog(depths[inside], sweeps[0].optimum[0][inside], f"C{k}o-", label=name)
        if len(sweeps) > 1 and sweeps[1].bracketed[0, 0]:
            axis.axhline(sweeps[1].optimum[0, 0], color=f"C{k}", linestyle="--", linewidth=1)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)
    axis.set(xlabel="depth L", ylabel="best learning rate", title=title)


def draw_multipliers(axis: Axes, sweeps: Sweeps) -> None:
    """Figure 14: Depth-muP, a learning rate, and the constant in front of the branches."""
    multipliers, depths = 2.0 ** np.arange(-2, 1.6, 0.5), [8, 32, 128, 512]
    scalings = [scaling("Depth-muP (1/2, 1/2)", a) for a in multipliers]
    finite = sweeps.run(DIGITS, scalings, depths, np.array([0.5])).losses[:, :, 0]
    limit = sweeps.run(DIGITS, scalings[:-2], [tp.oo], np.array([0.5])).losses[:, 0, 0]
    print("best block multiplier a, relative to 1/sqrt(8) at depth 8, and the least loss")
    for j, depth in enumerate([*depths, tp.oo]):
        values, losses = (multipliers[:-2], limit) if depth is tp.oo else (multipliers, finite[:, j])
        best = grid_optimum(values, losses)
        print(f"  {str(depth):>5} {best.value:.4f} {best.loss:.5f}")
        axis.semilogx(values, np.where(np.isfinite(losses), losses, np.nan), marker=".", color=color(depth), base=2,
                      linestyle="--" if depth is tp.oo else "-")
    axis.set(xlabel="block multiplier a, over that at depth 8", ylabel="loss", title="Depth-muP", ylim=(0.24, 0.5))


def draw(path: Path, folder: str | None) -> None:
    figure = Figure(figsize=(12, 7.2), layout="constrained")
    rows: Any = figure.subfigures(2, 1)
    above, below = rows
    losses, others = above.subplots(1, 4, sharey=True), below.subplots(1, 3)
    with ProcessPoolExecutor(2) as executor:
        sweeps = Sweeps(executor, folder)
        digits = {name: sweeps.digits(name) for name in NAMES}
        small = {name: sweeps.small(name) for name in NAMES}
        draw_multipliers(others[2], sweeps)
    for axis, (name, found) in zip(losses, digits.items()):
        draw_losses(axis, found, name)
    losses[0].set_ylabel("loss")
    losses[0].legend(frameon=False, fontsize=7)
    draw_optima(others[0], digits, "digits")
    draw_optima(others[1], small, "small task")
    others[0].legend(frameon=False, fontsize=8)
    for title, both in (("digits", digits), ("small task", small)):
        for name, parts in both.items():
            print(f"{title}, {name}: depth, best learning rate, least loss")
            for row in (row for part in parts for row in part.rows):
                print(f"  {row['depth']:>5} {row['optimum']:.5f} {row['loss']:.5f}"
                      + " at the end of the grid" * (not row["bracketed"]))
            print(f"  power of L: {-parts[0].drift[0].order:.3f} +- {parts[0].drift[0].uncertainty:.3f}")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(__file__).with_name("transfer.svg"), sys.argv[1] if len(sys.argv) > 1 else None)
