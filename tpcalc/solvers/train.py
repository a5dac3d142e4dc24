"""``train``: one call for any width and depth, infinity included."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, Callable

import numpy as np
import sympy as sp

from .. import _checks
from ..interpreters import read_coefficients
from ..interpreters.conditioned import PRECISIONS
from ..parametrizations import DepthScaling
from ..programs import SGD, ResNet, Task
from ..programs.losses import derivative
from ..programs.updates import OPTIMIZERS, Optimizer
from .block_limit import block_limit
from .blocks import LinearBlock
from .collocation import solve_limit
from .details import BlockDetails, CoefficientDetails, MediumDetails, nearest_nodes, or_all_layers
from .reflection import PackedReflectionMedium, ReflectionMedium
from .run import Run, Trained
from .sampled import Job, train_particles, train_real
from .training import ends_memory, fewer_rows, rows_per_step, train_rows, update_kernel

METHODS = ("auto", "coefficients", "reflection", "collocation", "particles", "dense", "conditioned")
READ_BY = {"seed": ("dense", "conditioned", "particles"), "executor": ("particles",), "samples": ("particles",),
           "batches": ("particles",), "dtype": ("conditioned",)}
REAL, SAMPLED = ("dense", "conditioned"), ("particles", "conditioned")
ONLY_ENDS = ("the blocks' updates of size L^-gamma add up to nothing: read-in and read-out learn, between blocks that "
             "stay at initialisation")
Progress = Callable[[int, int], None]
TOLERANCE = 1e-12        # of outputs at infinite depth
BLOCK_TOLERANCE = 1e-9   # a kink is singular where inputs are collinear: digits cost elements there


def train(net: ResNet, task: Task, opt: Optimizer, scale: DepthScaling, depth: Any, width: Any = sp.oo,
          method: str = "auto", seed: int | None = None, keep_nodes: Any = None, executor: Executor | None = None,
          progress: Progress | None = None, samples: int | None = None, batches: int | None = None,
          dtype: str | None = None) -> Run:
    """Train ``net`` on ``task`` at any width and depth.

    Parameters
    ----------
    opt:
        a tp.SGD; at finite depth also a tp.SignSGD or tp.Adam, by ``"particles"``, ``"conditioned"`` and ``"dense"``:
        the blocks' weights then move by ``lr L^-gamma`` times a direction of order one, over n.
    depth, width:
        whole numbers or ``tp.oo``.
    method:
        ``"auto"`` takes the exact solver where there is one: reflection at finite depth, collocation at
        infinite depth, a dense real network at finite width. ``"coefficients"`` is the slow oracle.
        At infinite depth collocation takes nonlinear blocks too, and blocks of several matrices, as far as they close
        on kernels (``tpcalc.calculus.block_kernels``). At finite depth these are sampled: ``"particles"`` at infinite
        width, ``"conditioned"`` at finite width, which is equal in law to a dense network and needs no n x n matrix.
        At finite width ``"dense"`` runs any network too, with its n x n matrices.
    seed:
        of a real network, or of particles; 0 where none is given.
    keep_nodes:
        layer times in [0, 1] at which covariances are wanted, or ``"all"`` (every node l / L, or every
        collocation node): the solution is then held in memory with the run. ``None`` holds nothing;
        asking for a covariance or a coefficient then trains once more, with all nodes.
    executor:
        any ``concurrent.futures`` executor, for the batches of particles; other readings run in one piece.
    progress:
        called with (steps done, steps) after every training step; with (batches done, batches) of particles.
    samples, batches:
        particles in a batch, and independent batches, of which outputs are the mean. By default 4096, or 1024 for
        updates that average over pairs of particles (tp.Adam, and tp.SignSGD on batches), in 8 batches.
    dtype:
        "float64", which it is where none is given, or "float32"; for ``"conditioned"``.

    An option that the method does not read is refused, also where "auto" chose the method.

    Returns
    -------
    Run
        its docstring gives the shapes.

    Raises
    ------
    ValueError
        for input that is not allowed, before any work.
    Divergence
        where the solution blows up (naming the step and layer), or where depth=tp.oo has no limit.
    MemoryError
        before the work, where it cannot fit.
    """
    for name, value, kinds in (("net", net, (ResNet,)), ("task", task, (Task,)), ("opt", opt, OPTIMIZERS),
                               ("scale", scale, (DepthScaling,))):
        if not isinstance(value, kinds):
            names = " or ".join(f"tp.{kind.__name__}" for kind in kinds)
            raise ValueError(f"{name}: {value!r} given; allowed is a {names}")
    layers = _checks.positive_integer("depth", depth, infinite=True)
    n = _checks.positive_integer("width", width, infinite=True)
    plain = net.is_plain and isinstance(opt, SGD)
    method = _method(_checks.choice("method", method, METHODS), layers, n, plain)
    if method == "dense" and layers is None:
        raise ValueError("method: 'dense' given with depth=tp.oo; allowed is a finite depth and width")
    from_program = method in SAMPLED or method == "dense"
    if not from_program:
        _require_sums_of_outer_products(opt, method)
        if layers is not None:
            net.require_plain(f"method={method!r}", trained_ends=True)
    opt.schedule(task.steps)
    _require_numbers(opt)
    scale._require_numbers()
    _require_read(method, seed=seed, executor=executor, samples=samples, batches=batches, dtype=dtype)
    _checks.with_methods("executor", executor, ("submit", "map"), "an executor as of concurrent.futures")
    _checks.with_methods("progress", progress, ("__call__",), "a function")
    seed = 0 if seed is None else _checks.whole_number("seed", seed)
    dtype = "float64" if dtype is None else _checks.choice("dtype", dtype, PRECISIONS)
    times = _layer_times(keep_nodes, layers)
    if net.norm is not None:
        _require_inputs(task)
    if from_program and layers is not None:
        job, keep = Job(net, task, opt, scale, layers), keep_nodes is not None
        if n is not None:
            return train_real(job, method, n, seed, dtype, times, keep, progress)
        return train_particles(job, samples, 8 if batches is None else batches, seed, times, keep, executor, progress)
    assert isinstance(opt, SGD)
    if method == "coefficients":
        run = _coefficients(net, task, opt, scale, layers, times, keep_nodes, progress)
    elif method == "reflection":
        run = _reflection(net, task, opt, scale, layers, times, keep_nodes, progress)
    else:
        run = _collocation(net, task, opt, scale, times, keep_nodes, progress)
    return replace(run, trained=Trained(net, opt, scale))


def _require_read(method: str, **options: Any) -> None:
    """Raise ``ValueError`` for an option that was given and that the method does not read."""
    for name, value in options.items():
        if value is not None and method not in READ_BY[name]:
            raise ValueError(f"{name}: {_checks.short(value)} given; method={method!r} does not read it, allowed is "
                             f"nothing, or a method that does: {', '.join(map(repr, READ_BY[name]))}")


def _require_inputs(task: Task) -> None:
    """Raise ``ValueError`` for an input of norm 0, which has no direction to be normalised to."""
    for name, values in (("inputs", task.inputs), ("probes", task.probes)):
        if values is not None and not np.all(np.any(values, axis=-1)):
            place = tuple(int(i) for i in np.argwhere(~np.any(values, axis=-1))[0])
            raise ValueError(f"{name}: an input of norm 0 given, at {place}, with norm='rms', which divides by the "
                             "root mean square of the stream; allowed are inputs other than 0")


def _require_sums_of_outer_products(opt: Optimizer, method: str) -> None:
    if not isinstance(opt, SGD):
        raise ValueError(f"opt: {opt!r} given; method={method!r} takes a tp.SGD, whose updates are sums of outer "
                         "products; allowed for functions of their entries (tp.SignSGD, tp.Adam) are, at finite depth, "
                         "'particles', and 'conditioned' and 'dense' at finite width")


def _require_numbers(opt: Optimizer) -> None:
    symbols = [str(value) for value in vars(opt).values() if isinstance(value, sp.Expr) and value.free_symbols]
    if symbols:
        raise ValueError(f"opt: {opt!r} given; training takes numbers for {', '.join(symbols)}")


def _method(method: str, depth: int | None, width: int | None, plain: bool) -> str:
    if method == "auto":
        if width is not None:
            return "dense" if plain or depth is None else "conditioned"
        return "collocation" if depth is None else "reflection" if plain else "particles"
    if (method in REAL) != (width is not None):
        raise ValueError(f"method: {method!r} given with width {width or 'tp.oo'}; allowed are 'dense' and "
                         "'conditioned' at finite width, the others at width=tp.oo")
    if (method == "collocation") != (depth is None):
        raise ValueError(f"method: {method!r} given with depth {depth or 'tp.oo'}; allowed is 'collocation' at "
                         "depth=tp.oo, the others at finite depth")
    return method


def _layer_times(keep_nodes: Any, depth: int | None) -> np.ndarray | None:
    """The layer times of the covariances; None: all nodes."""
    if keep_nodes is None or (isinstance(keep_nodes, str) and keep_nodes == "all"):
        return None
    if isinstance(keep_nodes, (bool, np.bool_, str)):
        raise ValueError(f"keep_nodes: {keep_nodes!r} given; allowed are None, 'all' or layer times in [0, 1]")
    times = np.atleast_1d(_checks.finite_array("keep_nodes", keep_nodes))
    if times.ndim != 1 or not len(times) or times.min() < 0 or times.max() > 1:
        raise ValueError(f"keep_nodes: {keep_nodes!r} given; allowed are None, 'all' or layer times in [0, 1]")
    return times if depth is None else nearest_nodes(times, depth) / depth


def _coefficients(net: ResNet, task: Task, opt: SGD, scale: DepthScaling, depth: int | None,
                  times: np.ndarray | None, keep_nodes: Any, progress: Progress | None) -> Run:
    assert depth is not None

    def solve() -> Any:
        return read_coefficients(task, opt, scale, depth, progress, net.train_ends)

    solution = solve()
    kept = solution if keep_nodes is not None else None
    round_off = np.finfo(float).eps * depth * task.steps * max(1.0, float(np.max(np.abs(solution.outputs))))
    return Run(task, solution.outputs, solution.probe_outputs, or_all_layers(times, depth), "coefficients", depth, None,
               round_off, details=lambda: CoefficientDetails(kept or solve()))


def _reflection(net: ResNet, task: Task, opt: SGD, scale: DepthScaling, depth: int | None,
                times: np.ndarray | None, keep_nodes: Any, progress: Progress | None) -> Run:
    assert depth is not None

    def solve(samples: str) -> Any:
        b = rows_per_step(task, samples)
        stacks = 5.0 if b == 1 else 10.0  # ten of triangles, or of matrices
        _checks.memory(stacks * 8 * (depth + 1) * (b * task.steps) ** 2, f"method='reflection' at depth {depth}",
                       "fewer steps, a smaller batch or a smaller depth fit")
        rho, w = opt.memory(task.steps)
        between = np.repeat(rho, b), update_kernel(w, task, samples)
        physics = scale.multiplier(depth), scale.update_factor(depth), *between
        medium = PackedReflectionMedium(depth, *physics) if b == 1 else ReflectionMedium(depth, b, *physics)
        ends = ends_memory(net.train_ends, *between)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is a Divergence
            trace = train_rows(task, medium, samples, _each_step(progress, task), ends)
        return trace, medium.solution() if isinstance(medium, PackedReflectionMedium) else medium

    samples = fewer_rows(task) if keep_nodes is None else "plain"
    trace, medium = solve(samples)
    kept = medium if keep_nodes is not None else None
    round_off = max(trace.mismatch, np.finfo(float).eps * float(np.max(np.abs(trace.outputs))))
    return Run(task, trace.outputs, trace.probe_outputs, or_all_layers(times, depth), "reflection", depth, None,
               round_off, details=lambda: _medium_details(net, task, scale.sign, trace.outputs,
                                                          kept or solve("plain")[1]))


def _collocation(net: ResNet, task: Task, opt: SGD, scale: DepthScaling, times: np.ndarray | None, keep_nodes: Any,
                 progress: Progress | None) -> Run:
    cell, block = block_limit(net, task, opt, scale)
    linear = isinstance(block, LinearBlock)
    notes = (ONLY_ENDS,) if net.train_ends and cell.drift == 0 else cell.notes

    def solve(samples: str) -> Any:
        return solve_limit(task, opt, cell.noise, cell.drift, samples, TOLERANCE if linear else BLOCK_TOLERANCE,
                           _each_step(progress, task), block, net.train_ends)

    # rows for every output stand for batches through linearity
    trace, medium, error = solve(fewer_rows(task) if keep_nodes is None and linear else "plain")
    kept = medium if keep_nodes is not None else None
    return Run(task, trace.outputs, trace.probe_outputs, medium.layer_times if times is None else times, "collocation",
               None, None, float(error), notes, linear=linear,
               details=lambda: _medium_details(net, task, scale.sign, trace.outputs, kept or solve("plain")[1], linear))


def _each_step(progress: Progress | None, task: Task) -> Callable[[int], None]:
    return (lambda t: None) if progress is None else (lambda t: progress(t + 1, task.steps))


def _medium_details(net: ResNet, task: Task, sign: int, outputs: np.ndarray, medium: Any, linear: bool = True
                    ) -> MediumDetails:
    chi = np.concatenate([derivative(task.loss, f, y) for f, y in zip(outputs, task.targets)])
    kind = MediumDetails if linear else BlockDetails
    return kind(medium, task.inputs.reshape(-1, task.d_in), chi, net.train_ends, sign)
