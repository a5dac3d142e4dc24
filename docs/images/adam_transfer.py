"""Draw docs/images/adam_transfer.svg: what Tensor Programs VI's Figures 11 and 13 show, for Adam on digits; print its
numbers.

Loss on the last eight of 28 batches of 32 digits against the learning rate, at depth scalings that agree at depth 8;
mean and standard error over seeds. From the same initial weights tp.methods.Dense trains the same networks, number by
number, which is checked first on small ones. The loop is written out here, in float32 and with draws by name that do
not change with the library.

Takes a quarter of an hour on two busy cores. With a folder as argument, finished trainings are kept there and not made
again.
"""

import hashlib
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import tpcalc as tp
from tpcalc.studies.convergence import fit_order
from tpcalc.studies.jobs import FinishedJobs, run_jobs
from tpcalc.studies.optimum import grid_optimum

matplotlib.rcParams["svg.hashsalt"] = "tpcalc"  # the same numbers give the same file

BASE, DEPTHS, WIDTH, SEEDS = 8, [2**k for k in range(3, 8)], 128, range(4)
STEPS, BATCH, LAST = 28, 32, 8
SCALINGS = {"Depth-muP (1/2, 1/2)": (0.5, 0.5), "(1/2, 0)": (0.5, 0), "SP (0, 0)": (0, 0)}
RANGES = {"Depth-muP (1/2, 1/2)": (-3, 2.5), "(1/2, 0)": (-5, 2.5), "SP (0, 0)": (-8, 2.5)}  # powers of 2
NETS = {"relu": ("relu", None, list(SCALINGS)), "abs, rms norm": ("abs", "rms", list(SCALINGS)[:2])}
OPT = tp.Adam(lr=1.0, beta1=0.9, beta2=0.999, eps=1e-8)
PHI = {"relu": (lambda h: np.maximum(h, 0), lambda h: np.heaviside(h, 0)), "abs": (np.abs, np.sign)}


@cache
def digits(steps: int = STEPS, batch: int = BATCH) -> tp.Task:
    task = tp.tasks.digits(steps, batch)
    return tp.Task(task.inputs, task.targets, loss="softmax")


def drawn(seed: int, name: str, n: int) -> np.ndarray:
    """Standard normal entries of a vector or a matrix, by its name."""
    return np.random.default_rng([seed, *name.encode()]).standard_normal((n, n) if name[0] == "W" else n)


@dataclass(frozen=True)
class Training:
    """One network, frozen read-in and read-out, trained by Adam: x + eps MS(phi(W x)), or of x / rms(x)."""

    phi: str
    norm: str | None
    scaling: tuple[float, float]
    depth: int
    rate: float
    seed: int
    width: int = WIDTH
    dtype: str = "float32"

    @property
    def scale(self) -> tp.DepthScaling:
        """Equal at depth 8, where the branch multiplier is 1/sqrt(8)."""
        return tp.DepthScaling(*self.scaling, branch=BASE**-0.5, base_depth=BASE)

    def weights(self, task: tp.Task) -> dict[str, np.ndarray]:
        """What training starts from, as tp.methods.Dense takes it."""
        n = self.width
        return {"U": np.array([drawn(self.seed, f"U[{k}]", n) for k in range(task.d_in)]),
                "nV": np.array([drawn(self.seed, f"nV[{k}]", n) for k in range(task.d_out)]),
                "W": np.array([drawn(self.seed, f"W[0, {k}]", n) for k in range(1, self.depth + 1)]) / np.sqrt(n)}

    def outputs(self, task: tp.Task) -> np.ndarray:
        """f before every update, (steps, batch, d_out); Adam on gradients of order one, updates over n."""
        n, eps = self.width, self.scale.multiplier(self.depth)
        size = self.rate * self.scale.update_size(self.depth) / n
        U, nV, W = (array.astype(self.dtype) for array in self.weights(task).values())
        m, v, found = np.zeros_like(W), np.zeros_like(W), np.zeros_like(task.targets)
        phi, slope = PHI[self.phi]
        for t in range(task.steps):
            x, kept = task.inputs[t].astype(self.dtype) @ U, []
            for k in range(self.depth):
                r = np.sqrt(np.mean(x**2, axis=1, keepdims=True)) if self.norm else 1.0
                h = x / r @ W[k].T
                kept.append((x / r, r, h))
                x = x + eps * centered(phi(h))
            found[t] = x @ nV.T / n
            delta = task.loss.derivative(found[t], task.targets[t]).astype(self.dtype) @ nV
            first, second = 1 / (1 - OPT.beta1 ** (t + 1)), 1 / (1 - OPT.beta2 ** (t + 1))
            for k in reversed(range(self.depth)):
                z, r, h = kept[k]
                dh = slope(h) * centered(delta)
                dz = dh @ W[k]
                delta = delta + eps * (dz - z * np.mean(z * dz, axis=1, keepdims=True) if self.norm else dz) / r
                gradient = dh.T @ z
                gradient /= task.batch
                m[k] *= OPT.beta1
                m[k] += (1 - OPT.beta1) * gradient
                gradient *= gradient
                v[k] *= OPT.beta2
                v[k] += (1 - OPT.beta2) * gradient
                W[k] -= size * first * m[k] / (np.sqrt(second * v[k]) + OPT.eps)
        return found

    def result(self) -> tuple[float, float]:
        """The mean loss of the last batches, and the time."""
        start, task = time.time(), digits()
        with np.errstate(all="ignore"):
            loss = float(np.mean(task.losses(self.outputs(task))[-LAST:]))
        return loss, time.time() - start

    def key(self) -> str:
        return hashlib.sha256(f"{self!r} {OPT!r} {STEPS} {BATCH} {LAST}".encode()).hexdigest()


