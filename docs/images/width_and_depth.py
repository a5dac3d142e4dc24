"""Draw docs/images/width_and_depth.svg: what Tensor Programs VI's Figures 9 and 10 show, and the same for tanh; print
the numbers.

Root mean squares of layer outputs and of f after 1, 5 and 10 updates, one digit each. First row: linear networks of
depth 64, real ones of growing width against the exact lines of infinite width. Second row: those lines at growing depth
against infinite depth. Third row: tanh, where infinite width at finite depth is sampled by particles.

Takes a quarter of an hour and 6 GB on two busy cores. With a folder as argument, finished trainings are kept there and
not made again.
"""

import hashlib
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import tpcalc as tp
from tpcalc._files import code_digest
from tpcalc.studies.convergence import fit_order
from tpcalc.studies.jobs import FinishedJobs, run_jobs

matplotlib.rcParams["svg.hashsalt"] = "tpcalc"  # the same numbers give the same file

UPDATES, LOCATIONS = (1, 5, 10), (0, 0.25, 0.5, 0.75, 1)
NAMES = ("x at 0", "x at L/4", "x at L/2", "x at 3L/4", "x at L", "f")
WIDTHS, SEEDS = [2**k for k in range(7, 18)], range(4)
DEPTHS = [2**k for k in range(4, 15)]
TANH_DEPTHS, PARTICLE_SEEDS = [16, 32, 64, 128], range(4)
SHALLOW = 16


