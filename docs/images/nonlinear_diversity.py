"""Draw docs/images/nonlinear_diversity.svg: what Tensor Programs VI's Figures 3, 4, 18 and 20 ask, in cases that are
solved, and print its numbers and how long it took.

Above: correlations of gradients of neighboring layers against depth, with the derived limits; d(eps) of relu networks
at two depth scalings. Below: drift against noise for relu and abs, as inputs of different steps are more alike, and
d(eps) / eps^(1/2) at two points of it; the least loss on digits against depth. Takes some minutes on two cores.
"""

import time
from pathlib import Path
from typing import Any, Callable

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import brentq

import tpcalc as tp
from tpcalc.interpreters import particles
from tpcalc.interpreters.training import Training as Job
from tpcalc.results import short_pieces
from tpcalc.studies.between_layers import measured_correlation

matplotlib.rcParams["svg.hashsalt"] = "tpcalc"  # the same numbers give the same file

DEPTH_MUP, ODE, P = tp.DepthScaling(0.5, 0.5), tp.DepthScaling(1, 0), 0.25
LINE = tp.Task([1, 0.8, -0.6, 1.1], [1, -0.7, 0.5, 1.2])
GRADIENTS = {  # (phi, block, matrix) -> the vectors d (x) y of its gradient
    ("linear", "post_nonlin", "W"): ("dx", "x"), ("relu", "pre_nonlin", "W"): ("dx", "z"),
    ("tanh", "post_nonlin", "W"): ("dh", "x"),
    ("relu", "post_nonlin", "W"): ("dh", "x"), ("relu", "mlp", "W2"): ("dx", "z"),
    ("abs", "post_nonlin", "W"): ("dh", "x")}
DIGITS, RATES, WIDTH, SEEDS = tp.tasks.digits(steps=10, batch=8), 2.0 ** np.arange(-1, 4), 512, (0, 1)
BLOCKS = {"relu": ("relu", False), "abs": ("abs", False), "relu before W": ("relu", True)}
Function = Callable[[np.ndarray], np.ndarray]
PHI: dict[str, tuple[Function, Function]] = {"relu": (lambda h: np.maximum(h, 0), lambda h: (h > 0).astype(h.dtype)),
                                             "abs": (np.abs, np.sign)}


def neighbors(phi: str, block: str, of: tuple[str, str], depth: int, t: int = 1) -> float:
    """The correlation of gradients of layers l and l + 1 after an update, mean over l."""
    job = Job(tp.ResNet(phi, block=block), LINE, tp.SGD(1.0), DEPTH_MUP, depth)
    run = particles(job.program(), job.sizes(), job.data(), samples=1024, batches=4, keep=of)
    return float(np.mean(measured_correlation(run, of, depth, t)))


def draw_correlations(axis: Axes) -> None:
    depths = [8, 16, 32]
    tanh = tp.train(tp.ResNet("tanh"), LINE, tp.SGD(1.0), DEPTH_MUP, tp.oo)
    variance = float(tanh.forward_covariance[:, 1, 1].mean())
    print("correlation of neighbors' gradients at depths 8, 16, 32, and derived")
    for k, ((phi, block, matrix), of) in enumerate(GRADIENTS.items()):
        found = [neighbors(phi, block, of, depth) for depth in depths]
        derived = tp.theory.gradient_correlation(tp.ResNet(phi, block=block), variance)[matrix].value
        axis.plot(depths, found, f"C{k}.-", label=f"{phi}, {block}" + f", {matrix}" * (matrix != "W"))
        axis.axhline(derived, color=f"C{k}", linestyle="--", linewidth=1)
        print(f"  {phi:>6} {block:>4} {matrix}: {', '.join(f'{x:.3f}' for x in found)}; {derived:.4f}")
    axis.set_xscale("log", base=2)
    axis.set(xlabel="depth L", ylabel="correlation", title="gradients of neighboring layers", ylim=(-0.05, 1.4))
    axis.legend(frameon=False, fontsize=8, loc="upper center", ncols=2)