def centered(values: np.ndarray) -> np.ndarray:
    return values - values.mean(axis=1, keepdims=True)


def check() -> None:
    """The loop above is the library's training."""
    task = digits(3, 2)
    for phi, norm in (("relu", None), ("abs", "rms")):
        mine = Training(phi, norm, (0.5, 0), 4, 0.5, 1, 16, "float64")
        run = tp.train(tp.ResNet(phi, norm=norm), task, replace(OPT, lr=mine.rate), mine.scale, mine.depth,
                       width=mine.width, method=tp.methods.Dense(weights=mine.weights(task)))
        difference = float(np.max(np.abs(run.outputs - mine.outputs(task))))
        print(f"{phi}, norm {norm}: largest difference from tp.train {difference:.0e}")
        if difference > 1e-12:
            raise SystemExit("the loop of this script is not the training of tp.train")


@dataclass(frozen=True)
class Sweep:
    """rates: (k,); losses: (depths, seeds, k)."""

    rates: np.ndarray
    losses: np.ndarray

    def optima(self) -> tuple[np.ndarray, np.ndarray]:
        """The best learning rate of every depth and seed, and whether the grid brackets it."""
        found = [grid_optimum(self.rates, curve) for curves in self.losses for curve in curves]
        shape = self.losses.shape[:2]
        return np.reshape([o.value for o in found], shape), np.reshape([o.bracketed for o in found], shape)

    def flanks(self, level: float = 1.0) -> np.ndarray:
        """The least learning rate whose loss is ``level``, of every depth and seed, sharper than a flat minimum; NaN
        where the grid does not reach it."""
        found = np.full(self.losses.shape[:2], np.nan)
        for location in np.ndindex(found.shape):
            curve = self.losses[location]
            k = int(np.argmax(curve < level))
            if k > 0:
                found[location] = np.exp(np.interp(-level, -curve[k - 1:k + 1], np.log(self.rates[k - 1:k + 1])))
        return found

    def power(self, least: int = BASE) -> tuple[float, float]:
        """The power of L of the best learning rate, from a depth on: mean over seeds, and its standard error."""
        return mean_power(*self.optima(), least)

    def mean(self) -> tuple[np.ndarray, np.ndarray]:
        """Losses averaged over seeds, and their standard errors, (depths, k); NaN where a seed blows up."""
        losses = np.where(np.isfinite(self.losses), self.losses, np.nan)
        return losses.mean(axis=1), losses.std(axis=1, ddof=1) / np.sqrt(len(SEEDS))


def mean_power(values: np.ndarray, good: np.ndarray, least: int) -> tuple[float, float]:
    """Fitted for every seed, from the depths where its value is good."""
    depths, chosen = np.array(DEPTHS), good & (np.array(DEPTHS)[:, None] >= least)
    powers = [-fit_order(depths[use], one[use]).order for one, use in zip(values.T, chosen.T)]
    return float(np.mean(powers)), float(np.std(powers, ddof=1) / np.sqrt(len(powers)))


