"""Do learning rates found at one depth serve at another? Loss against learning rate and depth, exactly."""

from __future__ import annotations

import hashlib
import json
import math
from concurrent.futures import Executor
from copy import copy
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cached_property, partial
from typing import Callable, Literal, Sequence, overload

import numpy as np
from numpy.typing import ArrayLike
import sympy as sp

from .._types import Fields, Number, Value
from .. import _checks
from .._files import code_digest
from .._shown import Short, Tabled, pyplot
from .._spread import require_executor
from ..errors import Divergence, NotCovered
from ..propagators.limit_cell import infinite_depth_problem
from ..methods.choice import chosen_method
from ..methods.collocation import Collocation
from ..methods.method import Method
from ..methods.train import train
from ..scaling import DepthScaling, Scaling
from ..models import HyperConnections, ResNet, Skip
from ..data import Task
from ..data.losses import require_targets, values
from ..training.problem import Problem
from ..optimizers.updates import Optimizer
from .fingerprints import content
from .convergence import Slope, fit_order
from .horizon_sweep import HorizonSweep
from .jobs import FinishedJobs, Progress, run_jobs
from .optimum import Optimum, grid_optimum
from .depth_transfer import DepthTransfer, depth_transfer
from .width_transfer import WidthTransfer, width_transfer

Point = tuple[int, int, int]


