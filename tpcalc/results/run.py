"""What training returns, whatever the reading: outputs at once, covariances and Gamma, C when asked for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import Any, Callable, Protocol, Sequence

import numpy as np
import sympy as sp

from .._types import Fields, Json, Number, Value
from .. import _checks
from .._shown import brief, html_table, pyplot, text_table
from ..errors import Divergence, NotCovered
from ..interpreters.training import BlockRecord
from ..propagators.limit_cell import limit_cell
from ..optimizers import SGD, Muon, NormalizedSGD
from ..optimizers.sgd import on_sphere
from ..data import Sequences, Task
from ..training.problem import Problem
from ..finite_width.crossover import FirstUpdate, of_rank_one
from ..finite_width.drawn_networks import (SEEDS, DrawnAtWidth, drawn_at_width, extrapolated_to_width,
                                           reason_of_powers, refusal_of_powers)
from ..finite_width.fluctuations import OutputsAtWidth, Fluctuations
from ..finite_width.loss_bands import LossesAtWidth, band_of, gaussian_outputs
from . import drawing
from .limit_biases import BlockFluctuations
from .sampled_fluctuations import SampledFluctuations, is_smooth
from .sphere import Sphere

Index = int | tuple[int, int]
OF_PROGRAMS = ("particles", "coefficients")  # methods at infinite width that read the program of any training
ROUNDING = 1e-12  # what p + eps may exceed 1 by, where both are rounded decimals


class Details(Protocol):
    """What is known at every node of a trained network; rows are samples (step, input), flattened."""

    def covariance(self, forward: bool, layer_times: np.ndarray) -> np.ndarray:
        """<x|x> or <delta|delta>, shape (nodes, N, N)."""

    def gamma(self, row_t: int, row_s: int, a: int, b: int, p: float, q: float) -> float:
        """Gamma_{t,s,a,b}(p, q); row -1 stands for U and nV."""

    def c(self, row_t: int, row_s: int, a: int, p: float) -> float:
        """C_{t,s,a}(p)."""

    def cross_covariance(self, row_t: int, row_s: int, a: int, b: int, p: float, q: float) -> float:
        """<x|x>, <x|delta> or <delta|delta> between two places."""

    def difference(self, row: int, a: int, p: float, length: float) -> float:
        """The root mean square of what x (a = 0) or delta (a = 1) changes by from p to p + length."""


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A trained network. Two runs are equal where their tasks hold the same numbers and all that is stored agrees.

    Attributes
    ----------
    outputs: (steps, batch, d_out), f_t before the update of step t.
    probe_outputs: (steps, m, d_out), the same for the task's probes, or None.
    losses: (steps,), mean over the batch.
    layer_times: (nodes,), l / L or times in [0, 1], of the covariances.
    method, depth, width: which reading; None stands for infinity.
    error_estimate: how far the outputs may be off: round-off of the exact readings at finite depth,
        discretization at infinite depth, the scale of one seed's fluctuation (at initialization,
        falling like n^-1/2) for a real network; of particles what holds all outputs with 95% confidence, by
        Student's distribution of the means of batches (a bias of order 1/samples is not in it); with common draws
        the largest over outputs of such a quantile of the standard error, plus the bias bound.
    limit: trains another problem of infinite width by the run's method, or by what takes it; None for runs that were
        loaded, or that no ``tp.train`` has returned.
    standard_error, bias_bound: of the shape of outputs, where depths were extrapolated from batches: how far the mean
        may be off by chance, and by the finite depths; None elsewhere.
    notes: what should be known about this result, in words.
    linear: whether blocks are linear ones of one matrix.
    problem: what was trained, a ``tp.Problem``.
    exact: whether the method is exact, but for round-off or discretization: nothing is drawn.
    details: a picklable value; called, it gives what is known at every node, by training once more unless it was kept.
    blocks: the same of what matrices of blocks met, for readings of the program of a training, None for others.
    sphere: what weights on spheres were divided by in a real network; None for all else, at infinite width too, where
        the norms do not move, and for runs that were loaded.

    >>> import tpcalc as tp
    >>> net, opt, scale, task = tp.ResNet(), tp.SGD(1.0), tp.DepthScaling(0.5, 0.5), tp.Task([1, 0.8], [1, -0.7])
    >>> run = tp.train(net, task, opt, scale, depth=tp.oo)
    >>> run.method, run.outputs.ravel().round(4).tolist(), run.error_estimate < 1e-10
    ('collocation', [0.0, 2.1746], True)
    """

    task: Task | Sequences
    outputs: np.ndarray
    probe_outputs: np.ndarray | None
    layer_times: np.ndarray
    method: str
    depth: int | None
    width: int | None
    error_estimate: float
    notes: tuple[str, ...] = ()
    linear: bool = field(default=True, repr=False, kw_only=True)
    details: Callable[[], Details] = field(repr=False, kw_only=True)
    problem: Problem = field(repr=False, kw_only=True)
    exact: bool = field(default=False, repr=False, kw_only=True)
    blocks: Callable[[], tuple[BlockRecord, ...]] | None = field(default=None, repr=False, kw_only=True)
    start: Callable[[], dict[str, np.ndarray]] | None = field(default=None, repr=False, kw_only=True)
    sphere: Sphere | None = field(default=None, repr=False, kw_only=True)
    standard_error: np.ndarray | None = field(default=None, repr=False, kw_only=True)
    bias_bound: np.ndarray | None = field(default=None, repr=False, kw_only=True)
    limit: Callable[[Problem], Run] | None = field(default=None, repr=False, kw_only=True)

    def __repr__(self) -> str:
        depth, width = ("oo" if size is None else size for size in (self.depth, self.width))
        return (f"Run(method={self.method!r}, depth={depth}, width={width}, outputs={brief(self.outputs)}, "
                f"last_loss={self.losses[-1]:.6g}, error_estimate={self.error_estimate:.2g})")

    def _repr_html_(self) -> str:
        return html_table(self.rows, repr(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and self._words == other._words and all(
            np.array_equal(mine, its) for mine, its in zip(self._arrays.values(), other._arrays.values()))

    def __hash__(self) -> int:
        return hash((self.method, self.depth, self.width, self.outputs.tobytes()))

    @property
    def _words(self) -> Json:
        return {"method": self.method, "depth": self.depth, "width": self.width, "notes": list(self.notes),
                "error_estimate": self.error_estimate, "linear": self.linear, "exact": self.exact,
                "loss": type(self.task.loss).__qualname__}

    @property
    def _arrays(self) -> Fields:
        return {"inputs": self.task.inputs, "targets": self.task.targets, "probes": self.task.probes,
                "outputs": self.outputs, "probe_outputs": self.probe_outputs, "layer_times": self.layer_times,
                "standard_error": self.standard_error, "bias_bound": self.bias_bound}

    @property
    def rows(self) -> list[Fields]:
        """One dictionary a step: step, loss, and where outputs are single numbers output and target."""
        scalar = self.task.targets[0].size == 1
        return list({"step": t, "loss": float(loss), **({"output": f.item(), "target": y.item()}
                                                        if scalar else {})}
                    for t, (loss, f, y) in enumerate(zip(self.losses, self.outputs, self.task.targets)))

    def table(self) -> str:
        """The rows as text, a line a step."""
        return text_table(self.rows)

    def plot(self, ax: Any = None, width: int | None = None, seeds: int | None = None, outputs: bool = False) -> Any:
        """The loss of every step; returns the matplotlib axes.

        ax: where to draw, default a new figure. width: of real networks; the band is what 95 of 100 of them have, the
        dashed curve their mean, and the title says what ``at_width`` warns of. seeds: as in ``at_width``, by which it
        is found. outputs: draw every output and its target, and not the loss.

        Raises ``MissingExtra`` without matplotlib, ``ValueError`` for what are no axes, for seeds without a width, and
        as ``losses_at_width``.
        """
        _checks.axes("ax", ax)
        _checks.flag("outputs", outputs)
        if width is None and seeds is not None:
            raise ValueError(f"seeds: got {_checks.short(seeds)} without a width, of which networks would be drawn; "
                             "expected None, or a width beside it")
        networks = None if width is None else self._networks_at(_checks.positive_integer("width", width), seeds, None,
                                                                None)
        ax = pyplot("Run.plot").subplots(figsize=(5, 3.6), layout="constrained")[1] if ax is None else ax
        depth, wide = ("infinite" if size is None else size for size in (self.depth, self.width))
        steps, label, targets = self.task.steps, f"depth {depth}, width {wide}", None
        curves, others = self.losses[:, None], None if networks is None else self._losses_of(networks[0])[:, :, None]
        if outputs:
            curves, targets = self.outputs.reshape(steps, -1), self.task.targets.reshape(steps, -1)
            others = None if networks is None else networks[0].reshape(-1, *curves.shape)
        drawing.draw_curves(ax, curves, label, None if others is None else (others, f"width {width}"), targets)
        drawing.say(ax, None if networks is None else networks[1])
        ax.set_ylabel("output" if outputs else "loss, mean over the batch")
        return ax

    def save(self, path: str | PathLike[str]) -> None:
        """Write a .npz file: arrays, numbers and words, no code. Covariances, ``sphere`` and functions are not in it.

        Raises ``ValueError`` where nothing can be written.

        >>> import tempfile, tpcalc as tp
        >>> run = tp.train(tp.ResNet(), tp.Task([1, 0.8], [1, -0.7]), tp.SGD(0.5), tp.DepthScaling(), 64)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run.save(f"{folder}/run.npz")
        ...     tp.Run.load(f"{folder}/run.npz") == run
        True
        """
        from . import saved

        try:
            problem: Any = saved.described(self.problem)
        except saved.NoWords as left_out:
            problem = str(left_out)
        saved.write_arrays(path, self._arrays, {**self._words, "problem": problem})

    @classmethod
    def load(cls, path: str | PathLike[str], problem: Problem | None = None) -> Run:
        """A run that ``save`` wrote, equal to it. Questions about its layers are refused: they take a training,
        ``tp.train(run.problem)``; fluctuations are found as ever.

        problem: what was trained, where the file cannot hold it: functions of a user's own, such as blocks, losses and
        optimizers. Raises ``ValueError`` for files that are no saved runs, and for a problem that is missing, or has
        other data than the run.
        """
        from . import saved
        from .outputs_alone import OutputsAlone

        arrays, words = saved.read_arrays(path)
        if problem is not None:
            _checks.instance("problem", problem, Problem, "a tp.Problem or None")
        elif isinstance(words["problem"], str):
            raise ValueError(f"problem: got None, and {_checks.short(path)} does not hold it ({words['problem']}); "
                             "expected the tp.Problem that was trained")
        else:
            with saved.damaged(path):
                problem = saved.problem_of(words["problem"], arrays)
        saved.require_shapes(path, arrays, problem.task)
        run = cls(problem.task, arrays["outputs"], arrays.get("probe_outputs"), arrays["layer_times"], words["method"],
                  words["depth"], words["width"], words["error_estimate"], tuple(words["notes"]),
                  linear=words["linear"], exact=words["exact"], problem=problem,
                  details=OutputsAlone(words["method"], "runs that were not loaded, such as tp.train(run.problem)"),
                  standard_error=arrays.get("standard_error"), bias_bound=arrays.get("bias_bound"))
        for name, mine in run._arrays.items():
            if not np.array_equal(mine, arrays.get(name)) or problem.layers != run.depth or (  # type: ignore[arg-type]
                    problem.neurons != run.width):
                raise ValueError(f"problem: got {_checks.short(problem)}, whose {name} or sizes are not those of "
                                 f"{_checks.short(path)}; expected the tp.Problem that was trained")
        return run

    @cached_property
    def losses(self) -> np.ndarray:
        return self.task.losses(self.outputs)

    @cached_property
    def solved(self) -> Details:
        return self.details()

    @cached_property
    def forward_covariance(self) -> np.ndarray:
        """<x_a^l | x_b^l> at ``layer_times``, shape (nodes, N, N), N = steps * batch, a = step * batch + input.

        Not stored with the run: unless ``keep_nodes`` was given, asking for it trains once more.
        """
        return self.solved.covariance(True, self.layer_times)

    @cached_property
    def backward_covariance(self) -> np.ndarray:
        """<delta_a^l | delta_b^l> at ``layer_times``, normalized gradients; as ``forward_covariance``."""
        return self.solved.covariance(False, self.layer_times)

    def gamma(self, t: Index, s: Index, a: int, b: int, p: float, q: float) -> float:
        """Gamma_{t,s,a,b}(p, q) of Tensor Programs VI, Lemma D.1, for scalar outputs.

        t, s: steps, or (step, input) where a step has several inputs; s = -1 for U (b = 0) and nV (b = 1).
        a: 0 for x_t, 1 for delta_t; b: 0 for the hat of W_0 x_s, 1 for that of W_0^T delta_s; p, q in [0, 1].
        The derivative is scaled by sqrt(L) (not for s = -1). Raises ``ValueError`` outside of these, for
        several outputs, and for sampled readings, where coefficients have no meaning.
        """
        self._scalar_and_exact("gamma")
        row_s = self._row_or_start("s", s)
        times = layer_time("p", p), layer_time("q", q)
        return self.solved.gamma(self.row("t", t), row_s, _bit("a", a), _bit("b", b), *times)

    def c(self, t: Index, s: Index, a: int, p: float) -> float:
        """C_{t,s,a}(p) of Tensor Programs VI, Lemma D.1: the covariance of the base kets of layer ceil(L p)."""
        self._scalar_and_exact("c")
        rows = [self._row_or_start(name, i) for name, i in (("t", t), ("s", s))]
        return self.solved.c(rows[0], rows[1], _bit("a", a), layer_time("p", p))

    def cross_covariance(self, t: Index, s: Index, a: int, b: int, p: float, q: float) -> float:
        """<z_t^p | z_s^q> across layers, z = x for a (or b) 0 and delta for 1: <x|x>, <x|delta>, <delta|delta>.

        t, s: steps, or (step, input) where a step has several inputs; p, q in [0, 1], in any order. At finite
        depth p means layer ceil(L p), as for ``gamma``. In the limit covariances are continuous: p = q is no
        special case. The first question costs a training with all nodes (unless ``keep_nodes`` was given) and as
        much again; the next ones O(log L). A real network answers with averages over its coordinates.

        Raises ``ValueError`` outside of these, and for layers of a real network that were not kept.
        """
        rows = self.row("t", t), self.row("s", s)
        return self.solved.cross_covariance(*rows, _bit("a", a), _bit("b", b), layer_time("p", p), layer_time("q", q))

    def feature_difference(self, t: Index, p: Number, eps: Number) -> Value:
        """d(eps) = sqrt <(x_t^(p + eps) - x_t^p)^2>, of Tensor Programs VI's Definition 5.6, with full relative
        accuracy.

        t: a step, or (step, input). p, eps: numbers or arrays that broadcast, with 0 <= p <= p + eps <= 1; returns a
        float, or an array of their common shape. At finite depth the layers are ceil(L p) and ceil(L (p + eps)), as
        for ``gamma``. Never found by subtracting covariances, so that small eps lose no digits. Cost as for
        ``cross_covariance``: one training, then milliseconds for every pair (p, eps).

        Raises ``ValueError`` outside of these, and for layers of a real network that were not kept.
        """
        return self._differences(self.row("t", t), 0, p, eps)

    def gradient_difference(self, t: Index, p: Number, eps: Number) -> Value:
        """sqrt <(delta_t^(p + eps) - delta_t^p)^2>, normalized gradients; as ``feature_difference``."""
        return self._differences(self.row("t", t), 1, p, eps)

    @cached_property
    def fluctuations(self) -> Fluctuations | SampledFluctuations:
        """What finite width does to the outputs, to leading order: covariances over initializations, biases, cumulants.

        Found when asked for. Of linear networks of one matrix a block all of it. Of nonlinear blocks at infinite depth
        covariances, where they close on kernels, and biases by samples at three depths, with errors; at finite depth
        covariances and biases by samples, with errors, for whatever is made of averages over coordinates and of smooth
        functions of these; with ``zero_readout`` by tp.NormalizedSGD and tp.Muon, too. Raises ``ValueError`` for real
        networks, for sampled readings at infinite depth, for other updates than these, and when asked for what is not
        known: losses other than the named ones, functions with kinks, at infinite depth layers that are visited several
        times, at finite depth attention and choices. Source: [tpcalc/finite_width].
        """
        if self._samples_fluctuations:
            return SampledFluctuations(self.problem)
        if not self.exact:
            raise NotCovered(f"fluctuations: got a run by method={self.method!r}; expected an exact method at "
                             "width=tp.oo, or smooth functions at a finite depth, by a tp.SGD, or with zero_readout by "
                             "a tp.NormalizedSGD or tp.Muon")
        net, optimizer, scale = self.problem.resnet, self.problem.opt, self.problem.depth_scaling
        net.require_one_visit("fluctuations are known")
        net.require_first_outputs("fluctuations are known")
        if self.depth is not None:
            net.require_plain("run.fluctuations at finite depth", trained_embedding_readout=True)
        if not isinstance(optimizer, SGD):
            raise NotCovered(f"fluctuations: got {optimizer!r}; updates that are no linear functions of gradients "
                             "answer the tilt in ways that are not known; expected a tp.SGD")
        if self.depth is None:
            cell = limit_cell(scale, net)
            noise, drift = cell.noise, cell.drift
        else:
            eps = scale.multiplier(self.depth)
            noise, drift = eps**2, eps * scale.update_factor(self.depth)
        known = self.problem.of_vectors, optimizer, self.depth, noise, drift, net.train_embedding_readout
        return Fluctuations(*known) if net.is_plain else BlockFluctuations(*known, net, problem=self.problem)

    @property
    def _samples_fluctuations(self) -> bool:
        """Are they sampled: smooth networks at a finite depth that the tilt does not know, by gradient descent, or
        without first outputs by Muon or normalized updates? Backward passes through kinks jump, and what averages of
        jumps change by is a density, which no sample has."""
        net, linear = self.problem.net, isinstance(self.problem.opt, SGD)
        return self.width is None and self._is_smooth and (
            net.zero_readout and (linear or self._is_of_one_size and not on_sphere(self.problem.opt))
            or self.method in OF_PROGRAMS and linear and not (net.is_plain and net.visits == 1))

    @property
    def _is_smooth(self) -> bool:
        """Are outputs smooth functions of averages over coordinates, at a finite depth?"""
        problem, net = self.problem, self.problem.net
        return (self.depth is not None and problem.is_mup and isinstance(problem.task, Task) and net.visits != sp.oo
                and is_smooth(net))

    @property
    def _is_of_one_size(self) -> bool:
        """Are updates smooth functions of directions?"""
        return isinstance(self.problem.opt, (NormalizedSGD, Muon))

    @cached_property
    def crossover_width(self) -> np.ndarray:
        """The width of every update, (steps - 1,), at which it begins to see the loss and not a fluctuation.

        An update whose size does not follow that of gradients, as those of Muon, of signs and of tp.NormalizedSGD, sees
        the fluctuation of the first outputs: n_c = v Sigma v / (v chi)^2, with the loss derivatives chi of the limit, v
        the leading mode of the tangent kernel and Sigma / n the covariance of outputs, both at initialization, for the
        inputs of the step (for losses other than "mse" Sigma of chi). Ten times n_c is wide. The first is derived; of
        later ones the chi is that of their step, kernels and covariances are not, and they tell an order of magnitude,
        within a factor of five where it was measured. 0 for a tp.SGD.

        Raises ``NotCovered`` for updates that follow the size of gradients in part (clipping, Adam with a large eps),
        tied readouts, sampled runs at infinite depth, and runs that ``tp.train`` has not returned.

        >>> import tpcalc as tp
        >>> run = tp.train(tp.ResNet(), tp.Task([1, 0.8], [1, -0.7]), tp.Muon(0.3), tp.DepthScaling(), depth=4)
        >>> run.crossover_width.round(3).tolist()
        [2.441]
        """
        at_limit = self if self.width is None else self._first_update.limit(replace(self.problem, width=sp.oo))
        return np.array([self._first_update.crossover(t, at_limit.outputs[t]) for t in range(self.task.steps - 1)])

    @cached_property
    def _first_update(self) -> FirstUpdate:
        if self.limit is None:
            raise NotCovered("crossover_width: got a run that was loaded, or that tp.train has not returned; expected "
                             "tp.train(run.problem), which trains again")
        if self.depth is None and not self.exact:
            raise NotCovered(f"crossover_width: got a run by method={self.method!r} at depth=tp.oo, which samples "
                             "several depths; there it is known of exact runs; expected a finite depth")
        rest = None
        if self._is_smooth and self._is_of_one_size and self.task.steps == 2:
            rest = SampledFluctuations(of_rank_one(self.problem)).bias_of_update
        return FirstUpdate(self.problem, self.limit, rest)

    def at_width(self, n: int, probes: bool = False, seeds: int | None = None, executor: Any = None,
                 progress: Callable[[int, int], None] | None = None, widths: Sequence[int] | None = None
                 ) -> OutputsAtWidth:
        """Mean and standard deviation over initializations of the outputs of real networks of width n, and a warning.

        A named tuple (mean, std, warning), arrays of the shape of ``outputs``, or with ``probes`` of
        ``probe_outputs``: by tp.SGD f + b / n and sqrt(Sigma / n), where ``fluctuations`` are known. The series in 1/n
        is asymptotic: ``warning`` is None, or a sentence where its next order is not small, estimated from third and
        fourth cumulants, or where b is sampled from networks that are drawn. Of nonlinear blocks at infinite depth b is
        sampled, which takes a minute, the next order is not known, and ``warning`` says so.

        Of runs with one update whose size does not follow that of gradients, where the loss derivatives of the first
        step lie in a plane: the mean over the fluctuation of first outputs; deviations after the update are not known,
        NaN. By tp.Muon and tp.NormalizedSGD, of smooth functions at a finite depth, with the term of order 1/n, by
        networks that are drawn, and with ``.error``; else without, but of weights on spheres with that of the
        projection. ``crossover_width`` says from which width on the limit is met.

        Of all other runs, and of any with ``seeds``, as many networks of width n are drawn and trained (32 where
        nothing is said): ``warning`` says how large the standard error of the mean is at most, and where the width is
        less than ten crossover widths, ``.error`` has the standard error output by output. executor: for these;
        progress: called with (networks done, seeds).

        widths: others, of which networks are drawn instead, with common draws, to tell a mean at n that is nearer to
        the limit than networks of width n can say: in the powers 1/n (and 1/n^2 of two or more), from this run's
        outputs on. For updates by tp.SGD, and one update of networks with zero_readout; elsewhere no power is derived.

        Raises ``ValueError`` as ``fluctuations``, for widths that the network cannot have, for fewer than 2 seeds, and
        for networks to be drawn at infinite depth; ``Divergence`` where one of them blows up.

        >>> import tpcalc as tp
        >>> task = tp.Task([1, 0.8], [1, -0.7])
        >>> run = tp.train(tp.ResNet("tanh"), task, tp.Muon(0.3), tp.DepthScaling(), depth=4)
        >>> at = run.at_width(64, seeds=8)
        >>> at.mean.shape, at.seeds, at.error.shape
        ((2, 1, 1), 8, (2, 1, 1))
        """
        width, probes = _checks.positive_integer("n", n), _checks.flag("probes", probes)
        self.problem.net.require_width(width)
        if probes and self.probe_outputs is None:
            raise ValueError("probes: got True for a run whose task has none; expected False, or tp.Task(probes=...)")
        if widths is not None:
            return self._extrapolated(width, probes, seeds, executor, progress, widths)
        linear, asked = isinstance(self.problem.opt, SGD), any(one is not None for one in (seeds, executor, progress))
        known = self._samples_fluctuations or (linear and self.exact and not self.problem.net.zero_readout)
        if known and seeds is None:
            for name, given in (("executor", executor), ("progress", progress)):
                if given is not None:
                    raise ValueError(f"{name}: got {_checks.short(given)} for an expansion in 1/n, for which nothing "
                                     "is drawn; expected None, or seeds beside it")
            return self._expanded(width, probes)
        if not linear and not asked:
            try:
                return self._first_update.at_width(width, probes)
            except NotCovered:
                if self.depth is None:
                    raise
        return drawn_at_width(self.problem, width, probes, seeds, executor, progress, self._way_to_limit(width))

    def losses_at_width(self, n: int, seeds: int | None = None, executor: Any = None,
                        progress: Callable[[int, int], None] | None = None) -> LossesAtWidth:
        """Losses over the steps of real networks of width n: their mean, and the two curves between which 95 of 100
        are at every step.

        A named tuple (mean, low, high, warning), arrays (steps,): of draws of Gaussian outputs with the mean and
        covariance of the expansion in 1/n, or of networks that are drawn and trained, as in ``at_width``, whose
        arguments, errors and warning these are. Networks are drawn, too, where deviations are not known.

        >>> import tpcalc as tp
        >>> run = tp.train(tp.ResNet(), tp.Task([1, 0.8], [1, -0.7]), tp.SGD(0.3), tp.DepthScaling(), depth=4)
        >>> at = run.losses_at_width(256)
        >>> bool((at.low < run.losses).all() and (run.losses < at.high).all()), at.warning
        (True, None)
        """
        outputs, warning = self._networks_at(n, seeds, executor, progress)
        losses = self._losses_of(outputs)
        low, high = band_of(losses)
        return LossesAtWidth(np.mean(losses, axis=0), low, high, warning)

    def _networks_at(self, width: int, seeds: int | None, executor: Any, progress: Callable[[int, int], None] | None
                     ) -> tuple[np.ndarray, str | None]:
        """Outputs of networks of a width, (networks, *outputs.shape), and what has to be known about them."""
        at = self.at_width(width, False, seeds, executor, progress)
        if not isinstance(at, DrawnAtWidth) and not isinstance(self.problem.opt, SGD):  # deviations are not known
            at = self.at_width(width, False, SEEDS, executor, progress)
        if isinstance(at, DrawnAtWidth):
            return at.outputs, at.warning
        return gaussian_outputs(at.mean, self.fluctuations.covariance / width), at.warning

    def _losses_of(self, outputs: np.ndarray) -> np.ndarray:
        """(networks, steps)"""
        return np.array([self.task.losses(one) for one in outputs])

    def _extrapolated(self, width: int, probes: bool, seeds: int | None, executor: Any,
                      progress: Callable[[int, int], None] | None, widths: Sequence[int]) -> OutputsAtWidth:
        """From networks of other widths."""
        if self.width is not None:
            raise NotCovered(f"widths: got {_checks.short(widths)} for a run of width {self.width}; means are told "
                             "from the limit on; expected a run of infinite width")
        for one in _checks.sizes("widths", widths):
            self.problem.net.require_width(int(one or 1))
        outputs = self.probe_outputs if probes else self.outputs
        assert outputs is not None
        return extrapolated_to_width(self.problem, outputs, self.error_estimate, width, widths, probes, seeds,
                                     executor, progress)

    def _expanded(self, width: int, probes: bool) -> OutputsAtWidth:
        """By the expansion in 1/n."""
        outputs = self.probe_outputs if probes else self.outputs
        assert outputs is not None
        try:
            return self.fluctuations.at_width(outputs, width, probes)
        except NotCovered as unknown:
            real = self.depth is not None and self.problem.net.visits != sp.oo
            drawn = "; with seeds networks of the width are drawn" if real else ""
            raise NotCovered(f"{unknown}{drawn}") from None

    def _way_to_limit(self, width: int) -> str:
        """In which power of 1/n the mean meets the limit, and why, or that it does not."""
        reason = refusal_of_powers(self.problem)
        if reason is None:
            return f"; it meets the limit like 1/n: {reason_of_powers(self.problem)}"
        try:
            below = self._first_update.warning(width) if self.task.steps > 1 else ""
        except (NotCovered, Divergence):
            below = ""
        return below or f"; no power of 1/n is derived: {reason}"

    def initial_weights(self) -> dict[str, np.ndarray]:
        """{family: array} of what a dense network started from: drawn again from its seed, or copies of those given.

        ``U`` (and ``nV``), one array for each input (output) dimension, N(0, 1), shape (n,) or (d, n); matrices by
        name, N(0, 1/n), shape (L, n, n). ``tp.methods.Dense(weights=...)`` takes them. Raises ``ValueError`` for
        runs by other methods, which draw no such arrays.
        """
        if self.start is None:
            loaded = ", loaded from a file, which holds no weights" if self.method == "dense" else ""
            raise NotCovered(f"initial_weights: got a run by method={self.method!r}{loaded}; expected a run by 'dense' "
                             "that was trained here, such as tp.train(run.problem)")
        return self.start()

    def _differences(self, row: int, a: int, p: Number, eps: Number) -> Value:
        starts, lengths = np.broadcast_arrays(_checks.finite_array("p", p), _checks.finite_array("eps", eps))
        bad = (starts < 0) | (lengths < 0) | (starts + lengths > 1 + ROUNDING)
        if np.any(bad):
            raise ValueError(f"p, eps: got {_checks.short(p)}, {_checks.short(eps)}; expected layer times with "
                             "0 <= p <= p + eps <= 1")
        found = [self.solved.difference(row, a, float(x), float(y)) for x, y in zip(starts.ravel(), lengths.ravel())]
        return found[0] if starts.ndim == 0 else np.reshape(found, starts.shape)

    def _scalar_and_exact(self, name: str) -> None:
        if self.task.d_out != 1:
            raise NotCovered(f"{name}: defined for scalar outputs; this task has d_out = {self.task.d_out}")
        if self.width is not None:
            raise NotCovered(f"{name}: got a network of width {self.width}; coefficients exist at infinite width")

    def _row_or_start(self, name: str, index: Index) -> int:
        return -1 if isinstance(index, (int, np.integer)) and index == -1 else self.row(name, index)

    def row(self, name: str, index: Index) -> int:
        """The row of a step, or of (step, input); name: what it is called where it is refused."""
        return row_of(self.problem.of_vectors, name, index)


def row_of(task: Task, name: str, index: Index) -> int:
    """The row of a step of a task, or of (step, input); raises ``ValueError`` for any other, by its name."""
    pair = isinstance(index, tuple) and len(index) == 2
    step: Any
    step, sample = index if pair else (index, 0)  # type: ignore[misc]
    if not pair and task.batch > 1:
        raise ValueError(f"{name}: got step {_checks.short(index)}; expected, with {task.batch} inputs a step, "
                         "(step, input)")
    whole = all(isinstance(i, (int, np.integer)) and not isinstance(i, bool) for i in (step, sample))
    if not (whole and 0 <= step < task.steps and 0 <= sample < task.batch):
        raise ValueError(f"{name}: got {_checks.short(index)}; expected steps 0..{task.steps - 1}, inputs "
                         f"0..{task.batch - 1}")
    return int(step * task.batch + sample)


def _bit(name: str, value: int) -> int:
    if not isinstance(value, (int, np.integer, sp.Integer)) or value not in (0, 1):
        raise ValueError(f"{name}: got {_checks.short(value)}; expected 0 (forward) and 1 (backward)")
    return int(value)


def layer_time(name: str, value: float) -> float:
    """A number in [0, 1]; raises ``ValueError`` for others."""
    time = _checks.real_number(name, value, finite=False)
    if not 0 <= time <= 1:
        raise ValueError(f"{name}: got {_checks.short(value)}; expected a layer time in [0, 1]")
    return time
