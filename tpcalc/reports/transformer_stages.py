"""The stages of a report on transformers: each computes one dataclass of plain numbers, lists and text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from .._types import Json
from .. import SGD, DepthScaling, Divergence, ResNet, Sequences, kets, program, train
from ..theory import AttentionLayer, attention_limit
from ..errors import NotCovered
from ..studies.convergence import fit_order
from ..studies.optimum import grid_optimum
from .progress import Progress, counting, silent
from .transformer_options import TransformerOptions

POINTS, SCRAMBLES = 64, 4  # of a head's means; outputs are known to a hundredth
GRID = 2.0 ** np.arange(-4, 4)  # learning rates, as factors of the report's own
SEEDS, UPDATES = 4, 3  # of networks that look for the best learning rate


@dataclass(frozen=True)
class Written:
    """The program as text and LaTeX, and what readings of programs say that do not take it, by name."""

    text: str
    latex: str
    refused: dict[str, str]


def write_program(options: TransformerOptions) -> Written:
    found = program(options.net, options.opt, options.scale)
    return Written(str(found), found.latex(), {
        "ket equations": _reason(lambda: kets(found))})


def _reason(ask: Callable[[], Any]) -> str:
    try:
        ask()
    except NotCovered as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class AttentionTraining:
    """Training at infinite width, depth and number of heads, by the integral equations of attention.

    outputs, standard_error: (steps, batch, positions, d_out); losses: (steps,), of a position; discretization: twice
    what two resolutions of layer time differ by; error: three of the largest standard errors, and that.
    """

    outputs: Any
    standard_error: Any
    losses: list[float]
    discretization: float
    error: float


def limit_stage(options: TransformerOptions) -> AttentionTraining:
    """Raises ``ValueError`` for exponents other than (1/2, 1/2), ``Divergence`` where the limit is not resolved."""
    net, task = options.net, options.task
    layer = AttentionLayer(net.positions, net.head_dim, net.causal, net.scale_power, ResNet(net.phi, "mlp", net.norm),
                           POINTS, SCRAMBLES)
    found = attention_limit(layer, task.inputs, task.targets, options.opt, options.scale, task.loss)
    return AttentionTraining(found.outputs.tolist(), found.standard_error.tolist(),
                             (task.losses(found.outputs) / task.positions).tolist(), found.discretization, found.error)


@dataclass(frozen=True)
class RealTransformers:
    """Real transformers over width and depth against the limit.

    rows: a dictionary a width and depth: width, depth, error (root mean square over outputs and seeds), spread
    (standard deviation of that from one network to the next), z (root mean square over outputs of mean difference over
    its standard error), all None without a limit, and last_loss (of a position, mean over seeds). losses: of the
    deepest and widest, (steps,), mean over seeds. ranges: of the deepest, the narrowest and the widest: width, and
    losses (seeds, steps) of a position. order, uncertainty: of error ~ n^-order at the greatest depth.
    """

    seeds: int
    rows: list[Json]
    losses: list[float]
    ranges: list[Json]
    order: float | None
    uncertainty: float | None


def train_real(options: TransformerOptions, limit: AttentionTraining | None, progress: Progress = silent
               ) -> RealTransformers:
    task, rows, errors = options.task, [], []
    advance = counting(progress, len(options.widths) * len(options.depths))
    losses: list[float] = []
    ranges: dict[int, Json] = {}
    for width in options.widths:
        for depth in options.depths:
            runs = [train(options.net, task, options.opt, options.scale, depth, width, method="dense", seed=seed)
                    for seed in range(options.seed, options.seed + options.seeds)]
            each_loss = np.array([run.losses for run in runs]) / task.positions
            losses = np.mean(each_loss, axis=0).tolist()
            if width in (options.widths[0], options.widths[-1]):
                ranges[width] = {"width": width, "losses": each_loss.tolist()}
            row: Json = {"width": width, "depth": depth, "last_loss": losses[-1], "error": None, "spread": None,
                         "z": None}
            if limit is not None:
                difference = np.array([run.outputs for run in runs]) - np.array(limit.outputs)
                each = np.sqrt(np.mean(difference**2, axis=(1, 2, 3, 4)))
                mean, spread = difference.mean(axis=0), difference.std(axis=0, ddof=1) / np.sqrt(len(runs))
                row |= {"error": float(np.sqrt(np.mean(each**2))), "spread": float(np.std(each, ddof=1)),
                        "z": float(np.sqrt(np.mean((mean / np.hypot(spread, np.array(limit.standard_error)))**2)))}
            rows.append(row)
            advance()
    errors = [row["error"] for row in rows if row["depth"] == options.depths[-1]]
    if limit is None or len(errors) < 3:
        return RealTransformers(options.seeds, rows, losses, [*ranges.values()], None, None)
    slope = fit_order(np.array(options.widths), np.array(errors))
    return RealTransformers(options.seeds, rows, losses, [*ranges.values()], slope.order, slope.uncertainty)


@dataclass(frozen=True)
class BestRates:
    """Best learning rates of real transformers by scaling and depth, with the power of L predicted and measured; one
    batch is repeated.

    rows: a dictionary a scaling and depth: alpha, gamma, depth, optimum, loss (of a position, the least on the grid),
    bracketed. predicted: {"alpha, gamma": power of L of the optimum}, alpha + gamma - 1, where updates of all layers
    add up to order one; measured: fitted to depths whose optimum is inside the grid, None with fewer than two.
    """

    width: int
    updates: int
    rows: list[Json]
    predicted: dict[str, float]
    measured: dict[str, float | None]


def find_rates(options: TransformerOptions, progress: Progress = silent) -> BestRates:
    inputs, targets = (np.repeat(one[:1], UPDATES + 1, axis=0) for one in (options.task.inputs, options.task.targets))
    task = Sequences(inputs, targets, options.task.loss)
    width, rows, predicted, measured = min(options.widths[-1], 64), [], {}, {}
    advance = counting(progress, len(options.scalings) * len(options.depths))
    for alpha, gamma in options.scalings:
        optima = []
        for depth in options.depths:
            curve = np.array([_loss(options, task, alpha, gamma, depth, width, rate * options.lr[0]) for rate in GRID])
            found = grid_optimum(GRID * options.lr[0], curve)
            rows.append({"alpha": str(alpha), "gamma": str(gamma), "depth": depth, "optimum": found.value,
                         "loss": found.loss, "bracketed": found.bracketed})
            if found.bracketed:
                optima.append((depth, found.value))
            advance()
        key = f"{alpha}, {gamma}"
        predicted[key] = float(alpha + gamma - 1)
        measured[key] = _power(np.log(np.array(optima))) if len(optima) > 1 else None
    return BestRates(width, UPDATES, rows, predicted, measured)


def _power(points: np.ndarray) -> float:
    """The slope of a line through points (k, 2) in logarithms."""
    return float(np.polyfit(points[:, 0], points[:, 1], 1)[0])


def _loss(options: TransformerOptions, task: Sequences, alpha: Any, gamma: Any, depth: int, width: int, rate: float
          ) -> float:
    """The loss of a position at the last step, mean over seeds; infinite where one of them diverges."""
    losses = []
    for seed in range(options.seed, options.seed + SEEDS):
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                run = train(options.net, task, SGD(rate), DepthScaling(alpha, gamma), depth, width, method="dense",
                            seed=seed)
        except Divergence:
            return float("inf")
        losses.append(float(run.losses[-1]) / task.positions)
    mean = float(np.mean(losses))
    return mean if np.isfinite(mean) else float("inf")