def sweep(phi: str, norm: str | None, name: str, executor: ProcessPoolExecutor, finished: FinishedJobs) -> Sweep:
    rates = 2.0 ** np.arange(RANGES[name][0], RANGES[name][1] + 0.1, 0.5)
    trainings = [Training(phi, norm, SCALINGS[name], depth, float(rate), seed)
                 for depth in DEPTHS for seed in SEEDS for rate in rates]
    jobs = [(one.key(), float(one.depth), one) for one in trainings]
    done = run_jobs(Training.result, jobs, finished, executor, None)
    print(f"{phi}, {name}: {sum(seconds for _, seconds in done):.0f} s in {len(done)} trainings", flush=True)
    losses = [loss if np.isfinite(loss) else np.inf for loss, _ in done]
    return Sweep(rates, np.reshape(losses, (len(DEPTHS), len(SEEDS), -1)))


def draw_losses(axis: Axes, found: Sweep, title: str) -> None:
    for depth, mean, error in zip(DEPTHS, *found.mean()):
        color = matplotlib.colormaps["viridis"](DEPTHS.index(depth) / len(DEPTHS))
        axis.errorbar(found.rates, mean, error, color=color, marker=".", linewidth=1, label=f"L = {depth}")
        axis.plot(found.rates[np.nanargmin(mean)], np.nanmin(mean), "x", color=color)
    axis.set_xscale("log", base=2)
    axis.set(xlabel="learning rate", ylim=(0.1, 2.2), title=title)


def draw_optima(axis: Axes, found: dict[str, Sweep]) -> None:
    for k, (name, one) in enumerate(found.items()):
        locations = np.log2(np.where(one.optima()[1], one.optima()[0], np.nan))
        power, error = one.power()
        axis.errorbar(DEPTHS, locations.mean(axis=1), locations.std(axis=1, ddof=1) / np.sqrt(len(SEEDS)),
                      color=f"C{k}",
                      marker="o", markersize=4, label=f"{name}: {power:.2f} $\\pm$ {error:.2f}")
    axis.set_xscale("log", base=2)
    axis.set(xlabel="depth L", ylabel="best learning rate, power of 2", title="best learning rate, and its power of L")
    axis.legend(frameon=False, fontsize=7)


def print_optima(title: str, found: Sweep) -> None:
    """By depth: the best rate, the least mean loss, and the mean loss at the rate that is best at depth 8."""
    (values, inside), (means, errors) = found.optima(), found.mean()
    tuned = int(np.nanargmin(means[0]))
    print(f"{title}: depth, best learning rate, least loss, loss at the best rate of depth {BASE}")
    for depth, value, good, mean, error in zip(DEPTHS, values, inside, means, errors):
        best = int(np.nanargmin(mean))
        optimum = np.exp(np.mean(np.log(value)))
        print(f"  {depth:>5} {optimum:.3f} {mean[best]:.3f} +- {error[best]:.3f} {mean[tuned]:.3f}"
              + " at the end of the grid" * (not good.all()))
    print("  power of L: {:.2f} +- {:.2f}".format(*found.power())
          + ", from L = 32 on: {:.2f} +- {:.2f}".format(*found.power(32)))
    flanks = found.flanks()
    print("  learning rate where the loss falls below 1: " + " ".join(f"{rate:.3f}" for rate in flanks.mean(axis=1))
          + "; power of L: {:.2f} +- {:.2f}".format(*mean_power(flanks, np.isfinite(flanks), BASE))
          + ", from L = 32 on: {:.2f} +- {:.2f}".format(*mean_power(flanks, np.isfinite(flanks), 32)))


def draw(path: Path, folder: str | None) -> None:
    figure = Figure(figsize=(12, 7.6), layout="constrained")
    axes: Any = figure.subplots(2, 3).ravel()
    finished, found = FinishedJobs(Path(folder) if folder else None), dict[str, Sweep]()
    with ProcessPoolExecutor(2) as executor:
        for net, (phi, norm, names) in NETS.items():
            for name in names:
                found[f"{net}, {name}"] = sweep(phi, norm, name, executor, finished)
    for axis, (title, one) in zip(axes, found.items()):
        draw_losses(axis, one, title)
        print_optima(title, one)
    draw_optima(axes[-1], found)
    axes[0].set_ylabel("loss")
    axes[0].legend(frameon=False, fontsize=7)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    check()
    draw(Path(__file__).with_name("adam_transfer.svg"), sys.argv[1] if len(sys.argv) > 1 else None)