def draw_scaling(axis: Axes, name: str, scale: tp.DepthScaling, depths: tuple[Any, ...]) -> None:
    """Figure 18, relu: d(eps) after three updates over its value at 1/16."""
    print(f"{name}, relu: d(eps) / d(1/16) at eps = 1/8, 1/4, 1/2")
    for depth in depths:
        limit = depth is tp.oo
        more = {} if limit else {"width": WIDTH, "method": "conditioned"}
        run = tp.train(tp.ResNet("relu"), LINE, tp.SGD(1.0), scale, depth, keep_nodes="all", **more)
        eps = 2.0 ** -np.arange(1.0, np.log2(256 if limit else depth) + 1)[::-1]
        d = run.feature_difference(LINE.steps - 1, P, eps)
        d = d / d[-4]
        axis.loglog(eps, d, "k--" if limit else ".-", label="infinite depth" if limit else f"L = {depth}")
        print(f"  {str(depth):>4}: {', '.join(f'{x:.3f}' for x in d[-3:])}")
    for power in (0.5, 1.0):
        axis.loglog(eps, (16 * eps) ** power, ":", color="0.6", linewidth=1)
    axis.set_xscale("log", base=2)
    axis.set(xlabel="eps", ylabel="d(eps), 1 at eps = 1/16", title=f"relu, {name}")
    axis.legend(frameon=False, fontsize=8)


def correlated(r: float, steps: int) -> tp.Task:
    """A new input every step, any two of correlation r."""
    e = np.eye(steps + 1)
    x = np.sqrt(r) * e[0] + np.sqrt(1 - r) * e[1:]
    return tp.Task(x[:, None, :], np.ones((steps, 1, 1)))


def trained(phi: str, r: float, steps: int) -> tp.Run:
    return tp.train(tp.ResNet(phi), correlated(r, steps), tp.SGD(1.0), DEPTH_MUP, tp.oo, keep_nodes="all")


def draw_drift(axis: Axes) -> None:
    """Figure 20: drift over noise."""
    correlations = np.arange(0.1, 0.85, 0.1)

    def ratio(phi: str, r: float, steps: int) -> float:
        return 1 / short_pieces(trained(phi, r, steps), steps - 1, P).crossover

    print("drift over noise at r = " + ", ".join(f"{r:.1f}" for r in correlations))
    for steps, style in ((2, "-"), (8, "--")):
        for k, phi in enumerate(("relu", "abs")):
            found = [ratio(phi, r, steps) for r in correlations]
            axis.semilogy(correlations, found, f"C{k}{style}", label=f"{phi}, step {steps - 1}")
            print(f"  {phi:>4}, step {steps - 1}: {', '.join(f'{x:.4f}' for x in found)}")
        equal = brentq(lambda r: np.log(ratio("relu", r, steps) / ratio("abs", r, steps)), 0.2, 0.7, xtol=1e-4)
        print(f"  equal at r = {equal:.3f} in step {steps - 1}")
    axis.set(xlabel="correlation of inputs of different steps", ylabel="drift / noise", title="relu and abs, Depth-muP")
    axis.legend(frameon=False, fontsize=8)


def draw_flatness(axis: Axes) -> None:
    eps = 2.0 ** -np.arange(1.0, 9)[::-1]
    print("d(eps) / eps^(1/2) over its value at 1/256, in step 7, at eps = 1/8, 1/2")
    for r, style in ((0.2, "-"), (0.7, "--")):
        for k, phi in enumerate(("relu", "abs")):
            d = trained(phi, r, 8).feature_difference(7, P, eps) / np.sqrt(eps)
            axis.semilogx(eps, d / d[0], f"C{k}{style}", label=f"{phi}, r = {r}")
            print(f"  {phi:>4}, r = {r}: {d[-3] / d[0]:.4f}, {d[-1] / d[0]:.4f}")
    axis.set_xscale("log", base=2)
    axis.set(xlabel="eps", ylabel="d(eps) / eps^(1/2), 1 at 1/256", title="step 7, infinite depth")
    axis.legend(frameon=False, fontsize=8)


def outputs(phi: str, before: bool, rate: float, task: tp.Task, W: np.ndarray, U: np.ndarray, nV: np.ndarray
            ) -> np.ndarray:
    """f before every update of a real network at Depth-muP, written out, up to where it blows up; ``before``: W phi(x).

    W: (depth, n, n), trained in place; U: (n, d_in); nV: (n, d_out); all in the precision of W.
    """
    (f, slope), (depth, n) = PHI[phi], W.shape[:2]
    eps, found = W.dtype.type(depth**-0.5), []
    for xi, y in zip(task.inputs.astype(W.dtype), task.targets.astype(W.dtype)):
        x, h = [xi @ U.T], []
        for matrix in W:
            h.append(x[-1] if before else x[-1] @ matrix.T)
            z = f(h[-1])
            x.append(x[-1] + eps * (z @ matrix.T if before else z - z.mean(axis=1, keepdims=True)))
        found.append(x[-1] @ nV / n)
        chi = found[-1] - y
        if not np.mean(np.sum(chi**2, axis=1)) < 200:
            break
        d = chi @ nV.T
        for l in reversed(range(depth)):
            dh = d if before else slope(h[l]) * (d - d.mean(axis=1, keepdims=True))
            through = eps * (dh @ W[l])
            W[l] -= W.dtype.type(rate) * eps / (n * len(xi)) * (dh.T @ (f(x[l]) if before else x[l]))
            d = d + (slope(h[l]) * through if before else through)
    return np.array(found)