@dataclass(frozen=True)
class Training:
    """One training; depth and width may be infinite."""

    phi: str
    depth: Any
    width: Any = tp.oo
    seed: int = 0

    def run(self) -> dict[str, Any]:
        """Root mean squares, (updates, statistics), the time and the most memory of the process, in GB."""
        start, task = time.time(), tp.tasks.digits(steps=UPDATES[-1] + 1, batch=1)
        real = {} if self.width is tp.oo else {"method": "conditioned", "dtype": "float32"}
        particles = self.phi != "linear" and self.width is tp.oo and self.depth is not tp.oo
        sampled = {"samples": 4096, "batches": 2} if particles else {}
        run = tp.train(tp.ResNet(self.phi), task, tp.SGD(lr=1.0), tp.DepthScaling(0.5, 0.5), self.depth, self.width,
                       keep_nodes=LOCATIONS, **real, **sampled, **({"seed": self.seed} if real or sampled else {}))
        features = np.sqrt(np.diagonal(run.forward_covariance, axis1=1, axis2=2).T[list(UPDATES)])
        outputs = np.sqrt(np.mean(run.outputs[list(UPDATES), 0] ** 2, axis=1))
        return {"statistics": np.column_stack([features, outputs]).tolist(), "seconds": time.time() - start,
                "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}

    @property
    def cost(self) -> float:
        return float(self.width) if self.width is not tp.oo else 2.0**15

    def key(self, code: str) -> str:
        return hashlib.sha256(f"{code} {self!r} {UPDATES} {LOCATIONS}".encode()).hexdigest()


class Trainings:
    """Root mean squares of trainings, made on one executor, kept in one folder."""

    def __init__(self, executor: ProcessPoolExecutor, folder: str | None) -> None:
        self.executor, self.finished, self.code = executor, FinishedJobs(Path(folder) if folder
                                                                         else None), code_digest()
        self.seconds, self.memory = 0.0, 0.0

    def statistics(self, trainings: list[Training]) -> np.ndarray:
        """Shape (trainings, updates, statistics)."""
        jobs = [(one.key(self.code), one.cost, one) for one in trainings]
        done = run_jobs(Training.run, jobs, self.finished, self.executor, None)
        self.seconds += sum(one["seconds"] for one in done)
        self.memory = max(self.memory, *(one["memory"] for one in done))
        return np.array([one["statistics"] for one in done])

    def widths(self, phi: str, depth: int) -> np.ndarray:
        """(widths, seeds, updates, statistics)."""
        found = self.statistics([Training(phi, depth, n, seed) for n in WIDTHS for seed in SEEDS])
        return found.reshape(len(WIDTHS), len(SEEDS), *found.shape[1:])

    def particles(self, phi: str) -> np.ndarray:
        """(depths, seeds, updates, statistics) at infinite width."""
        found = self.statistics([Training(phi, depth, seed=seed) for depth in TANH_DEPTHS for seed in PARTICLE_SEEDS])
        return found.reshape(len(TANH_DEPTHS), len(PARTICLE_SEEDS), *found.shape[1:])


def sizes(difference: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Root mean squares of relative differences over all but the first axis, of features and of f: shape (2, k)."""
    square = (difference / limit) ** 2
    square = square.reshape(len(square), -1, square.shape[-1]).mean(axis=1)
    return np.sqrt([square[:, :-1].mean(axis=1), square[:, -1]])


def draw_curves(axis: Axes, values: list[int], found: np.ndarray, limit: np.ndarray, title: str, name: str,
                errors: np.ndarray | None = None) -> None:
    for k, label in enumerate(NAMES):
        axis.errorbar(values, found[:, k], None if errors is None else errors[:, k], color=f"C{k}", marker=".",
                      linewidth=1, label=label)
        axis.axhline(limit[k], color=f"C{k}", linestyle="--", linewidth=1)
    axis.set(xlabel=name)
    axis.set_title(title, fontsize=10)
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=2)


def draw_sizes(axis: Axes, values: list[int], found: np.ndarray, power: float, name: str, title: str) -> None:
    """Sizes of differences, a power to compare with, and fitted powers, which are printed."""
    print(title)
    for k, (curve, label) in enumerate(zip(found, ("features", "f"))):
        order = fit_order(np.array(values), curve)
        axis.loglog(values, curve, f"C{9 - k}o-", markersize=4,
                    label=f"{label}: {-order.order:.2f} $\\pm$ {order.uncertainty:.2f}")
        print(f"  {label}: power of {name} {-order.order:.3f} +- {order.uncertainty:.3f}; "
              + ", ".join(f"{n}: {value:.2e}" for n, value in zip(values, curve)))
    axis.loglog(values, found[1, 0] * (np.array(values) / values[0]) ** power, "k:", linewidth=1,
                label=f"{name}^({power:g})")
    axis.set(xlabel={"n": "width n", "L": "depth L"}[name])
    axis.set_title(title, fontsize=10)
    axis.set_xscale("log", base=2)
    axis.legend(frameon=False, fontsize=7)


def print_statistics(title: str, rows: dict[str, np.ndarray]) -> None:
    print(f"{title}: {', '.join(NAMES)}; after {UPDATES[-1]} updates")
    for label, row in rows.items():
        print(f"  {label:>10} " + " ".join(f"{value:.4f}" for value in row[-1]))


def rows(found: np.ndarray, values: list[int], limit: np.ndarray) -> dict[str, np.ndarray]:
    return {**{str(value): row for value, row in zip(values, found)}, "infinite": limit}


def draw_linear(above: Any, below: Any, trainings: Trainings) -> None:
    real = trainings.widths("linear", 64)
    exact = trainings.statistics([Training("linear", depth) for depth in [*DEPTHS, tp.oo]])
    wide, deep, limit = exact[DEPTHS.index(64)], exact[:-1], exact[-1]
    for j, updates in enumerate(UPDATES):
        title = f"after {updates} update" + "s" * (updates > 1)
        draw_curves(above[j], WIDTHS, real[:, 0, j], wide[j], f"linear, L = 64, {title}", "width n")
        draw_curves(below[j], DEPTHS, deep[:, j], limit[j], f"linear, infinite width, {title}", "depth L")
    draw_sizes(above[3], WIDTHS, sizes(real - wide, wide), -0.5, "n", "linear, L = 64: distance to infinite width")
    draw_sizes(below[3], DEPTHS, sizes((deep - limit)[:, None], limit), -1, "L", "linear: distance to infinite depth")
    print_statistics("linear, L = 64, by width, first seed", rows(real[:, 0], WIDTHS, wide))
    print_statistics("linear, infinite width, by depth", rows(deep, DEPTHS, limit))


def draw_tanh(axes: Any, trainings: Trainings) -> None:
    real, sampled = trainings.widths("tanh", SHALLOW), trainings.particles("tanh")
    limit = trainings.statistics([Training("tanh", tp.oo)])[0]
    deep, errors = sampled.mean(axis=1), sampled.std(axis=1, ddof=1) / np.sqrt(sampled.shape[1])
    wide = deep[0]
    after = f"after {UPDATES[-1]} updates"
    draw_curves(axes[0], WIDTHS, real[:, 0, -1], wide[-1], f"tanh, L = {SHALLOW}, {after}", "width n")
    draw_sizes(axes[1], WIDTHS, sizes(real - wide, wide), -0.5, "n", f"tanh, L = {SHALLOW}: distance to infinite width")
    draw_curves(axes[2], TANH_DEPTHS, deep[:, -1], limit[-1], f"tanh, particles, {after}", "depth L", errors[:, -1])
    draw_sizes(axes[3], TANH_DEPTHS, sizes((deep - limit)[:, None], limit), -1, "L", "tanh: distance to infinite depth")
    noise = sizes(errors[:, None], limit)
    print("  standard errors: " + "; ".join(f"{depth}: features {a:.1e}, f {b:.1e}"
                                            for depth, a, b in zip(TANH_DEPTHS, *noise)))
    print_statistics(f"tanh, L = {SHALLOW}, by width, first seed", rows(real[:, 0], WIDTHS, wide))
    print_statistics("tanh, infinite width, by depth", rows(deep, TANH_DEPTHS, limit))


def draw(path: Path, folder: str | None) -> None:
    figure = Figure(figsize=(15, 10), layout="constrained")
    axes = figure.subplots(3, 4)
    with ProcessPoolExecutor(2) as executor:
        trainings = Trainings(executor, folder)
        draw_linear(axes[0], axes[1], trainings)
        draw_tanh(axes[2], trainings)
    axes[0, 0].set_ylabel("root mean square")
    axes[1, 1].legend(frameon=False, fontsize=8, ncols=2, loc="center")
    print(f"{trainings.seconds:.0f} s in trainings, of at most {trainings.memory:.1f} GB")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(__file__).with_name("width_and_depth.svg"), sys.argv[1] if len(sys.argv) > 1 else None)
