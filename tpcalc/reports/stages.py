"""The stages of a report: each computes one dataclass of plain numbers, lists and text, as JSON can hold it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, Callable, Sequence

import numpy as np
import sympy as sp

from .._types import Json
from .. import (SGD, DepthScaling, Divergence, ResNet, Run, Task, convergence, depth_limit, kets, program, recursion,
                train)
from ..calculus.equations import KetEquations
from ..calculus.recursion import RecursionEquations
from ..errors import NotCovered
from ..finite_width.loss_bands import band_of, gaussian_outputs
from ..limits.kets.ket_limit import KetLimitRegion
from ..studies.convergence import Slope, fit_order
from .options import ReportOptions, Setup
from .progress import Progress, counting, silent

SYMBOLS = sp.symbols("alpha gamma", real=True)
MOST_OUTPUTS = 12  # in all steps, of one training whose covariances are found in a second or two
DRAWS = 20000


@dataclass(frozen=True)
class Band:
    """Differences between real networks and infinite width, predicted and measured.

    task: which part of the report's task, in words; rows: a dictionary a width: width, predicted (root mean square over
    outputs and networks), low, high (between which 95 of 100 networks are), measured (over seeds), inside (the
    share of networks between low and high); errors: (widths, seeds); warning: of the smallest width, or empty;
    curves: of the first and the last width: width, the mean of the loss and the curves between which 95 of 100
    networks are (mean, low, high), and the losses of the networks, (seeds, steps).
    """

    task: str
    rows: list[Json]
    errors: list[list[float]]
    warning: str
    curves: list[Json]


def part_of(task: Task) -> tuple[Task, str]:
    """The task itself, or of its first steps the first input and the first output."""
    if task.targets.size <= MOST_OUTPUTS:
        return task, "the task of this report"
    steps = min(task.steps, MOST_OUTPUTS // 3)
    return (Task(task.inputs[:steps, :1], task.targets[:steps, :1, :1]),
            f"the first input and the first output of {steps} steps of this report's task")


def measure_band(setup: Setup, depth: int, widths: Sequence[int], seeds: range,
                 advance: Callable[[], None] = lambda: None) -> Band:
    """Train real networks on ``part_of`` the task; raises ``Divergence`` where its covariances are not finite."""
    task, words = part_of(setup.task)
    exact = train(setup.net, task, setup.opt if len(setup.lr) == 1 else type(setup.opt)(setup.lr[:task.steps]),
                  setup.scale, depth)
    size = exact.outputs.size
    covariance = exact.fluctuations.covariance.reshape(size, size)
    variances = np.linalg.eigvalsh(covariance).clip(0.0)
    squares = np.random.default_rng(0).standard_normal((DRAWS, size)) ** 2 @ variances / size
    low, high = np.sqrt(band_of(squares))
    predicted = float(np.sqrt(np.trace(covariance) / size))
    at_width = cache(exact.at_width)  # which may draw networks
    rows, errors, curves = [], [], []
    for width in widths:
        each, losses = [], []
        for seed in seeds:
            real = train(setup.net, task, exact.problem.opt, setup.scale, depth, width=width, seed=seed)
            each.append(float(np.sqrt(np.mean((real.outputs - exact.outputs) ** 2))))
            losses.append(real.losses.tolist())
            advance()
        if width in (widths[0], widths[-1]):
            drawn = np.array([task.losses(one) for one in gaussian_outputs(at_width(width).mean, covariance / width)])
            ends = band_of(drawn)
            curves.append({"width": width, "losses": losses, "mean": drawn.mean(axis=0).tolist(),
                           "low": ends[0].tolist(), "high": ends[1].tolist()})
        values, root = np.array(each), width**0.5
        rows.append({"width": width, "predicted": predicted / root,
                     "low": float(low) / root, "high": float(high) / root,
                     "measured": float(np.sqrt(np.mean(values**2))),
                     "inside": float(np.mean((values >= low / root) & (values <= high / root)))})
        errors.append(each)
    return Band(words, rows, errors, at_width(min(widths)).warning or "", curves)


def band_or_reason(setup: Setup, depth: int, widths: Sequence[int], seeds: range, advance: Callable[[], None]
                   ) -> tuple[Band | None, str]:
    """The band, or why there is none."""
    try:
        return measure_band(setup, depth, widths, seeds, advance), ""
    except (Divergence, NotCovered) as reason:  # not known of such networks
        return None, str(reason)


@dataclass(frozen=True)
class Derived:
    """The symbolic line: texts and LaTeX of program, ket equations and recursion, and the recorded steps.

    recursion: empty for networks whose kets are not linear in base kets, so that they have none; limit: its equations
    at infinite depth, empty where there are none, with the reason in no_limit.
    """

    program: str
    program_latex: str
    kets: str
    kets_latex: str
    recursion: str
    recursion_latex: str
    ket_steps: int
    steps: list[Json]
    limit: str = ""
    limit_latex: str = ""
    no_limit: str = ""


def steps_of(value: KetEquations | RecursionEquations | KetLimitRegion) -> list[Json]:
    """The recorded steps that led to it. Long parts are by the names that equations give them; a line below the first
    step that has another one says what its name stands for."""
    steps = value.derivation.steps
    names = None if isinstance(value, KetLimitRegion) else value.names.more(step.after for step in steps)
    found = []
    for s in steps:
        shown, lines = (s, []) if names is None else (replace(s, after=names.written(s.after)), names.new_in(s.after))
        found.append({"number": s.number, "rule": s.rule, "reason": s.reason, "source": s.source,
                      "latex": " \\\\\n".join([shown.latex(), *lines])})
    return found


def derive_stage(net: ResNet, opt: SGD, scale: DepthScaling | None = None,
                 at: tuple[Fraction, Fraction] | None = None) -> Derived:
    """Program, kets, of linear networks the recursion, and the limit of it or of kets; for symbolic (alpha, gamma)
    where no scale is given.

    at: the (alpha, gamma) whose limit is asked for; without it the limit on all regions of the plane.
    """
    source = program(net, opt, scale or DepthScaling(*SYMBOLS))
    equations = kets(source)
    found = recursion(equations) if net.is_linear else None
    before = len(equations.derivation.steps)
    steps = steps_of(equations if found is None else found)
    texts = str(source), source.latex(), str(equations), equations.latex()
    written = ("", "") if found is None else (str(found), found.latex())
    try:
        limit: Any = depth_limit(equations if found is None else found)
        if at is not None:
            limit = limit.at(**dict(zip(map(str, limit.parameters), at)))
        has_limit = at is None or limit.has_limit
        said = (str(limit), limit.latex(), "") if has_limit else ("", "", str(limit.reason))
    except (NotCovered, Divergence) as reason:
        said = "", "", str(reason)
    return Derived(*texts, *written, before, steps, *said)


@dataclass(frozen=True)
class Converged:
    """Training at growing depth beside its limit; lists as in ``tp.studies.Convergence``, None where there is no limit.

    outputs: (k, steps, batch, d_out); accuracies: (k, steps), the share of inputs whose largest output is at
    the largest target, None for scalar outputs and where all outputs are 0. method: of all depths; sampling_error: the
    largest that a run at finite depth estimates of itself where they are sampled, or None.
    """

    depths: list[int]
    rows: list[Json]
    losses: list[list[float]]
    outputs: list[Any]
    accuracies: list[list[float | None]]
    cauchy_order: float
    cauchy_uncertainty: float
    reason: str
    limit_order: float | None
    limit_uncertainty: float | None
    limit_losses: list[float] | None
    limit_outputs: list[Any] | None
    limit_accuracies: list[float | None] | None
    limit_error: float | None
    limit_nodes: int | None
    notes: list[str]
    method: str
    sampling_error: float | None


def converge(setup: Setup, depths: Sequence[int], progress: Progress | None = None) -> Converged:
    found = convergence(setup.net, setup.task, setup.opt, setup.scale, depths, progress=progress)
    limit: Run | None = found.limit
    order = found.limit_order
    return Converged(
        [int(d) for d in found.depths], [dict(row) for row in found.rows], found.losses.tolist(),
        found.outputs.tolist(), [accuracy(setup.task, f) for f in found.outputs],
        found.cauchy_order.order, found.cauchy_order.uncertainty, found.reason,
        None if order is None else order.order, None if order is None else order.uncertainty,
        None if limit is None else limit.losses.tolist(), None if limit is None else limit.outputs.tolist(),
        None if limit is None else accuracy(setup.task, limit.outputs),
        None if limit is None else limit.error_estimate, None if limit is None else len(limit.layer_times),
        [] if limit is None else list(limit.notes), found.method,
        None if setup.net.is_plain else float(np.max(found.errors)))


def accuracy(task: Task, outputs: np.ndarray) -> list[float | None]:
    """Per step: the share of inputs whose largest output is where the largest target is."""
    if task.d_out == 1:
        return [None] * task.steps
    right = np.argmax(outputs, axis=2) == np.argmax(task.targets, axis=2)
    return [float(np.mean(r)) if np.any(f) else None for r, f in zip(right, outputs)]


@dataclass(frozen=True)
class Networks:
    """Real networks of several widths against infinite width, at one depth.

    rows: a dictionary a width: width, error (root mean square over outputs and seeds), spread (standard
    deviation of that over seeds), fluctuation (what one run estimates of itself), z (root mean square over
    outputs of mean difference / its standard error). errors: (widths, seeds); losses: (widths, seeds, steps).
    extrapolated_z: the same of the means extrapolated to infinite width, which have no bias of order 1/n;
    extrapolated_z_expected: of agreement, by Student's distribution, None with too few seeds. Every z is None where
    infinite width is sampled itself, whose error all differences share. band: the fields of a ``Band``, what theory
    says of such differences; None with the reason in ``no_band``.
    """

    depth: int
    seeds: int
    rows: list[Json]
    errors: list[list[float]]
    losses: list[list[list[float]]]
    infinite_losses: list[float]
    infinite_method: str
    infinite_error: float
    order: float
    uncertainty: float
    extrapolated_z: float | None
    extrapolated_z_expected: float | None
    band: Json | None
    no_band: str


def compare_networks(options: ReportOptions, progress: Progress = silent) -> Networks:
    setup, depth, seeds = options.setup, options.network_depth, options.seeds
    arguments = (setup.net, setup.task, setup.opt, setup.scale, depth)
    exact = train(*arguments)
    rows, errors, losses, means, variances = [], [], [], [], []
    advance = counting(progress, 2 * len(options.widths) * seeds)
    for width in options.widths:
        runs = []
        for seed in range(options.seed, options.seed + seeds):
            runs.append(train(*arguments, width=width, seed=seed))
            advance()
        difference = np.array([run.outputs for run in runs]) - exact.outputs
        each = np.sqrt(np.mean(difference**2, axis=(1, 2, 3)))
        means.append(np.mean(difference, axis=0).ravel())
        variances.append(np.var(difference, axis=0, ddof=1).ravel())
        rows.append({"width": width, "error": float(np.sqrt(np.mean(each**2))), "spread": float(np.std(each, ddof=1)),
                     "fluctuation": float(np.mean([run.error_estimate for run in runs])),
                     "z": _rms_ratio(means[-1], np.sqrt(variances[-1] / seeds)) if exact.exact else None})
        errors.append(each.tolist())
        losses.append([run.losses.tolist() for run in runs])
    slope: Slope = fit_order(np.array(options.widths), np.array([row["error"] for row in rows]))
    freedom = len(rows) * (seeds - 1)
    expected = float(np.sqrt(freedom / (freedom - 2))) if freedom > 2 else None
    z = extrapolated_z(np.array(options.widths, dtype=float), np.array(means), np.array(variances), seeds
                       ) if exact.exact else None
    band, no_band = band_or_reason(setup, depth, options.widths, range(options.seed, options.seed + seeds), advance)
    return Networks(depth, seeds, rows, errors, losses, exact.losses.tolist(), exact.method, exact.error_estimate,
                    slope.order, slope.uncertainty, z, expected, None if band is None else asdict(band), no_band)


def extrapolated_z(widths: np.ndarray, means: np.ndarray, variances: np.ndarray, seeds: int) -> float:
    """Root mean square over outputs of (mean at infinite width) / (its standard error).

    means, variances: (widths, outputs), over seeds. Weighted least squares of the means in 1 and 1/n, with
    one variance sigma^2 / n for all widths of an output.
    """
    design = np.stack([np.ones_like(widths), 1 / widths], axis=1)
    covariance = np.linalg.inv(design.T @ (widths[:, None] * design))  # of the fit, in units of sigma^2 / seeds
    intercept = (covariance @ design.T @ (widths[:, None] * means))[0]
    sigma2 = np.mean(widths[:, None] * variances, axis=0)
    return _rms_ratio(intercept, np.sqrt(sigma2 * covariance[0, 0] / seeds))


def _rms_ratio(value: np.ndarray, error: np.ndarray) -> float:
    known = error > 0
    return float(np.sqrt(np.mean((value[known] / error[known])**2))) if known.any() else float("nan")
