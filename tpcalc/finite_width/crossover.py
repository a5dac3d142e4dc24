"""Updates whose size does not follow that of gradients see the fluctuation of the first outputs, at any width.

The first outputs f_0 are Gaussian with covariance Sigma_0 / n. An update of degree 0 in the loss derivative chi reads
its direction and not its size: the mean over networks of what the first update does is E F(chi(g / n^(1/2))) with g ~
N(0, Sigma_0), where F is what it does at infinite width. That meets F(chi(0)) from the crossover width n_c on, at which
the fluctuation of chi along the leading mode of the tangent kernel is as large as chi is. Updates that are linear in
chi have no such term: it vanishes in the mean.

With D what the first update of a network does to its outputs, by given loss derivatives, and C(chi) / n its covariance
with f_0, the next term is (b(chi) + div C(chi)) / n: b / n is the bias of D, which a network with ``zero_readout`` has,
and the divergence is what is left of E C(chi(g / n^(1/2))) Sigma_0^-1 g / n^(1/2), D being drawn with g.

F is odd, since chi and the readout may change their signs together: where all chi lie in a plane, half a circle of
directions says all of it.

Source: [tpcalc/finite_width].
"""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass, replace
from functools import cached_property
from typing import Any, Callable, Protocol, cast

import numpy as np
import sympy as sp

from .. import _checks
from .._checks import short
from .._types import Value
from ..data import Sequences, Task
from ..data.losses import SquaredLoss, derivative
from ..errors import Divergence, NotCovered
from ..interpreters.lowered_particles import particles
from ..interpreters.training import Training, placed
from ..models import ResNet, Transformer
from ..optimizers import SGD, Adam, Lion, Muon, NormalizedSGD, SignSGD
from ..optimizers.sgd import on_sphere
from ..optimizers.sign_ambiguity import follows_size
from ..optimizers.updates import kind_of_updates, unclipped
from ..scaling import DepthScaling
from ..training.problem import Problem
from ..models.skips import Way
from .fluctuations import OutputsAtWidth
from .half_circle import Arc, arcs_of, mean_over

SMALL_RATE = 1e-4  # of the steps that a tangent kernel is read off; what is left out is of second order in it
SETTLED = 1e-3     # what a direction of length one changes by when an iteration has settled
MOST = 20          # iterations
SLOPE = 1e-5       # of central differences
DEGREE = 1e-4      # what twice a gradient of order one may change an update by, over the update
NONE = 1e-9        # of the largest, below which a direction is none
RESOLVED = 1e-3    # of the largest output: what a mean may be off by
FAR = 10           # times the crossover width: from there on nothing is said


class LimitRun(Protocol):
    """What is needed of a training at infinite width, a ``Run``."""

    @property
    def outputs(self) -> np.ndarray: ...

    @property
    def probe_outputs(self) -> np.ndarray | None: ...

    @property
    def exact(self) -> bool: ...

    @property
    def error_estimate(self) -> float: ...

    @property
    def solved(self) -> Any: ...


class MeanAtWidth(OutputsAtWidth):
    """Mean outputs that are known to order 1/n; error: the standard error of the mean."""

    error: np.ndarray