@dataclass(frozen=True, repr=False)
class Transfer(Tabled, Short):
    """Loss against learning rate at several depth scalings and depths.

    scalings: (s,); depths: (d,), whole numbers and perhaps tp.oo; learning_rates: (k,), growing factors of the
    optimizer's own; losses: (s, d, k), infinite where training diverges, NaN at depth=tp.oo where there is no limit;
    reasons: (s,), why there is none, or ""; blow_ups: what was said at every infinite loss, by its place in losses.

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> found = tp.transfer(net, task, opt, scale, depths=[8, 16], learning_rates=[0.25, 0.5, 1.0])
    >>> found.losses.shape, found.learning_rates.tolist()
    ((1, 2, 3), [0.25, 0.5, 1.0])
    """

    scalings: tuple[Scaling, ...]
    depths: tuple[Value, ...]
    learning_rates: np.ndarray
    losses: np.ndarray
    reasons: tuple[str, ...]
    blow_ups: dict[Point, str] = field(repr=False)

    @cached_property
    def _optima(self) -> list[list[Optimum]]:
        return [[grid_optimum(self.learning_rates, curve) for curve in curves] for curves in self.losses]

    def _each(self, name: str) -> np.ndarray:
        return np.array([[getattr(found, name) for found in row] for row in self._optima])

    @cached_property
    def optimum(self) -> np.ndarray:
        """(s, d): the best learning rate, between grid points by a parabola in its logarithm; NaN without a minimum."""
        return self._each("value")

    @cached_property
    def best_loss(self) -> np.ndarray:
        """(s, d): the least loss on the grid of learning rates; at ``optimum`` it is lower, to second order."""
        return self._each("loss")

    @cached_property
    def bracketed(self) -> np.ndarray:
        """(s, d): is the optimum inside the grid? At its end it says only on which side the optimum is."""
        return self._each("bracketed")

    @cached_property
    def drift(self) -> tuple[Slope, ...]:
        """(s,): the order r of optimum ~ L^-r, from the deeper half of the finite depths with bracketed optima."""
        return tuple(self._order(i, self.optimum[i]) for i in range(len(self.scalings)))

    @cached_property
    def limit_order(self) -> tuple[Slope | None, ...]:
        """(s,): the order r of |log optimum - log optimum at tp.oo| ~ L^-r, fitted likewise; None without a limit."""
        if sp.oo not in self.depths:
            return (None,) * len(self.scalings)
        limit = self.depths.index(sp.oo)
        return tuple(self._order(i, np.abs(np.log(self.optimum[i] / self.optimum[i, limit])))
                     if self.bracketed[i, limit] else None for i in range(len(self.scalings)))

    def _order(self, scaling: int, values: np.ndarray) -> Slope:
        finite = [j for j, depth in enumerate(self.depths) if depth is not sp.oo and self.bracketed[scaling, j]]
        deeper = sorted(finite, key=lambda j: int(self.depths[j]))[len(finite) // 2:]
        return fit_order(np.array([int(self.depths[j]) for j in deeper]), values[deeper])

    @property
    def rows(self) -> list[Fields]:
        """One dictionary a scaling and depth: alpha, gamma, branch, depth, optimum, loss, bracketed."""
        return list({"alpha": str(scale.alpha), "gamma": _gammas(scale), "branch": _branch(scale),
                     "depth": str(depth), "optimum": found.value, "loss": found.loss, "bracketed": found.bracketed}
                    for scale, row in zip(self.scalings, self._optima) for depth, found in zip(self.depths, row))

    def table(self) -> str:
        """The optima as text, a block a scaling; < and > mark optima at an end of the grid."""
        lines = []
        for i, scale in enumerate(self.scalings):
            lines += [f"alpha = {scale.alpha}, gamma = {_gammas(scale)}, branch = {_branch(scale):g}",
                      f"{'L':>8} {'optimum':>12} {'least loss':>12}"]
            for depth, found in zip(self.depths, self._optima[i]):
                if depth is sp.oo and self.reasons[i]:
                    lines.append(f"      oo no limit: {self.reasons[i]}")
                    continue
                end = "" if found.bracketed or found.value != found.value else (
                    "<" if found.value == self.learning_rates[0] else ">")
                lines.append(f"{str(depth):>8} {end + format(found.value, '.6g'):>12} {found.loss:>12.8f}")
            lines.append(f"order of the optimum in L: {-self.drift[i].order:.3f} +- {self.drift[i].uncertainty:.3f}")
            order = self.limit_order[i]
            if order is not None:
                lines.append(f"order of its distance to the limit: {order.order:.3f} +- {order.uncertainty:.3f}")
        return "\n".join(lines)

    def plot(self, axes: Value = None) -> Value:
        """Loss against learning rate, an axes a scaling and a curve a depth; returns the matplotlib axes, (s,)."""
        for axis in () if axes is None else np.ravel(np.asarray(axes, dtype=object)):
            _checks.axes("axes", "None" if axis is None else axis)
        if axes is not None and np.size(axes) != len(self.scalings):
            raise ValueError(f"axes: got {np.size(axes)}; expected as many as scalings, {len(self.scalings)}, or None")
        plt = pyplot("Transfer.plot")
        if axes is None:
            axes = plt.subplots(1, len(self.scalings), figsize=(3.2 * len(self.scalings), 3.4), sharey=True,
                                squeeze=False)[1][0]
        finite = [depth for depth in self.depths if depth is not sp.oo]
        for i, (scale, axis) in enumerate(zip(self.scalings, np.atleast_1d(axes))):
            for j, depth in enumerate(self.depths):
                curve = np.where(np.isfinite(self.losses[i, j]), self.losses[i, j], np.nan)
                if np.all(np.isnan(curve)):
                    continue
                style: Fields = {"color": "k", "linestyle": "--", "label": "infinite depth"}
                if depth is not sp.oo:
                    shade = plt.get_cmap("viridis")(finite.index(depth) / max(1, len(finite) - 1))
                    style = {"color": shade, "marker": ".", "label": f"L = {depth}"}
                axis.plot(self.learning_rates, curve, **style)
                if self.bracketed[i, j]:
                    axis.plot(self.optimum[i, j], self.best_loss[i, j], "x", color=style["color"])
            axis.set(xscale="log", xlabel="learning rate", title=f"alpha = {scale.alpha}, gamma = {_gammas(scale)}")
        np.atleast_1d(axes)[0].set_ylabel("loss")
        np.atleast_1d(axes)[0].legend(frameon=False, fontsize=8)
        return axes


@overload
def transfer(net: ResNet, task: Task, opt: Optimizer, scalings: Sequence[Scaling] | Scaling,
             depths: Sequence[Value], learning_rates: ArrayLike, executor: Executor | None = ..., resume: Value = ...,
             progress: Progress | None = ..., probe_targets: ArrayLike | None = ..., method: str | Method = ...,
             width: Number = ..., widths: None = ...) -> Transfer: ...


@overload
def transfer(net: ResNet, task: Sequence[Task], opt: Optimizer, scalings: Sequence[Scaling] | Scaling,
             depths: Sequence[Value], learning_rates: ArrayLike, executor: Executor | None = ..., resume: Value = ...,
             progress: Progress | None = ..., probe_targets: ArrayLike | None = ..., method: str | Method = ...,
             width: Number = ..., widths: None = ...) -> HorizonSweep: ...


@overload
def transfer(net: ResNet, task: Task, opt: Optimizer, scalings: Sequence[Scaling] | Scaling,
             depths: Sequence[Value], learning_rates: ArrayLike, *, widths: Sequence[int]) -> WidthTransfer: ...


@overload
def transfer(net: ResNet, task: Task, opt: Optimizer, scalings: Sequence[Scaling] | Scaling,
             depths: Sequence[Value], learning_rates: ArrayLike, *, from_limit: Literal[True]) -> DepthTransfer: ...


def transfer(net: ResNet, task: Task | Sequence[Task], opt: Optimizer, scalings: Sequence[Scaling] | Scaling,
             depths: Sequence[Value], learning_rates: ArrayLike, executor: Executor | None = None, resume: Value = None,
             progress: Progress | None = None, probe_targets: ArrayLike | None = None, method: str | Method = "auto",
             width: Number = sp.oo, widths: Sequence[int] | None = None, from_limit: bool = False
             ) -> Transfer | HorizonSweep | WidthTransfer | DepthTransfer:
    """Train at every scaling, depth and learning rate, and find how far the best learning rate moves with depth.

    Every network and optimizer, by every method that takes all of the trainings.

    Parameters
    ----------
    task:
        one, or several of different batch sizes and steps, at one scaling and depth: then a ``HorizonSweep`` is
        returned, whose ``fit()`` has x for ``tp.transfer_rule``. Tasks of one batch size and number of steps count as
        seeds of each other, as many of each.
    scalings:
        one ``DepthScaling`` or ``Parametrization``, or more.
    depths:
        whole numbers or ``tp.oo``, each once.
    learning_rates:
        growing positive factors of the learning rate of ``opt`` (of its schedule).
    executor:
        any ``concurrent.futures`` executor; trainings are independent, and go to it in lists that cost about as
        much as the deepest.
    resume:
        a folder where the result of every finished training is kept, whatever happens to the rest: the same call, or
        one for more depths or learning rates, takes it from there. Results of other code are not taken.
    progress:
        called with (trainings done, trainings).
    probe_targets:
        (m, d_out): the loss is then that of the task's probes. Without, it is the loss of the last step's batch. Both
        are means, before the last step's update: of a network updated ``task.steps - 1`` times.
    widths:
        whole numbers: how far the best rate moves with the width instead, at one scaling and every depth, from the
        expansion in 1/n, where it is known (``run.fluctuations.bias``): linear networks of one matrix a block by a
        tp.SGD, and smooth nonlinear ones, of which it is sampled, with the error of the drift beside it. The rates then
        bracket the best one, and options of sweeps are refused.
    from_limit:
        find the best rates at these finite depths, and what another depth's rate costs, from the expansion about
        infinite depth, of the same networks: the rates bracket the best one of infinite depth, where alone rates are
        tried, and options of sweeps are refused.
    method, width:
        as in ``tp.train``, for all trainings. Sampled methods take the same seed everywhere: losses have their errors
        (``run.error_estimate`` of a single training), optima have errors of that size over the curvature.

    Returns
    -------
    Transfer, or with ``widths`` a ``tp.studies.WidthTransfer``, with ``from_limit`` a ``tp.studies.DepthTransfer``
        a training that blows up is a point at infinity; a scaling without a limit has no losses at tp.oo, and
        ``reasons`` says why (of nonlinear networks where tp.oo is among the depths).

    Raises ``ValueError`` for input that is not allowed, before any work, and ``MemoryError`` where a training does
    not fit. Source: Tensor Programs VI, section 6, Figures 2, 11 and 12.

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> found = tp.transfer(net, task, opt, scale, depths=[8, 16], learning_rates=[0.25, 0.5, 1.0])
    >>> found.best_loss.shape
    (1, 2)
    """
    if isinstance(task, (list, tuple)):
        if widths is not None or _checks.flag("from_limit", from_limit):
            raise ValueError(f"task: got {len(task)} tasks beside {'from_limit' if widths is None else 'widths'}, with "
                             "which nothing is swept; expected one")

        def of(one: Task, told: Progress | None) -> Transfer:
            return transfer(net, one, opt, scalings, depths, learning_rates, executor, resume, told, probe_targets,
                            method, width)
        return _over_tasks(of, task, progress)
    _checks.instance("task", task, Task)
    assert isinstance(task, Task)
    scales = (scalings,) if isinstance(scalings, Scaling) else tuple(scalings) if isinstance(
        scalings, (list, tuple)) else ()
    if not scales or not all(isinstance(scale, Scaling) for scale in scales):
        raise ValueError(f"scalings: got {_checks.short(scalings)}; expected a tp.DepthScaling, a "
                         "tp.Parametrization, or a list of them")
    require_executor(executor)
    _checks.progress(progress)
    sizes = _checks.sizes("depths", depths, infinite=True)
    rates = _checks.growing_numbers("learning_rates", learning_rates)
    if widths is not None or _checks.flag("from_limit", from_limit):
        asked = "from_limit" if widths is None else "widths"
        given = {"executor": executor, "resume": resume, "progress": progress, "probe_targets": probe_targets,
                 "method": None if method == "auto" else method, "width": None if width is sp.oo else width,
                 "from_limit": from_limit and widths is not None or None,
                 "scalings": None if len(scales) == 1 or widths is None else scalings}
        for name, value in given.items():
            if value is not None:
                raise ValueError(f"{name}: got {_checks.short(value)} beside {asked}, with which nothing is swept; "
                                 f"expected {'one scaling' if name == 'scalings' else 'nothing'}")
        if widths is None:
            return depth_transfer(Problem(net, task, opt, scales[0], sp.oo), scales, _checks.sizes("depths", depths),
                                  rates)
        wide = _checks.sizes("widths", widths)
        return width_transfer([Problem(net, task, opt, scales[0], sp.oo if size is None else size) for size in sizes],
                              rates, wide)
    problems = [[Problem(net, task, opt, scale, sp.oo if size is None else size, width) for size in sizes]
                for scale in scales]
    if not is_dataclass(opt):
        raise ValueError(f"opt: got {_checks.short(opt)}; expected an optimizer that is a dataclass, whose lr "
                         "can be replaced")
    base, targets = opt.schedule(task.steps), _probe_targets(task, probe_targets)
    reasons = tuple(_reason(row[0]) if None in sizes or row[0].is_linear else "" for row in problems)
    finite = [size for size in sizes if size is not None]
    known = _Keys(net, task, targets, resume is not None)
    locations, jobs = [], []
    for i, j in np.ndindex(len(scales), len(sizes)):
        if sizes[j] is None and reasons[i]:
            continue
        for k, rate in enumerate(rates):
            problem = replace(problems[i][j], opt=replace(opt, lr=tuple(base * rate)))
            job = problem, chosen_method(problem, method, {})
            locations.append((i, j, k))
            jobs.append((known.key(*job), float(sizes[j] or max(finite, default=1)), job))
    finished = FinishedJobs(None if resume is None else _checks.folder("resume", resume), _is_loss)
    done = run_jobs(partial(last_loss, targets), jobs, finished, executor, progress)
    losses = np.full((len(scales), len(sizes), len(rates)), np.nan)
    blow_ups = {}
    for location, (loss, message) in zip(locations, done):
        losses[location] = np.inf if loss is None else loss
        if loss is None:
            blow_ups[location] = message
    return Transfer(scales, tuple(sp.oo if size is None else size for size in sizes), rates, losses, reasons, blow_ups)


def _over_tasks(of: Callable[[Task, Progress | None], Transfer], tasks: Sequence[Task], progress: Progress | None
                ) -> HorizonSweep:
    """The sweep of several tasks, those of one batch size and number of steps as its seeds."""
    if not tasks or not all(isinstance(one, Task) for one in tasks):
        raise ValueError(f"task: got {_checks.short(tasks)}; expected a tp.Task, or a list of them")
    by_size: dict[tuple[int, int], list[Task]] = {}
    for one in tasks:
        by_size.setdefault((one.batch, one.steps), []).append(one)
    many = {len(found) for found in by_size.values()}
    if len(many) > 1:
        said = ", ".join(f"{len(found)} of batch size {b} and {t} steps" for (b, t), found in by_size.items())
        raise ValueError(f"task: got {said}; expected as many of each, which are seeds")
    losses, rates, done = [], np.array([]), 0
    for found in by_size.values():
        seeds = []
        for one in found:
            told = None if progress is None else partial(_told, progress, done, len(tasks))
            swept, done = of(one, told), done + 1
            if swept.losses.shape[:2] != (1, 1):
                raise ValueError(f"task: got {len(tasks)} tasks with {swept.losses.shape[0]} scalings and "
                                 f"{swept.losses.shape[1]} depths; expected one of each")
            if swept.reasons[0]:
                raise NotCovered(f"depths: no limit: {swept.reasons[0]}; expected a finite depth")
            rates = swept.learning_rates
            seeds.append(swept.losses[0, 0])
        losses.append(np.stack(seeds, axis=-1))
    batch_sizes, steps = zip(*by_size)
    return HorizonSweep(batch_sizes, steps, rates, np.stack(losses))


def _told(progress: Progress, before: int, tasks: int, done: int, total: int) -> None:
    progress(before * total + done, tasks * total)


def last_loss(probe_targets: np.ndarray | None, job: tuple[Problem, Method]) -> tuple[float | None, str]:
    """(the loss at the last step, ""), or (None, what was said) where training diverges."""
    problem, method = job
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            run = train(problem, method=method)
            loss = run.losses[-1]
            if probe_targets is not None:
                assert run.probe_outputs is not None
                loss = np.mean(values(problem.task.loss, run.probe_outputs[-1], probe_targets))
    except Divergence as divergence:
        return None, str(divergence)
    return (float(loss), "") if np.isfinite(loss) else (None, "the loss of the last step is not finite")


def _gammas(scale: Scaling) -> str:
    """The update exponent, or those of the matrices that have their own."""
    own = {} if isinstance(scale, DepthScaling) else {**scale.own}
    return ", ".join(f"{value} of {name}" for name, value in own.items()) or str(_whole(scale).gamma)


def _branch(scale: Scaling) -> float:
    return float(_whole(scale).branch)


def _whole(scale: Scaling) -> DepthScaling:
    return scale if isinstance(scale, DepthScaling) else scale.scaling


def _is_loss(result: Value) -> bool:
    """Is this what ``last_loss`` returns, as JSON gives it back?"""
    if not isinstance(result, list) or len(result) != 2 or not isinstance(result[1], str):
        return False
    loss = result[0]
    return loss is None or isinstance(loss, float) and math.isfinite(loss)


def _probe_targets(task: Task, targets: ArrayLike | None) -> np.ndarray | None:
    if targets is None:
        return None
    array = _checks.finite_array("probe_targets", targets)
    wanted = None if task.probes is None else (len(task.probes), task.d_out)
    if array.shape != wanted:
        raise ValueError(f"probe_targets: got shape {array.shape}; expected " + (
            f"{wanted}" if wanted else "nothing: the task has no probes"))
    require_targets(task.loss, array[None])
    return array


def _reason(problem: Problem) -> str:
    """Why the training has no limit of infinite depth; "" where it has one, or where the exact method cannot tell."""
    limit = replace(problem, depth=sp.oo)
    if Collocation().refuses(limit) is not None:
        return ""
    try:
        infinite_depth_problem(limit.net, limit.task, limit.opt, limit.scale)  # type: ignore[arg-type]  # a tp.SGD
    except Divergence as divergence:
        return str(divergence)
    return ""


class _Keys:
    """Names of trainings by content: two are equal where everything that decides the result is."""

    def __init__(self, net: ResNet, task: Task, probe_targets: np.ndarray | None, stored: bool) -> None:
        digest = hashlib.sha256((code_digest() if stored else "").encode() + repr(net).encode())
        for array in (task.inputs, task.targets, task.probes, probe_targets):
            digest.update(b"none" if array is None else repr(array.shape).encode() + array.tobytes())
        if stored:
            digest.update(_content("task", "its loss", task.loss).encode())
            if callable(net.block):
                digest.update(_content("net", "its block", net.block).encode())
            if not isinstance(net.skip, (Skip, HyperConnections, type(None))):  # these are their repr
                digest.update(_content("net", "its skip", net.skip).encode())
        self._common, self._stored = digest.hexdigest(), stored

    def key(self, problem: Problem, method: Method) -> str:
        by = _content("method", "value", copy(method)) if self._stored else method.name  # a copy is as pickled
        said = [self._common, repr(problem.scale), str(problem.depth), repr(problem.opt), str(problem.width), by]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def _content(name: str, what: str, value: Value) -> str:
    try:
        return content(value)
    except NotCovered as error:
        raise NotCovered(f"{name}: {what} {_checks.short(value)} cannot be told from others by its content ({error}), "
                         "nor can finished trainings; expected with resume are functions of a module, and objects of a "
                         "module's class with numbers, text and arrays as attributes") from None