def loss(phi: str, before: bool, rate: float, depth: int, seed: int) -> float:
    """The mean loss of the last three steps on digits."""
    rng = np.random.default_rng([seed, depth])
    W = rng.standard_normal((depth, WIDTH, WIDTH), dtype=np.float32) / np.float32(WIDTH**0.5)
    U, nV = (rng.standard_normal((WIDTH, m)).astype(np.float32) for m in (DIGITS.d_in, DIGITS.d_out))
    found = outputs(phi, before, rate, DIGITS, W, U, nV)
    if len(found) < DIGITS.steps:
        return np.inf
    errors = found - DIGITS.targets.astype(np.float32)
    losses = [float(np.mean(np.sum(chi**2, axis=1)) / 2) for chi in errors]
    return float(np.mean(losses[-3:])) if losses[-1] < 100 else np.inf


def check() -> None:
    """The loop above is the library's training, number by number."""
    n, depth, seed, task = 16, 4, 1, tp.tasks.digits(steps=3, batch=2)

    def drawn(name: str, *shape: int) -> np.ndarray:
        return np.random.default_rng([seed, *name.encode()]).standard_normal(shape)

    for phi, before in BLOCKS.values():
        W = np.array([drawn(f"W[0, {l}]", n, n) for l in range(1, depth + 1)]) / np.sqrt(n)
        U = np.array([drawn(f"U[{k}]", n) for k in range(task.d_in)]).T
        nV = np.array([drawn(f"nV[{k}]", n) if task.d_out > 1 else drawn("nV", n) for k in range(task.d_out)]).T
        run = tp.train(tp.ResNet(phi, block="pre_nonlin" if before else "post_nonlin"), task, tp.SGD(1.0), DEPTH_MUP,
                       depth, width=n,
                       method="dense", seed=seed)
        difference = float(np.max(np.abs(run.outputs - outputs(phi, before, 1.0, task, W, U, nV))))
        print(f"{phi}{', before W' * before}: largest difference from tp.train {difference:.0e}")
        if difference > 1e-12:
            raise SystemExit("the loop of this script is not the training of tp.train")


def draw_losses(axis: Axes) -> None:
    """Figures 3 and 4: the least loss over learning rates."""
    depths = [4, 8, 16, 32, 64]
    print("least loss on digits at L = 4, 8, 16, 32, 64 (and in the limit), and the learning rate")
    for k, (name, (phi, before)) in enumerate(BLOCKS.items()):
        found = [min((float(np.mean([loss(phi, before, rate, depth, seed) for seed in SEEDS])), rate)
                     for rate in RATES) for depth in depths]
        axis.semilogx(depths, [value for value, _ in found], f"C{k}.-", label=name)
        if not before:
            runs = [(tp.train(tp.ResNet(phi), DIGITS, tp.SGD(rate), DEPTH_MUP, tp.oo), rate) for rate in RATES[1:4]]
            found.append(min((float(np.mean(run.losses[-3:])), rate) for run, rate in runs))
            axis.axhline(found[-1][0], color=f"C{k}", linestyle="--", linewidth=1)
        print(f"  {name:>13}: " + ", ".join(f"{value:.4f} ({rate:g})" for value, rate in found))
    axis.set_xscale("log", base=2)
    axis.set(xlabel="depth L", ylabel="least loss", title="digits; dashed: infinite width and depth", ylim=(0.27, 0.42))
    axis.legend(frameon=False, fontsize=8, loc="lower left")


def draw(path: Path) -> None:
    figure = Figure(figsize=(12, 7.2), layout="constrained")
    axes = figure.subplots(2, 3)
    draw_correlations(axes[0, 0])
    draw_scaling(axes[0, 1], "Depth-muP (1/2, 1/2)", DEPTH_MUP, (16, 64, 256, tp.oo))
    draw_scaling(axes[0, 2], "ODE (1, 0)", ODE, (16, 64, 256))
    draw_drift(axes[1, 0])
    draw_flatness(axes[1, 1])
    draw_losses(axes[1, 2])
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    start = time.perf_counter()
    check()
    draw(Path(__file__).with_name("nonlinear_diversity.svg"))
    print(f"{time.perf_counter() - start:.0f} s")