@dataclass(frozen=True)
class FirstUpdate:
    """What the first outputs' fluctuation does to the updates of a problem. limit: trains another at infinite width;
    rest: of the outputs after the first update, or of the probes', n (mean - E F) and its standard error, or None."""

    problem: Problem
    limit: Callable[[Problem], LimitRun]
    rest: Callable[[bool], tuple[np.ndarray, np.ndarray]] | None = None

    @property
    def is_linear(self) -> bool:
        """Do updates follow the size of gradients?"""
        return kind_of_updates(self.problem.opt) == "linear"

    def crossover(self, step: int, outputs: np.ndarray) -> float:
        """n_c = v Sigma v / (v chi)^2 of a step: Sigma and the leading mode v are those of initialization, for the
        inputs of the step, and chi, with its derivative in outputs, which Sigma is taken between, that of
        ``outputs``. 0 for updates that are linear in chi and where first outputs are taken away, infinite where v does
        not see the loss."""
        if self.is_linear or self.problem.net.zero_readout:
            return 0.0
        self.require_known()
        y = self.problem.task.targets[step]
        sigma = self.covariance if step == 0 else self._covariance(self.problem.task.inputs[step])
        v = self.leading_mode(step, np.linalg.eigh(sigma)[1][:, -1].reshape(y.shape))
        nearby = SLOPE * np.eye(y.size).reshape(-1, *y.shape)
        slopes = (self.chi(outputs + nearby, step) - self.chi(outputs - nearby, step)) / (2 * SLOPE)
        answer = slopes.reshape(y.size, y.size) @ v.ravel()
        seen = float(np.sum(v * self.chi(outputs, step)))
        return float(answer @ sigma @ answer) / seen**2 if seen else float("inf")

    def require_known(self) -> None:
        """Raise ``NotCovered`` for optimizers, networks and scalings for which no crossover is derived."""
        net, opt = self.problem.net, self.problem.opt
        if opt is not unclipped(opt):
            raise NotCovered(f"opt: got {_checks.short(opt)}; a clipped update follows the size of its gradient below "
                             "a bound and not above it; the crossover in width is known of updates that never do, and "
                             "of a tp.SGD; expected one without clipping")
        if net.ties_embedding_readout:
            raise NotCovered(f"net: got {_checks.short(net)}, whose first outputs are no fluctuation; the crossover in "
                             "width is known where the readout is drawn by itself; expected tied=False")
        if not self.problem.is_mup:
            raise NotCovered(f"scale: got {_checks.short(self.problem.scale)}; the crossover in width is known where "
                             "first outputs are of order n^(-1/2); expected muP in width")
        part = None if kind_of_updates(opt) == "spectral" else follows_size(opt)
        if part is None or part > DEGREE:
            raise NotCovered(f"opt: got {_checks.short(opt)}, whose updates follow the size of gradients in part, or "
                             "in a way that is not known; the crossover in width is known of updates that do not, as "
                             "with eps=0, and of a tp.SGD")

    @cached_property
    def covariance(self) -> np.ndarray:
        """Sigma_0 of the first step, (outputs, outputs), flat as its targets are."""
        return self._covariance(self.problem.task.inputs[0])

    def _covariance(self, inputs: np.ndarray) -> np.ndarray:
        """n times the covariance of the first outputs for inputs: overlaps of what is read; components of an output
        are independent."""
        task = self.problem.task
        one = self._trained([inputs], [np.zeros((*inputs.shape[:-1], task.d_out))], SGD(0.0))
        found = self.limit(one)
        overlaps = found.solved.covariance(True, np.ones(1))[0] if found.exact else overlaps_of_particles(one)
        return np.kron(overlaps, np.eye(task.d_out))

    def leading_mode(self, step: int, v: np.ndarray) -> np.ndarray:
        """That of the tangent kernel at initialization, of length one and shaped as the step's targets, by iteration
        from v with small steps of gradient descent."""
        inputs = self.problem.task.inputs[step]
        for _ in range(MOST):
            f = self.limit(self._trained([inputs, inputs], [v, v], SGD(SMALL_RATE))).outputs
            before, size = v, float(np.linalg.norm(f[1] - f[0]))
            if size == 0:
                raise NotCovered(f"net: got {_checks.short(self.problem.net)}, whose tangent kernel at initialization "
                                 "is 0; the crossover in width is known where outputs can be learned")
            v = (f[1] - f[0]) / size
            if np.linalg.norm(v - before) < SETTLED:
                break
        return v

    @property
    def first_chi(self) -> np.ndarray:
        """The loss derivatives of the first step at infinite width, where outputs are 0."""
        return self.chi(np.zeros_like(self.problem.task.targets[0]))

    def chi(self, outputs: np.ndarray, step: int = 0) -> np.ndarray:
        """Loss derivatives at outputs of a step, one array of them or several."""
        y = self.problem.task.targets[step]
        shape = (-1, y.shape[-1])
        return derivative(self.problem.task.loss, outputs.reshape(shape),
                          np.broadcast_to(y, outputs.shape).reshape(shape)).reshape(outputs.shape)

    def _moved(self, chi: np.ndarray) -> tuple[np.ndarray, float]:
        """F: outputs after the first update at infinite width, by these loss derivatives; flat, with those of probes
        after those of the batch; and how far they may be off."""
        task, opt = self.problem.task, self.problem.opt
        if isinstance(opt.lr, tuple):
            if not is_dataclass(opt):
                raise NotCovered(f"opt: got {_checks.short(opt)} with a schedule; the crossover in width is known of "
                                 "optimizers that are dataclasses, whose lr can be replaced")
            opt = replace(opt, lr=(opt.lr * 2)[:2])  # type: ignore[arg-type]
        after = min(1, task.steps - 1)
        found = self.limit(self._trained([task.inputs[0], task.inputs[after]], [-chi, task.targets[after]], opt,
                                         task.probes))
        probes = [] if found.probe_outputs is None else [found.probe_outputs[1].ravel()]
        return np.concatenate([found.outputs[1].ravel(), *probes]), found.error_estimate

    def _trained(self, inputs: list[np.ndarray], targets: list[np.ndarray], opt: Value,
                 probes: np.ndarray | None = None) -> Problem:
        """The training on these steps at infinite width, by the squared loss, whose derivatives at 0 are -targets."""
        sequences = isinstance(self.problem.task, Sequences)
        task = Sequences(inputs, targets) if sequences else Task(np.array(inputs), np.array(targets), probes=probes)
        return replace(self.problem, task=task, opt=opt, width=sp.oo)

    @cached_property
    def plane(self) -> np.ndarray:
        """Two orthonormal rows that all loss derivatives of the first step are combinations of, (2, outputs), or one.

        Raises ``NotCovered`` where they are combinations of more.
        """
        y = self.problem.task.targets[0]
        rows = np.eye(y.size)
        if y.size > 2 and isinstance(self.problem.task.loss, SquaredLoss):
            _, sizes, found = np.linalg.svd(np.vstack([y.reshape(1, -1), root_of_covariance(self.covariance).T]))
            rows = found[:int(np.sum(sizes > NONE * sizes[0]))]
        if len(rows) > 2:
            raise NotCovered(f"task: got {self.problem.task}; the mean over the fluctuation of first outputs is found "
                             "where loss derivatives of the first step lie in a plane: of two outputs, or, with the "
                             "squared loss, of inputs that are multiples of one")
        return rows

    def mean(self, width: int) -> np.ndarray:
        """E F at a width, flat."""
        y, sigma = self.problem.task.targets[0], root_of_covariance(self.covariance)

        def directions(gaussians: np.ndarray) -> np.ndarray:
            outputs = (gaussians @ sigma.T / np.sqrt(width)).reshape(-1, *y.shape)
            return np.asarray(self.chi(outputs).reshape(len(gaussians), -1) @ self.plane.T)

        return mean_over(self._arcs, directions, sigma.shape[1])

    @cached_property
    def at_limit(self) -> tuple[np.ndarray, float]:
        """F of infinite width, flat, and how far it may be off, there and elsewhere."""
        value, error = self._moved(self.first_chi)
        return value, max(RESOLVED * float(np.max(np.abs(value))), error)

    @cached_property
    def _arcs(self) -> list[Arc]:
        """F on half a circle of directions in the plane."""
        shape = self.problem.task.targets[0].shape

        def along(direction: np.ndarray) -> np.ndarray:
            try:
                return self._moved((direction @ self.plane).reshape(shape))[0]
            except Divergence as unknown:
                raise NotCovered("at_width: some networks move along loss derivatives whose update is not known at "
                                 f"infinite width: {unknown}") from None

        return arcs_of(along, self.plane @ self.first_chi.ravel(), self.at_limit[1])

    def at_width(self, width: int, probes: bool = False) -> OutputsAtWidth:
        """Mean and standard deviation of a training of one update at most, as far as they are known: at the second
        step deviations are NaN. Raises ``NotCovered`` where no mean is derived."""
        task, opt = self.problem.task, self.problem.opt
        self.problem.net.require_first_outputs("the mean over their fluctuation is known")
        if self.is_linear:
            raise NotCovered(f"opt: got {_checks.short(opt)}, whose updates are linear in the fluctuation of first "
                             "outputs: it has no part in their mean")
        if task.steps > 2:
            raise NotCovered(f"task: got {task.steps} steps; the mean over the fluctuation of first outputs is known "
                             "after one update: the next one sees what the first has made of other fluctuations, too; "
                             "expected at most 2 steps")
        if kind_of_updates(opt) in ("orthogonal", "spectral") and not self.problem.net.is_linear:
            raise NotCovered(f"opt: got {_checks.short(opt)} with {_checks.short(self.problem.net)}; the mean over the "
                             "fluctuation of first outputs takes directions of whole matrices in linear networks, "
                             "where none is sampled")
        self.require_known()
        inputs, which = task.inputs[0], slice(task.targets[0].size)
        if probes:
            assert task.probes is not None
            inputs, which = task.probes, slice(task.targets[0].size, None)
        shape = (*inputs.shape[:-1], task.d_out)
        variances = np.diag(self.covariance if not probes else self._covariance(inputs)).reshape(shape)
        mean, std = np.zeros((task.steps, *shape)), np.full((task.steps, *shape), np.nan)
        std[0] = np.sqrt(variances / width)
        if task.steps > 1:
            at = FirstUpdate(as_free_update(self.problem, width), self.limit) if on_sphere(opt) else self
            moved = at.mean(width)
            mean[1] = moved[which].reshape(shape)
        said = (f"at width {width} the mean at step 1 is that over the fluctuation of first outputs"
                f"{', that of the projection is in it' * on_sphere(opt)}")
        beside = f"; with seeds networks of the width are drawn{self.warning(width)}"
        if task.steps == 1 or self.rest is None:
            return OutputsAtWidth(mean, std, f"{said}, and {'other ' * on_sphere(opt)}terms of order 1/n are not "
                                  f"known, nor is the deviation{beside}")
        rest, error = self.rest(probes)
        limit, resolution = self.at_limit
        mean[1] += rest * float(moved @ limit / (limit @ limit or 1.0)) / width  # odd in chi, as F is: both turn
        found = MeanAtWidth(mean, std, f"{said}, with the term of order 1/n, to {np.max(error) / width:.1g}; the "
                            f"deviation is not known{beside}")
        found.error = np.stack([0 * error, np.hypot(error / width, resolution)])
        return found

    def warning(self, width: int) -> str:
        """What is said below ten times the crossover width of the first update, "" from there on."""
        known = self.first_crossover
        return "" if width >= FAR * known else (
            "; updates of one size see the fluctuation of first outputs: the crossover width of the first update is "
            f"{known:.3g}, and the limit says little below {FAR * known:.3g}")

    @cached_property
    def first_crossover(self) -> float:
        """That of the first update, at the outputs of infinite width, which are 0."""
        return self.crossover(0, np.zeros_like(self.problem.task.targets[0]))


def root_of_covariance(covariance: np.ndarray) -> np.ndarray:
    """(outputs, rank): a root of a covariance, of the directions in which it is any."""
    values, vectors = np.linalg.eigh(covariance)
    there = values > NONE * values[-1]
    return np.asarray(vectors[:, there] * np.sqrt(values[there]))


def overlaps_of_particles(problem: Problem) -> np.ndarray:
    """<x|x> of what the readout acts on, (rows, rows) of the samples and positions of a step, by particles."""
    net = problem.net
    if problem.layers is None:
        raise NotCovered(f"net: got {_checks.short(net)} at depth=tp.oo, which is sampled at several depths; the "
                         "crossover in width is known of exact runs there; expected a finite depth")
    job = Training(net, problem.task, problem.opt, problem.scale, problem.layers)
    last = tuple(int(index.subs(job.sizes())) for index in Way.of(net).last)
    read = ({"r": 1.0} if not net.reads_stream else
            {stream.name: float(weight) for stream, weight in zip(net.streams, net.readout_weights) if weight})
    run = placed(lambda: particles(job.program(), job.sizes(), job.data(), loss=job.task.loss, keep=tuple(read)),
                 job.depth)

    def overlaps(batch: Any) -> np.ndarray:
        at = last if net.reads_stream else ()
        features = sum(weight * batch.stack(name, 0, *at) for name, weight in read.items())
        rows = features.reshape(-1, features.shape[-1])
        return np.asarray(rows @ rows.T / rows.shape[1])

    return np.asarray(np.mean([overlaps(batch) for batch in run.batches], axis=0))


def brought_back(problem: Problem, width: int) -> float:
    """rho = (1 + g^2 / n)^(-1/2), what the first update on spheres of every matrix is multiplied by at width n.

    N^2 = 1 - 2 g <W, U> / R^2 + g^2 |U|^2 / R^2, with R^2 = n of an n x n matrix. First outputs vanish at infinite
    width and <W, U> with them: it is a fluctuation. |U|^2 is 1 of a gradient over its norm, of an orthogonal step of
    rank one, and of n^2 signs of size 1 / n. Raises ``NotCovered`` for other matrices and other sizes of updates; of
    several samples the mean over first outputs refuses what makes ranks larger.

    >>> import tpcalc as tp
    >>> task, opt = tp.Task([1, 0.8], [1, -0.7]), tp.Muon(0.5, sphere=True)
    >>> round(brought_back(tp.Problem(tp.ResNet(), task, opt, tp.DepthScaling(1, 0), 4), 64) ** -2 - 1, 8)
    0.00390625
    """
    net, opt, scale = problem.net, problem.opt, problem.scale
    named = isinstance(net, Transformer) or isinstance(net, ResNet) and isinstance(net.block, str)
    if not (named and net.visits == 1 and net.narrow is net):
        raise NotCovered(f"net: got {short(net)}; what the first update adds to norms of matrices is known of n x n "
                         "matrices that are visited once, in blocks with a name")
    if not isinstance(scale, DepthScaling):
        raise NotCovered(f"scale: got {short(scale)}; what the first update adds to norms of matrices is known where "
                         "all updates are of one size; expected a tp.DepthScaling")
    if not isinstance(opt, (Muon, NormalizedSGD, Adam, SignSGD)) or getattr(opt, "newton_schulz_steps", None):
        raise NotCovered(f"opt: got {short(opt)}; what the first update adds to norms of matrices is known of exact "
                         "directions of tp.Muon, tp.NormalizedSGD, tp.SignSGD and tp.Adam")
    if isinstance(opt, Muon) and not net.is_linear:
        raise NotCovered(f"opt: got {short(opt)} with {short(net)}; what the first update adds to norms of matrices is "
                         "known of gradients of rank one, which those of linear networks are")
    rate: Value = opt.lr[0] if isinstance(opt.lr, tuple) else opt.lr
    size = scale.update_size(problem.layers or 1)
    if problem.layers is None and scale.gamma > 0:  # one update of a layer is none
        size = 0.0
    return float((1 + (float(rate) * size) ** 2 / width) ** -0.5)


def as_free_update(problem: Problem, width: int) -> Problem:
    """The problem whose first update at infinite width is that on spheres at a width, without fluctuations of norms:
    rho (W - g U) = (1 - d) W - rho g U, with the independent decay d = 1 - rho. Itself where weights are free."""
    opt = problem.opt
    if not on_sphere(opt):
        return problem
    rho, rate = brought_back(problem, width), cast(Value, opt.lr)
    lr = tuple(rho * one for one in rate) if isinstance(rate, tuple) else rho * rate
    if isinstance(opt, SignSGD):  # which has no decay; Lion's first direction is the sign
        return replace(problem, opt=Lion(lr, weight_decay=1 - rho, independent=True))
    free = replace(opt, lr=lr, sphere=False, weight_decay=1 - rho, independent=True)  # type: ignore[type-var]
    return replace(problem, opt=free)


def of_rank_one(problem: Problem) -> Problem:
    """The problem without spheres, by a tp.NormalizedSGD where tp.Muon does the same in its first update and takes
    longer: gradients of linear networks are of rank one where loss derivatives lie in a plane, of one output, one
    sample, or inputs that are multiples of one."""
    opt: Value = problem.opt
    if isinstance(opt, Muon) and not opt.newton_schulz_steps and problem.net.is_linear:
        opt = NormalizedSGD(opt.lr, weight_decay=opt.weight_decay, independent=opt.independent)
    return replace(problem, opt=replace(opt, sphere=False) if on_sphere(opt) else opt)
